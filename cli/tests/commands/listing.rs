//! `svmio ls` and `svmio stat`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;
use svmio_svm::SegmentSize;

use crate::setting::{Setting, noise, text};

#[test]
fn directories_and_files_are_listed() {
    let setting = Setting::new();
    fs::create_dir(setting.store_path()).unwrap();
    assert_eq!(setting.printed(&["ls"]), "");
    assert_eq!(setting.json(&["ls", "--json"]), json!([]));
    setting.put_segmented("/results/step2", &noise(100_000, 1), SegmentSize::MIN);
    setting.put("/results/deep/er/step1", b"");
    setting.put("/top", &noise(1536, 1));

    for root in [&["ls"][..], &["ls", "/"], &["ls", "svm:"], &["ls", "svm:/results/.."]] {
        assert_eq!(setting.printed(root), "results/\ntop\n", "{root:?}");
    }
    assert_eq!(setting.printed(&["ls", "results"]), "deep/\nstep2\n");
    assert_eq!(setting.printed(&["ls", "results/step2"]), "/results/step2\n");
    let all = "/results/deep/er/step1\n/results/step2\n/top\n";
    assert_eq!(setting.printed(&["ls", "-R"]), all);
    assert_eq!(setting.printed(&["ls", "-R", "svm:/results/deep/"]), "/results/deep/er/step1\n");

    let long = setting.printed(&["ls", "-l"]);
    let lines: Vec<Vec<&str>> = long.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["BYTES", "SIZE", "STORED", "SEGMENTS", "NAME"]);
    assert_eq!(lines[1], ["-", "-", "-", "-", "results/"]);
    assert_eq!(lines[2], ["1536", "1.50", "KiB", "4.00", "KiB", "1/1", "top"]);
    let long = setting.printed(&["ls", "-lR", "/results"]);
    assert!(
        long.contains(" 2/2  /results/step2\n") && long.contains(" 0/0  /results/deep/er/step1"),
        "{long}"
    );
}

#[test]
fn json_has_the_documented_fields() {
    let setting = Setting::new();
    setting.put_segmented("/d/file", &noise(100_000, 1), SegmentSize::MIN);
    let id = setting.store().lookup(&svmio_svm::FileName::new("/d/file").unwrap()).unwrap().to_string();
    let node = setting.store().node().to_string();
    let file = json!({
        "type": "file", "path": "/d/file", "id": id, "size": 100_000, "stored": 102_400,
        "segment_size": 65_536, "segment_size_reason": "asked", "placement": "first_touch", "segments": 2,
        "homes": [{ "node": node, "segments": 2, "stored": 102_400 }],
    });
    let directory = json!({ "type": "directory", "path": "/d" });
    assert_eq!(setting.json(&["ls", "--json"]), json!([directory]));
    assert_eq!(setting.json(&["ls", "--json", "d"]), json!([file]));
    assert_eq!(setting.json(&["ls", "--json", "-R"]), json!([file]));
    assert_eq!(setting.json(&["stat", "--json", "/d/file", "svm:/d"]), json!([file, directory]));
}

#[test]
fn a_name_that_is_no_text_can_be_told_from_json() {
    let setting = Setting::new();
    let name = OsStr::from_bytes(b"/bad\xff");
    let copied = setting
        .svmio()
        .args(["cp", "/proc/version"])
        .arg(OsStr::from_bytes(b"svm:/bad\xff"))
        .output()
        .unwrap();
    assert!(copied.status.success(), "{}", text(&copied.stderr));
    let digits: String = name.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let listed = setting.json(&["ls", "--json"]);
    assert_eq!((&listed[0]["path"], &listed[0]["path_bytes"]), (&json!("/bad\u{fffd}"), &json!(digits)));
    let map = setting.svmio().args(["map", "--json"]).arg(name).output().unwrap();
    let map: serde_json::Value = serde_json::from_slice(&map.stdout).unwrap();
    assert_eq!(map["path_bytes"], json!(digits));
}

#[test]
fn stat_tells_exact_bytes_and_readable_ones() {
    let setting = Setting::new();
    setting.put_segmented("/file", &noise(100_000, 1), SegmentSize::MIN);
    let printed = setting.printed(&["stat", "svm:file"]);
    for expected in [
        "Path: /file",
        "Size: 100000 bytes (97.66 KiB)",
        "Stored: 102400 bytes (100.00 KiB)",
        "Segment size: 65536 bytes (64.00 KiB)",
        "Size chosen: as asked for",
        "Placement: first_touch",
        "Segments: 2 of 2",
        ": 2 segments, 102400 bytes",
    ] {
        assert!(printed.contains(expected), "{expected:?} in {printed}");
    }
}

#[test]
fn a_damaged_file_is_listed_with_its_damage() {
    let setting = Setting::new();
    setting.put("/bad", b"x");
    setting.put("/good", b"x");
    fs::write(setting.object("/bad").join("manifest"), "nonsense").unwrap();
    assert_eq!(setting.printed(&["ls"]), "bad\ngood\n");
    for arguments in [&["ls", "-l"][..], &["ls", "--json"], &["stat", "--json", "/bad", "/good"]] {
        let output = setting.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            text(&output.stderr).contains("of /bad is damaged"),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        if arguments.contains(&"--json") {
            let records: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((&records[0]["type"], &records[1]["type"]), (&json!("damaged"), &json!("file")));
            assert!(records[0]["error"].as_str().unwrap().contains("damaged"));
        }
    }
}
