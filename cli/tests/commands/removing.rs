//! `svmio rm`.

use svmio_svm::{FileName, FileOffset, OpenOptions};

use crate::setting::Setting;

#[test]
fn files_go_and_directories_with_them() {
    let setting = Setting::new();
    for name in ["/a/b/1", "/a/b/2", "/a/3", "/4"] {
        setting.put(name, b"x");
    }
    setting.printed(&["rm", "svm:/a/b/1"]);
    assert_eq!(setting.printed(&["ls", "-R"]), "/4\n/a/3\n/a/b/2\n");
    let message = setting.complaint(1, &["rm", "/a"]);
    assert!(message.contains("/a is a directory") && message.contains("-r"), "{message}");
    setting.printed(&["rm", "-r", "a/"]);
    assert_eq!(setting.printed(&["ls"]), "4\n");
    setting.printed(&["rm", "-r", "/"]);
    assert_eq!((setting.printed(&["ls"]).as_str(), setting.object_count()), ("", 0));
}

#[test]
fn all_files_go_only_where_the_root_is_written_as_such() {
    let setting = Setting::new();
    for name in ["/a", "/b/c"] {
        setting.put(name, b"x");
    }
    for root in ["", "svm:", ".", "./", "b/..", "//", "svm:b/.."] {
        // Nothing of what is named beside it goes either.
        let message = setting.complaint(2, &["rm", "-rf", "/a", root]);
        assert!(message.contains("root") && message.contains("rm -r /"), "{root}: {message}");
    }
    for command in ["ls", "stat", "map", "cat", "verify"] {
        let message = setting.complaint(2, &[command, ""]);
        assert!(message.contains("it is empty"), "{command}: {message}");
    }
    setting.complaint(2, &["mv", "", "/d"]);
    setting.complaint(2, &["mv", "/b/c", ""]);
    assert_eq!(setting.printed(&["ls", "-R"]), "/a\n/b/c\n");
    setting.printed(&["verify"]);
    setting.printed(&["rm", "-r", "svm:/"]);
    assert_eq!((setting.printed(&["ls"]).as_str(), setting.object_count()), ("", 0));
}

#[test]
fn what_is_missing_is_a_failure_unless_forced() {
    let setting = Setting::new();
    setting.put("/a", b"x");
    setting.complaint(1, &["rm", "/none"]);
    setting.printed(&["rm", "-f", "/none", "/none/deeper", "/a"]);
    assert_eq!(setting.object_count(), 0);
    setting.put("/a", b"x");
    let message = setting.complaint(1, &["rm", "-f", "/a/b"]);
    assert!(message.contains("is a file"), "{message}");
}

#[test]
fn a_store_that_is_not_there_is_a_failure_unless_forced() {
    let setting = Setting::new();
    let message = setting.complaint(1, &["rm", "/a"]);
    assert!(message.contains("there is no store"), "{message}");
    setting.printed(&["rm", "-f", "/a"]);
    setting.printed(&["rm", "-rf", "/"]);
    assert!(!setting.store_path().exists(), "nothing comes into being");
    setting.put("/a", b"x");
    let store = setting.store_path();
    let both = ["--store", store.to_str().unwrap(), "--store", "/nowhere/store", "/a"];
    setting.complaint(1, &[&["rm"][..], &both].concat());
    assert_eq!(setting.object_count(), 1);
    setting.printed(&[&["rm", "-f"][..], &both].concat());
    assert_eq!(setting.object_count(), 0);
}

#[test]
fn whoever_has_a_removed_file_open_keeps_it() {
    let setting = Setting::new();
    setting.put("/a", b"kept");
    let name = FileName::new("/a").unwrap();
    let file = setting.store().open_file(&name, &OpenOptions::reading()).unwrap();
    setting.printed(&["rm", "/a"]);
    setting.complaint(1, &["cat", "/a"]);
    setting.printed(&["verify"]);
    let mut bytes = [0; 4];
    file.read_at(FileOffset(0), &mut bytes).unwrap();
    assert_eq!(&bytes, b"kept");
    drop(file);
    assert_eq!(setting.object_count(), 0);
}
