//! `svmio barrier tune`: what it names, and what it writes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::access::{run_as_nobody_by, set_mode};
use crate::barrier::{names, with_profile};
use crate::setting::{PROGRAM, Setting, need_root, text};

/// Twenty-four ranks dealt out to five nodes one by one: consecutive ones are never neighbours.
fn with_dealt_out_ranks() -> Setting {
    let setting = Setting::new();
    let matrix = |near: u32, far: u32| -> Value {
        let cost = move |from: u32, to: u32| match () {
            () if from == to => 40,
            () if from % 5 == to % 5 => near,
            () => far,
        };
        (0..24).map(|from| (0..24).map(|to| cost(from, to)).collect::<Value>()).collect()
    };
    let (overheads, latencies) = (matrix(300, 18_000), matrix(80, 4_800));
    let profile = json!({"format": "svmio profile 1", "overhead_ns": overheads, "latency_ns": latencies});
    fs::write(setting.outside("machine.json"), profile.to_string()).unwrap();
    setting
}

#[test]
fn what_the_tuner_names_is_the_same_barrier_to_every_command() {
    let setting = with_dealt_out_ranks();
    let profile = ["--profile", "machine.json", "--json"];
    // The profile's five nodes, and four of consecutive ranks.
    for (per_node, signals) in [(&[][..], 53), (&["--per-node", "6"], 48)] {
        let group = [&profile[..], per_node].concat();
        let tuned = setting.json(&[&["barrier", "tune", "--top", "1000"], &group[..]].concat());
        let named = names(&tuned["candidates"]);
        assert!(named.contains(&"two-level:dissemination"), "{per_node:?}: {named:?}");
        let predicted = setting.json(&[&["barrier", "predict"], &named[..], &group].concat());
        let same = |row: &Value, other: &Value| {
            ["algorithm", "signals", "predicted_seconds"].iter().all(|&key| row[key] == other[key])
        };
        let predicted = predicted["barriers"].as_array().unwrap();
        for row in tuned["candidates"].as_array().unwrap() {
            let is_again = predicted.iter().any(|other| same(row, other));
            assert!(is_again, "{per_node:?}: {row} is none of {predicted:?}");
        }
        let shown = setting.json(&[&["barrier", "show", "two-level:dissemination"], &group[..]].concat());
        assert_eq!(shown["signals"], signals, "{per_node:?}");
    }
}

#[test]
fn a_tuned_barrier_is_written_whole_or_not_at_all() {
    let setting = with_profile();
    fs::write(setting.outside("best.json"), "what was there").unwrap();
    // No file gets a byte there.
    let mut command = Command::new("bash");
    let script = r#"trap "" XFSZ; ulimit -f 0; exec "$@""#;
    command.args(["-c", script, "bash", PROGRAM, "barrier", "tune", "--profile", "machine.json"]);
    let output = setting.with_store(command).args(["--output", "best.json"]).output().unwrap();
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("writing best.json: "), "{complaint}");
    assert_eq!(fs::read_to_string(setting.outside("best.json")).unwrap(), "what was there");
    assert_eq!(setting.names_outside(), ["best.json", "machine.json"]);

    let empty = r#"{"format": "svmio profile 1", "overhead_ns": [], "latency_ns": []}"#;
    fs::write(setting.outside("empty.json"), empty).unwrap();
    let nothing = ["barrier", "tune", "--profile", "empty.json", "--output", "best.json"];
    assert!(setting.complaint(1, &nothing).contains("of no ranks"));
}

#[test]
fn a_tuned_barrier_goes_wherever_it_may_be_written() {
    need_root("runs the program as another user");
    let setting = with_profile();
    set_mode(&setting.outside(""), 0o555);
    set_mode(&setting.outside("machine.json"), 0o644);
    let tuned = |output: &OsStr| {
        let arguments = ["barrier", "tune", "--profile", "machine.json", "--output"];
        run_as_nobody_by(&setting, &arguments, |command| command.arg(output))
    };
    // A file that may be written, where none may be made beside it.
    fs::write(setting.outside("best.json"), "what was there").unwrap();
    set_mode(&setting.outside("best.json"), 0o666);
    assert_eq!(tuned("best.json".as_ref()).status.code(), Some(0));
    let shown = setting.json(&["barrier", "show", "best.json", "--json"]);
    assert_eq!(shown["ranks"], 16);
    // What is no file needs no ending.
    let piped = ["barrier", "tune", "--profile", "machine.json", "--output", "/dev/stdout"];
    let piped = setting.printed(&piped);
    assert!(piped.starts_with('{') && piped.contains("the best first"), "{piped}");

    let unnamed = tuned("none.json".as_ref());
    assert_eq!(unnamed.status.code(), Some(1));
    assert!(text(&unnamed.stderr).contains("writing none.json: Permission denied"), "{unnamed:?}");
    // Before it is measured for long.
    let measured = ["barrier", "profile", "none.json", "--ranks", "2", "--prefix", "false"];
    let refused = run_as_nobody_by(&setting, &measured, |command| command);
    assert!(text(&refused.stderr).contains("writing none.json: Permission denied"), "{refused:?}");

    set_mode(&setting.outside(""), 0o777);
    assert_eq!(tuned(OsStr::from_bytes(b"b\xff.json")).status.code(), Some(0));
    assert!(setting.outside("").join(OsStr::from_bytes(b"b\xff.json")).exists());
}
