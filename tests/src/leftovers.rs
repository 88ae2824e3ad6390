//! Removing what a test run that was killed left behind: processes of its jobs and in its hosts, and directories.

use std::path::Path;
use std::sync::Once;

pub(crate) use svmio_leftovers::own_mark;

use crate::{hosts, job, processes};

/// A directory outside of `/dev/shm`, of which each host has its own, that tells whose it is.
pub(crate) fn directory() -> tempfile::TempDir {
    directory_in(&std::env::temp_dir()).expect("the directory for temporary files can be written to")
}

/// A directory that tells whose it is.
pub(crate) fn directory_in(place: &Path) -> std::io::Result<tempfile::TempDir> {
    svmio_leftovers::directory(place, &own_mark(), "")
}

/// Removes what belongs to processes that are no more.
///
/// # Panics
/// Where the machine's processes cannot be listed, or one does not end.
pub(crate) fn remove() {
    let left = svmio_leftovers::orphaned_processes(&[hosts::MARK, job::MARK]).expect("/proc can be read");
    processes::kill_all(&left);
    svmio_leftovers::remove_directories();
}

/// The same, the first time that this process asks for it.
pub(crate) fn remove_once() {
    static REMOVED: Once = Once::new();
    REMOVED.call_once(remove);
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_of_killed_runs_are_killed() {
        for variable in [job::MARK, hosts::MARK] {
            let mut ended = Command::new("true").spawn().unwrap();
            let orphaned = own_mark().replacen(&std::process::id().to_string(), &ended.id().to_string(), 1);
            ended.wait().unwrap();
            let mut left = Command::new("sh");
            left.args(["-c", "echo; exec sleep 600"]).env(variable, format!("{orphaned}.1"));
            let mut left = left.stdout(Stdio::piped()).spawn().unwrap();
            // It has become the program, whose environment tells, when it says something; whoever kills it, does it right.
            let _ = std::io::Read::read(left.stdout.as_mut().unwrap(), &mut [0]);
            remove();
            assert!(!left.wait().unwrap().success(), "{variable}");
        }
    }
}
