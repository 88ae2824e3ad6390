//! `svmio mv`.

use svmio_svm::{FileName, FileOffset, OpenOptions};

use crate::setting::{Setting, text};
use crate::several_stores::Nodes;

#[test]
fn files_get_other_names_and_directories_with_them() {
    let setting = Setting::new();
    for name in ["/a/1", "/a/b/2", "/3"] {
        setting.put(name, name.as_bytes());
    }
    setting.printed(&["mv", "svm:/3", "svm:/c/d/4"]);
    setting.printed(&["mv", "/c/d/4", "/a"]);
    assert_eq!(setting.printed(&["ls", "-R"]), "/a/1\n/a/4\n/a/b/2\n");
    setting.printed(&["mv", "/a", "/e"]);
    setting.printed(&["mv", "/e/b", "/f/"]);
    assert_eq!(setting.printed(&["ls", "-R"]), "/e/1\n/e/4\n/f/b/2\n");
    assert_eq!(setting.printed(&["cat", "/e/4", "/e/1", "/f/b/2"]), "/3/a/1/a/b/2");
    setting.printed(&["verify"]);
}

#[test]
fn an_older_file_stays_unless_it_is_to_go() {
    let setting = Setting::new();
    setting.put("/new", b"new");
    setting.put("/old", b"old");
    let message = setting.complaint(1, &["mv", "/new", "/old"]);
    assert!(message.contains("svm:/old exists already") && message.contains("-f"), "{message}");
    assert_eq!(setting.printed(&["cat", "/new", "/old"]), "newold");

    let old = setting.store().open_file(&FileName::new("/old").unwrap(), &OpenOptions::reading()).unwrap();
    setting.printed(&["mv", "-f", "/new", "/old"]);
    assert_eq!(setting.printed(&["ls"]), "old\n");
    assert_eq!(setting.printed(&["cat", "/old"]), "new");
    let mut bytes = [0; 3];
    old.read_at(FileOffset(0), &mut bytes).unwrap();
    assert_eq!(&bytes, b"old");
    drop(old);
    assert_eq!(setting.object_count(), 1);
}

#[test]
fn what_cannot_be_is_told() {
    let setting = Setting::new();
    setting.put("/a/1", b"x");
    let told = |words: &[&str], what: &str| {
        let message = setting.complaint(1, words);
        assert!(message.contains(what), "{words:?}: {message}");
    };
    told(&["mv", "/none", "/b"], "/none");
    told(&["mv", "/a", "/a/b"], "into itself");
    told(&["mv", "/", "/b"], "into itself");
    told(&["mv", "/a/1", "/a/1"], "the same file");
    told(&["mv", "/a/1", "/a/1/2"], "is a file");
    setting.complaint(2, &["mv", "/a/1"]);
    assert_eq!(setting.printed(&["ls", "-R"]), "/a/1\n");
}

#[test]
fn nothing_is_moved_out_of_the_store_or_into_it() {
    let setting = Setting::new();
    setting.put("/a", b"x");
    for words in [["svm:/a", "/b"], ["/a", "svm:/b"], ["svm:/a", "b/"], ["SVM:/none", "/b"]] {
        let message = setting.complaint(2, &["mv", words[0], words[1]]);
        assert!(message.contains("before both") && message.contains("svmio cp"), "{words:?}: {message}");
    }
    assert_eq!(setting.printed(&["ls", "-R"]), "/a\n");
    setting.printed(&["mv", "SVM:/a", "svm:/b"]);
    setting.printed(&["mv", "b", "/c"]);
    assert_eq!(setting.printed(&["cat", "/c"]), "x");
}

#[test]
fn a_file_of_several_nodes_keeps_its_name() {
    let nodes = Nodes::new();
    nodes.put("/f", &[1; 200_000]);
    let path = nodes.path("a");
    let moved =
        |words: &[&str]| nodes.setting.svmio().arg("mv").arg("--store").arg(&path).args(words).output();
    let output = moved(&["/f", "/g"]).unwrap();
    let message = text(&output.stderr);
    assert!(!output.status.success() && message.contains("svmio cp"), "{message}");
    nodes.store("a").lookup(&FileName::new("/f").unwrap()).unwrap();

    let options = OpenOptions::read_write().create(true);
    drop(nodes.store("b").open_file(&FileName::new("/of-b").unwrap(), &options).unwrap());
    let output = nodes.command("ab", &["mv", "/of-b", "/b"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    nodes.store("b").lookup(&FileName::new("/b").unwrap()).unwrap();
}

#[test]
fn of_two_files_of_one_name_none_is_moved() {
    let nodes = Nodes::new();
    let options = OpenOptions::read_write().create(true);
    let put = |node: &str, name: &str| {
        drop(nodes.store(node).open_file(&FileName::new(name).unwrap(), &options).unwrap());
    };
    put("a", "/f");
    put("b", "/f");
    put("b", "/g");
    let told = |words: &[&str]| {
        let output = nodes.command("ab", words).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", text(&output.stdout));
        text(&output.stderr)
    };
    assert!(told(&["mv", "/f", "/h"]).contains("another one on node"));
    put("a", "/of-a");
    assert!(told(&["mv", "/of-a", "/g"]).contains("-f"));
    assert!(told(&["mv", "-f", "/of-a", "/g"]).contains("on different nodes"));
    for (node, name) in [("a", "/f"), ("a", "/of-a"), ("b", "/f"), ("b", "/g")] {
        nodes.store(node).lookup(&FileName::new(name).unwrap()).unwrap();
    }
}

#[test]
fn what_is_left_of_a_removed_file_is_in_nobodys_way() {
    let nodes = Nodes::new();
    nodes.put("/f", &[1; 200_000]);
    let run = |stores: &str, words: &[&str]| {
        let output = nodes.command(stores, words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    // The stores of a and c have something left of it.
    run("b", &["rm", "-f", "/f"]);
    let options = OpenOptions::read_write().create(true);
    for name in ["/f", "/x"] {
        drop(nodes.store("b").open_file(&FileName::new(name).unwrap(), &options).unwrap());
    }
    run("abc", &["mv", "/f", "/g"]);
    run("abc", &["mv", "/x", "/f"]);
    assert_eq!(run("abc", &["ls"]), "f\ng\n");
}
