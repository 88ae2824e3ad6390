//! `svmio barrier tune`: what it names, and what it writes.

use std::fs;
use std::process::Command;

use crate::barrier::with_profile;
use crate::setting::{PROGRAM, text};

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
