//! `svmio map`.

use std::process::Command;

use serde_json::json;
use svmio_svm::{FileName, FileOffset, OpenOptions, SegmentSize};

use crate::setting::{PROGRAM, Setting, noise, text};

const SEGMENT: u64 = 64 << 10;

/// A file of 100 segments: the first is full, the third partly stored, all others are holes.
fn holey(setting: &Setting) {
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
    let file = setting.store().open_file(&FileName::new("/file").unwrap(), &options).unwrap();
    file.write_at(FileOffset(0), &noise(SEGMENT as usize, 1)).unwrap();
    file.write_at(FileOffset(2 * SEGMENT + 5000), b"x").unwrap();
    file.set_size(100 * SEGMENT).unwrap();
    file.commit(true).unwrap();
}

#[test]
fn the_picture_shows_what_is_stored() {
    let setting = Setting::new();
    holey(&setting);
    let printed = setting.printed(&["map", "svm:/file"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(
        lines[0].starts_with("/file: 6.25 MiB in 100 segments of 64.00 KiB, 2 of them stored"),
        "{printed}"
    );
    assert_eq!(lines[1], "placement: first_touch; segment size: as asked for");
    // 80 columns less the margin.
    assert_eq!(lines[3], format!("        0 B  █·▒{}", "·".repeat(64)));
    assert_eq!(lines[4], format!("   4.19 MiB  {}", "·".repeat(33)));
    assert!(printed.contains("█ full   ▒ partly stored   · hole"), "{printed}");
    let node = setting.store().node().to_string();
    let home: Vec<&str> = lines.last().unwrap().split_whitespace().collect();
    assert_eq!(home, ["█", &node, "2", "69632", "68.00", "KiB"]);

    let plain = setting.svmio().args(["map", "/file"]).env("LC_ALL", "C").output().unwrap();
    assert!(text(&plain.stdout).contains("0 B  #.+...."), "{}", text(&plain.stdout));
}

#[test]
fn a_terminal_gives_width_and_colours() {
    let setting = Setting::new();
    holey(&setting);
    let on_terminal = |variable: (&str, &str)| {
        let mut script = Command::new("script");
        let command = format!("stty rows 24 cols 50 && {PROGRAM} map /file");
        script.args(["-qec", &command, "/dev/null"]);
        let output = setting
            .with_store(script)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env(variable.0, variable.1)
            .output()
            .expect("script (Debian: bsdutils)");
        assert!(output.status.success(), "{}", text(&output.stdout));
        text(&output.stdout)
    };
    let coloured = on_terminal(("SOMETHING", "ELSE"));
    assert!(coloured.contains("\u{1b}[32m█\u{1b}[0m·"), "{coloured:?}");
    let plain = on_terminal(("NO_COLOR", "1"));
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    assert!(plain.contains(&format!("  █·▒{}\r\n", "·".repeat(34))), "{plain:?}");
}

#[test]
fn json_lists_the_segments() {
    let setting = Setting::new();
    holey(&setting);
    let map = setting.json(&["map", "--json", "/file"]);
    let node = setting.store().node().to_string();
    assert_eq!(
        map["segments"],
        json!([
            { "index": 0, "offset": 0, "home": node, "stored": SEGMENT, "state": "full" },
            { "index": 2, "offset": 2 * SEGMENT, "home": node, "stored": 4096, "state": "partial" },
        ])
    );
    assert_eq!(map["homes"], json!([{ "node": node, "segments": 2, "stored": SEGMENT + 4096 }]));
    assert_eq!(
        (&map["path"], &map["size"], &map["segment_size"], &map["stored"]),
        (&json!("/file"), &json!(100 * SEGMENT), &json!(SEGMENT), &json!(SEGMENT + 4096))
    );
    assert_eq!(map["id"].as_str().unwrap().len(), 32);
}
