//! Processes that may take only so much memory, pages of files included: a control group of either version.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use svmio_leftovers::{name, orphaned_directories, own_mark};

/// A control group, gone when this is dropped.
#[derive(Debug)]
pub(super) struct Limited {
    directory: PathBuf,
}

impl Limited {
    /// One of so many bytes of memory.
    ///
    /// # Errors
    /// Where this process may not make one: mostly only root may.
    pub(super) fn to(bytes: u64) -> io::Result<Limited> {
        // Version 1 has a hierarchy for memory alone, version 2 one for everything.
        let (root, file) = match Path::new("/sys/fs/cgroup/memory") {
            root if root.is_dir() => (root, "memory.limit_in_bytes"),
            _ => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let limited = Limited { directory: root.join(name(&own_mark(), "benches")) };
        remove_left(root);
        fs::create_dir(&limited.directory)?;
        fs::write(limited.directory.join(file), bytes.to_string())?;
        Ok(limited)
    }

    /// The words to put before a program and its arguments, so that it runs in the group.
    pub(super) fn prefix(&self) -> Vec<OsString> {
        const ENTER: &str = "echo $$ > \"$1\"; shift; exec \"$@\"";
        let processes = self.directory.join("cgroup.procs").into_os_string();
        ["/bin/sh", "-euc", ENTER, "sh"].map(OsString::from).into_iter().chain([processes]).collect()
    }
}

/// Removes the groups of benchmarks that were killed.
fn remove_left(root: &Path) {
    for group in orphaned_directories(root) {
        // Where it cannot be removed, somebody is in it yet.
        let _ = fs::remove_dir(group);
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // Nobody is in it any more; where it cannot be removed, it holds nothing.
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_killed_benchmarks_are_removed_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let own = own_mark();
        let [_, started, space] = *own.split('.').collect::<Vec<_>>() else { panic!("{own}") };
        // Its id is that of a process that started at another time.
        let left = format!("1.{started}.{space}");
        let names = [name(&left, "benches"), name(&own, "benches"), "else".into()];
        let groups = names.map(|name| root.path().join(name));
        groups.iter().for_each(|group| fs::create_dir(group).unwrap());
        remove_left(root.path());
        assert_eq!(groups.map(|group| group.exists()), [false, true, true]);
    }
}
