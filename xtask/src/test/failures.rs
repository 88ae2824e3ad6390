//! What the tests that failed have said, kept until the end of the check: what is printed last is what is read first,
//! and all that is kept of some logs.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::paths::Paths;

/// How many lines of what a test has said are repeated, and how many characters of each.
const LINES: usize = 15;
const WIDTH: usize = 400;

/// Forgets those of an earlier check.
///
/// # Errors
/// Where they cannot be removed.
pub(super) fn forget(paths: &Paths) -> Result<()> {
    match fs::remove_file(file(paths)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).context("cannot remove what an earlier check kept of failures")
        }
        _ => Ok(()),
    }
}

/// Keeps what failed. Stages are processes of their own, so that this is a file.
///
/// # Errors
/// Where it cannot be written.
pub(super) fn keep(paths: &Paths, failed: &[String]) -> Result<()> {
    let file = file(paths);
    fs::create_dir_all(paths.test_logs()).context("cannot create the folder of the logs")?;
    let kept = OpenOptions::new().create(true).append(true).open(&file);
    let written = kept.and_then(|mut kept| kept.write_all((failed.join("\n") + "\n").as_bytes()));
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// All that was kept in this check.
pub(super) fn kept(paths: &Paths) -> String {
    // None, where nothing has failed.
    fs::read_to_string(file(paths)).unwrap_or_default()
}

/// The first lines of what the failed `test` has said, of the `output` of its program.
pub(super) fn said(output: &str, test: &str) -> String {
    // Of tests that are to panic the harness says so behind the name, here and not there.
    let head = format!("---- {} stdout ----", test.trim_end_matches(" - should panic"));
    let lines = output.lines().skip_while(|line| *line != head).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("---- ") && *line != "failures:");
    let lines = lines.filter(|line| !line.trim().is_empty()).take_while(|line| *line != "stack backtrace:");
    let cut = |line: &str| line.chars().take(WIDTH).collect::<String>();
    lines.take(LINES).map(|line| format!("\n    {}", cut(line))).collect()
}

fn file(paths: &Paths) -> PathBuf {
    paths.test_logs().join("failures")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 2 tests\ntest a::b ... FAILED\ntest c ... FAILED\n\nfailures:\n\n\
        ---- a::b stdout ----\n\nthread 'a::b' panicked at a.rs:3:1:\nwaited for ever\nstack backtrace:\n   0: begin\n\n\
        ---- c stdout ----\nno room\n\n\nfailures:\n    a::b\n    c\n";

    #[test]
    fn of_each_failed_test_what_it_said_is_found() {
        assert_eq!(said(OUTPUT, "a::b"), "\n    thread 'a::b' panicked at a.rs:3:1:\n    waited for ever");
        assert_eq!(said(OUTPUT, "c"), "\n    no room");
        assert_eq!(said(OUTPUT, "c - should panic"), "\n    no room");
        assert_eq!(said(OUTPUT, "b"), "");
        let long = format!("---- d stdout ----\n{}", "line\n".repeat(2 * LINES));
        assert_eq!(said(&long, "d").lines().count(), 1 + LINES);
    }
}
