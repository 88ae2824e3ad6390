//! What a run of tests, or a benchmark, that was killed left behind: processes, and directories that take memory.
//!
//! ```text
//!   own_mark            ID.START.SPACE of the process that a thing belongs to
//!     in an environment   SVMIO_TESTS_JOB=ID.START.SPACE.7          orphaned_processes finds those whose owner is no more
//!     in a name           /dev/shm/svmio-tests.ID.START.SPACE.aB3   remove_directories removes those
//! ```
//!
//! Nothing else is touched: a mark names its owner by its id and by when it started, since ids come again, and by the
//! space of ids that it is in, as of a container, or of another machine: what is of another space is left to those who
//! can see its owner.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Set in the environment of processes of the tests' jobs.
pub const JOB_MARK: &str = "SVMIO_TESTS_JOB";

/// The same of what runs on the tests' hosts.
pub const HOSTS_MARK: &str = "SVMIO_TESTS_HOSTS";

/// What the names of all directories begin with.
const PREFIX: &str = "svmio-tests.";

/// Where they are: in memory, or where temporary files are.
const MEMORY: &str = "/dev/shm";

/// The mark of this process.
///
/// # Panics
/// Where the kernel does not tell when this process started.
pub fn own_mark() -> String {
    let id = std::process::id();
    let started = start_time(id).expect("this process is alive");
    format!("{id}.{started}.{}", own_space())
}

/// A new directory in `place` that tells by a mark whose it is, and in a word what for.
///
/// # Errors
/// Where `place` cannot be written to.
pub fn directory(place: &Path, mark: &str, what: &str) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(&name(mark, what)).tempdir_in(place)
}

/// A name that tells by a mark whose the directory is, and in a word what for.
pub fn name(mark: &str, what: &str) -> String {
    format!("{PREFIX}{mark}.{what}")
}

/// The processes with a mark in one of these variables of their environment whose owner is no more.
///
/// # Errors
/// Where the machine's processes cannot be listed.
pub fn orphaned_processes(variables: &[&str]) -> io::Result<Vec<i32>> {
    let has_orphaned_mark = |variable: &[u8]| {
        let variable = std::str::from_utf8(variable).ok().and_then(|text| text.split_once('='));
        variable.is_some_and(|(name, mark)| variables.contains(&name) && is_orphaned(mark))
    };
    let ids = fs::read_dir("/proc")?.flatten().filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        // What cannot be read belongs to others, or has ended.
        let environment = fs::read(entry.path().join("environ")).ok()?;
        environment.split(|byte| *byte == 0).any(has_orphaned_mark).then_some(id)
    });
    Ok(ids.collect())
}

/// Removes the directories whose owner is no more, in memory and where temporary files are.
pub fn remove_directories() {
    remove_directories_in(Path::new(MEMORY));
    remove_directories_in(&std::env::temp_dir());
}

/// Removes those in another place, such as one on a disk.
pub fn remove_directories_in(place: &Path) {
    for left in orphaned_directories(place) {
        // Another run may be removing it as well.
        let _ = fs::remove_dir_all(left);
    }
}

/// The directories in `place` whose owner is no more; none where there is no such place.
pub fn orphaned_directories(place: &Path) -> Vec<PathBuf> {
    let is_left = |entry: &fs::DirEntry| {
        entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(is_orphaned)
    };
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries.filter(is_left).map(|entry| entry.path()).collect()
}

/// Whether the process of a mark, `ID.START.SPACE...`, is no more.
fn is_orphaned(mark: &str) -> bool {
    let mut numbers = mark.split('.').map(str::parse::<u64>);
    let (Some(Ok(id)), Some(Ok(started)), Some(Ok(space))) = (numbers.next(), numbers.next(), numbers.next())
    else {
        return false;
    };
    space == own_space() && u32::try_from(id).is_ok_and(|id| start_time(id) != Some(started))
}

/// The space of ids of processes that this one is in: no other one's of this machine, nor of one that shares a file
/// system with it, whose first space has the same number.
fn own_space() -> u64 {
    // Where the kernel has no such spaces, there is one.
    let of_machine = fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino());
    // Where a machine has no name, it is taken for the only one.
    let name = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    of_machine ^ name.get(..16).and_then(|half| u64::from_str_radix(half, 16).ok()).unwrap_or(0)
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

    use super::*;

    /// The mark of a process that has ended.
    fn orphaned() -> String {
        let mut ended = Command::new("true").spawn().unwrap();
        let mark = format!("{}.1.{}", ended.id(), own_space());
        ended.wait().unwrap();
        mark
    }

    #[test]
    fn marks_tell_whose_owner_is_no_more() {
        assert!(is_orphaned(&orphaned()) && is_orphaned(&format!("{}.7.else", orphaned())));
        assert!(!is_orphaned(&own_mark()) && !is_orphaned(&format!("{}.7", own_mark())));
        assert!(!is_orphaned("else") && !is_orphaned("1.else"));
        // Of a container: its owner cannot be seen from here.
        let elsewhere = orphaned().replace(&own_space().to_string(), "1");
        assert!(!is_orphaned(&elsewhere), "{elsewhere}");
    }

    #[test]
    fn only_processes_of_killed_runs_are_found() {
        // Its own: others look for the processes of real runs.
        let variable = format!("SVMIO_TESTS_LEFTOVERS_{}", std::process::id());
        let start = |mark: &str| Command::new("sleep").arg("infinity").env(&variable, mark).spawn().unwrap();
        let mut processes = [start(&format!("{}.3", orphaned())), start(&own_mark())];
        // The environment is a process's own only once it has become the program.
        let has_mark = |id| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap();
            String::from_utf8_lossy(&environment).contains(&variable)
        };
        while !processes.iter().all(|process| has_mark(process.id())) {
            std::thread::yield_now();
        }
        let found = orphaned_processes(&["SVMIO_TESTS_NONE", &variable]).unwrap();
        let left = i32::try_from(processes[0].id()).unwrap();
        for process in &mut processes {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        assert_eq!(found, [left]);
    }

    #[test]
    fn only_directories_of_killed_runs_are_removed() {
        // A place of its own: others sweep the real ones at the same time.
        let place = tempfile::tempdir().unwrap();
        let left = directory(place.path(), &orphaned(), "").unwrap();
        let ours = directory(place.path(), &own_mark(), "ours-").unwrap();
        // The first process has an id that another one had before: it did not start then.
        let of_earlier =
            directory(place.path(), &format!("1.{}.{}", u64::MAX, own_space()), "earlier-").unwrap();
        let of_container = directory(place.path(), "1.7.1", "elsewhere-").unwrap();
        fs::write(left.path().join("file"), "text").unwrap();
        remove_directories_in(place.path());
        let directories = [left, ours, of_earlier, of_container];
        assert_eq!(directories.map(|directory| directory.path().exists()), [false, true, false, true]);
    }
}
