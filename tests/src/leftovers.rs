//! What a test run that was killed left behind: processes in its hosts, and directories.

use std::fs;

use crate::processes;

const PREFIX: &str = "svmio-tests.";

/// The mark of this process: its id, and when it started, since ids come again.
pub(crate) fn own_mark() -> String {
    let id = std::process::id();
    let started = start_time(id).expect("this process is alive");
    format!("{id}.{started}")
}

/// A directory outside of `/dev/shm`, of which each host has its own, that tells by a mark whose it is.
pub(crate) fn directory(mark: &str) -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix(&format!("{PREFIX}{mark}.")).tempdir();
    directory.expect("the directory for temporary files can be written to")
}

/// Removes what belongs to processes that are no more: directories, and processes with a mark in `variable`.
pub(crate) fn remove(variable: &str) {
    for entry in fs::read_dir("/proc").expect("/proc can be read").flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // What cannot be read belongs to others, or has ended.
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        let mark = environment.split(|byte| *byte == 0).find_map(|one| {
            let (name, value) = std::str::from_utf8(one).ok()?.split_once('=')?;
            (name == variable).then_some(value)
        });
        if mark.is_some_and(is_orphaned) {
            processes::kill_all(&[id]);
        }
    }
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(is_orphaned) {
            // Another test run may be removing it as well.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the process of a mark, `ID.START...`, is no more.
fn is_orphaned(mark: &str) -> bool {
    let mut numbers = mark.split('.').map(str::parse::<u64>);
    let (Some(Ok(id)), Some(Ok(started))) = (numbers.next(), numbers.next()) else { return false };
    u32::try_from(id).is_ok_and(|id| start_time(id) != Some(started))
}

/// When a process that has not ended started, in the kernel's ticks.
fn start_time(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Behind the program's name, which is in parentheses; the 22nd field of all, and the state is the third.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    // A zombie has ended, though nobody has asked how.
    if fields.next()? == "Z" { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{directory, is_orphaned, own_mark, remove};

    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let mut ended = Command::new("true").spawn().unwrap();
        let orphaned = format!("{}.1", ended.id());
        ended.wait().unwrap();
        assert!(is_orphaned(&orphaned) && !is_orphaned(&own_mark()) && !is_orphaned("else"));

        // Its own: what another run of this test starts is not to be removed by this one.
        let variable = format!("SVMIO_TESTS_LEFTOVERS_{}", std::process::id());
        let start = |mark: &str| Command::new("sleep").arg("infinity").env(&variable, mark).spawn().unwrap();
        let (mut left, mut ours) = (start(&orphaned), start(&own_mark()));
        // The environment is a process's own only once it has become the program.
        let has_mark = |id| {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap();
            String::from_utf8_lossy(&environment).contains(&variable)
        };
        while !(has_mark(left.id()) && has_mark(ours.id())) {
            std::thread::yield_now();
        }
        let (left_directory, our_directory) = (directory(&orphaned), directory(&own_mark()));
        remove(&variable);
        assert!(!left.wait().unwrap().success());
        assert!(ours.try_wait().unwrap().is_none());
        assert!(!left_directory.path().exists() && our_directory.path().exists());
        ours.kill().unwrap();
        ours.wait().unwrap();
    }
}
