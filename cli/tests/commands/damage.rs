//! Files damaged in each way that a store can be damaged: `verify` finds them, every command says why.

use std::fs::{self, File};
use std::path::Path;

use serde_json::json;
use svmio_svm::SegmentSize;

use crate::setting::{Setting, noise};

fn cut(path: &Path, length: u64) {
    File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).unwrap();
    let changed = change(text.clone());
    assert_ne!(text, changed);
    fs::write(path, changed).unwrap();
}

/// What is done to a file's directory, and what the message must say.
type Case = (&'static str, fn(&Path), &'static [&'static str]);

const CASES: &[Case] = &[
    (
        "corrupt manifest",
        |object| edit(&object.join("manifest"), |text| text.replace("\"size\": 200000", "\"size\": 200001")),
        &["manifest", "is damaged", "checksum"],
    ),
    (
        "truncated manifest",
        |object| cut(&object.join("manifest"), 100),
        &["manifest", "is damaged", "bytes of"],
    ),
    ("empty manifest", |object| cut(&object.join("manifest"), 0), &["manifest", "is damaged", "first line"]),
    (
        "missing manifest",
        |object| fs::remove_file(object.join("manifest")).unwrap(),
        &["manifest", "is damaged", "missing"],
    ),
    (
        "newer manifest",
        |object| {
            edit(&object.join("manifest"), |text| text.replacen("svmio-manifest 1 ", "svmio-manifest 2 ", 1))
        },
        &["manifest has format version 2", "up to 1", "newer release"],
    ),
    (
        "missing segment",
        |object| fs::remove_file(object.join("segment-0000000001")).unwrap(),
        &["segment 1 of /d/bad is missing", "65536", "put back"],
    ),
    (
        "truncated segment",
        |object| cut(&object.join("segment-0000000002"), 4096),
        &["segment 2 of /d/bad has 4096 bytes instead of 65536"],
    ),
    (
        "missing directory",
        |object| fs::remove_dir_all(object).unwrap(),
        &["is damaged", "directory is missing"],
    ),
    (
        "damaged name",
        // objects/ID of the store
        |object| fs::write(object.ancestors().nth(2).unwrap().join("names/d/bad"), "?").unwrap(),
        &["/d/bad is damaged", "identity"],
    ),
    (
        "name that is no text",
        |object| fs::write(object.ancestors().nth(2).unwrap().join("names/d/bad"), [0xff; 33]).unwrap(),
        &["/d/bad is damaged", "identity"],
    ),
];

#[test]
fn every_damage_is_found_and_explained() {
    for (case, damage, words) in CASES {
        let setting = Setting::new();
        setting.put_segmented("/d/bad", &noise(200_000, 1), SegmentSize::MIN);
        setting.put("/d/good", b"good");
        damage(&setting.object("/d/bad"));
        let check = |message: &str| {
            for word in *words {
                assert!(message.contains(word), "{case}: {word:?} in {message}");
            }
        };

        let output = setting.run(&["verify"]);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{case}: {printed}");
        assert!(printed.contains("damaged: /d/bad: "), "{case}: {printed}");
        assert!(
            printed.ends_with("2 files checked, 1 damaged, 0 leftovers reclaimed\n"),
            "{case}: {printed}"
        );
        check(&printed);
        let unreclaimed = printed.contains("leftovers not reclaimed: what /d/bad led to");
        assert_eq!(unreclaimed, case.contains("name"), "{case}: {printed}");
        for path in ["/d", "svm:/d/bad"] {
            let output = setting.run(&["verify", "--json", path]);
            let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((output.status.code(), &found["clean"]), (Some(1), &json!(false)), "{case}: {path}");
            assert_eq!(found["damaged"][0]["path"], "/d/bad", "{case}: {path}");
            check(found["damaged"][0]["error"].as_str().unwrap());
        }
        assert_eq!(setting.json(&["verify", "--json", "/d/good"])["checked"], json!(["/d/good"]));

        if *case != "missing directory" {
            check(&setting.complaint(1, &["cat", "/d/bad"]));
            check(&setting.complaint(1, &["map", "/d/bad"]));
            check(&setting.complaint(1, &["cp", "svm:/d/bad", "out"]));
        }
        assert!(setting.names_outside().is_empty(), "{case}");
        assert_eq!(setting.printed(&["cat", "/d/good"]), "good", "{case}");
    }
}

#[test]
fn a_damaged_file_can_be_removed() {
    for (case, damage, _) in CASES {
        let setting = Setting::new();
        setting.put_segmented("/d/bad", &noise(200_000, 1), SegmentSize::MIN);
        setting.put("/d/good", b"good");
        damage(&setting.object("/d/bad"));
        setting.printed(&["rm", "-rf", "/d"]);
        assert_eq!(setting.printed(&["ls"]), "", "{case}");
        setting.printed(&["verify"]);
        assert_eq!(setting.object_count(), 0, "{case}");
    }
}

#[test]
fn a_clean_store_is_clean() {
    let setting = Setting::new();
    setting.put("/a", b"x");
    setting.put("/b/c", b"x");
    assert_eq!(setting.printed(&["verify"]), "2 files checked, 0 damaged, 0 leftovers reclaimed\n");
    assert_eq!(setting.printed(&["verify", "b"]), "1 file checked, 0 damaged, 0 leftovers reclaimed\n");
    let expected = json!({ "clean": true, "checked": ["/a", "/b/c"], "damaged": [], "reclaimed": [] });
    assert_eq!(setting.json(&["verify", "--json"]), expected);
    // What a killed program leaves: a file that has lost its name.
    fs::remove_file(setting.store_path().join("names/a")).unwrap();
    let found = setting.json(&["verify", "--json"]);
    assert_eq!((found["reclaimed"].as_array().unwrap().len(), setting.object_count()), (1, 1));
}

#[test]
fn a_damaged_store_is_no_store() {
    let setting = Setting::new();
    setting.put("/a", b"x");
    let description = setting.store_path().join("store.json");
    edit(&description, |text| text.replace("\"version\": 1", "\"version\": 2"));
    for arguments in [&["ls"][..], &["verify"], &["cat", "/a"]] {
        let message = setting.complaint(1, arguments);
        assert!(message.contains("version 2") && message.contains("newer release"), "{message}");
    }
    fs::write(&description, "{").unwrap();
    let message = setting.complaint(1, &["ls"]);
    assert!(message.contains("no svmio store") && message.contains("damaged"), "{message}");
}

#[test]
fn what_a_reboot_took_is_told_by_whoever_opens_the_file_first() {
    for arguments in [&["verify"][..], &["stat", "/f"], &["cat", "/f"]] {
        let setting = Setting::new();
        setting.put_segmented("/f", &noise(100_000, 1), SegmentSize::MIN);
        let object = setting.object("/f");
        // As after a reboot: there is no shared state, and what was not committed may be there or not.
        fs::remove_file(object.join("state")).unwrap();
        fs::write(object.join("segment-0000000003"), vec![1; 65536]).unwrap();
        fs::write(object.join("segment-0000000004"), vec![1; 65536]).unwrap();
        let second = File::options().write(true).open(object.join("segment-0000000001")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&second, &[1; 8192], 57_344).unwrap();
        let output = setting.run(arguments);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        for word in
            ["WARN /f: ", "segment 1, segments 3 to 4", &object.display().to_string(), "write it again"]
        {
            assert!(told.contains(word), "{word:?} in {told}");
        }
        // Once.
        assert_eq!(setting.run(arguments).stderr, b"");
    }
}
