//! The limit of open files, which a job of many processes meets.

use std::process::{Command, Output};

use crate::setting::{PROGRAM, text};

/// What `svmio start` does with 40 shells and their script, when a shell has set the limit by `ulimit` with `options`.
fn started(options: &str, script: &str) -> Output {
    Command::new("sh")
        .args(["-c", &format!("ulimit {options} && exec \"$@\""), "sh", PROGRAM])
        .args(["start", "-n", "40", "--", "sh", "-c", script])
        .output()
        .unwrap()
}

#[test]
fn a_soft_limit_that_is_too_low_is_raised_as_far_as_the_job_takes_it() {
    let output = started("-S -n 32", "ulimit -S -n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "288\n".repeat(40));
    let output = started("-S -n 500", "ulimit -S -n");
    assert_eq!(text(&output.stdout), "500\n".repeat(40));
}

#[test]
fn a_hard_limit_that_is_too_low_is_told_with_the_way_out() {
    let output = started("-n 32", "true");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for word in ["40 processes", "32 is the limit", "ulimit -n 288"] {
        assert!(told.contains(word), "{told}");
    }
}
