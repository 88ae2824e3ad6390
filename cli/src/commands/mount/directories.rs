//! Directories that are there without a file.
//!
//! In stores, directories come with their first file and go with their last. Programs make them first, and find them
//! there when they have removed what was in them: so those that somebody made here, and those that lost their last file
//! here, stay until they are removed here, or the mount ends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Such directories, by their paths below the mount point.
#[derive(Debug, Default)]
pub(super) struct Directories {
    /// Each with the time when it was last changed.
    made: Mutex<BTreeMap<PathBuf, SystemTime>>,
}

/// Those that came to be such directories, and when.
#[derive(Debug)]
#[must_use]
pub(super) struct Added(Vec<(PathBuf, SystemTime)>);

impl Directories {
    /// When the directory was last changed; `None` where it is none of these.
    pub(super) fn modified(&self, path: &Path) -> Option<SystemTime> {
        self.made().get(path).copied()
    }

    /// Makes a directory, or has one stay that is there.
    pub(super) fn keep(&self, path: &Path) {
        if !path.as_os_str().is_empty() {
            self.made().insert(path.to_path_buf(), SystemTime::now());
        }
    }

    /// Has the directories stay that a file is in that is about to go; says which of them were none of these before.
    pub(super) fn keep_around(&self, file: &Path) -> Added {
        let (mut made, now) = (self.made(), SystemTime::now());
        let around = file.ancestors().skip(1).filter(|directory| !directory.as_os_str().is_empty());
        Added(
            around
                .filter(|directory| made.insert(directory.to_path_buf(), now).is_none())
                .map(|directory| (directory.to_path_buf(), now))
                .collect(),
        )
    }

    /// Notes that the file is gone: the directories around it were changed just now, unless they went elsewhere.
    pub(super) fn touch_around(&self, file: &Path) {
        let (mut made, now) = (self.made(), SystemTime::now());
        for directory in file.ancestors().skip(1) {
            if let Some(time) = made.get_mut(directory) {
                *time = now;
            }
        }
    }

    /// Has those of `added` go with their files again that nobody else has wanted to stay since.
    pub(super) fn take_back(&self, Added(added): Added) {
        let mut made = self.made();
        for (directory, since) in added {
            if made.get(&directory) == Some(&since) {
                made.remove(&directory);
            }
        }
    }

    /// Removes a directory. False where it is none of these.
    pub(super) fn remove(&self, path: &Path) -> bool {
        self.made().remove(path).is_some()
    }

    /// The names of those that are in `directory`.
    pub(super) fn within(&self, directory: &Path) -> Vec<OsString> {
        let made = self.made();
        let inner = made.keys().filter(|path| path.parent() == Some(directory));
        inner.filter_map(|path| path.file_name().map(OsString::from)).collect()
    }

    /// Gives the directory `from` and those below it another path.
    pub(super) fn turn(&self, from: &Path, to: &Path) {
        let mut made = self.made();
        let moved: Vec<_> = made.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in moved {
            if let (Some(time), Ok(rest)) = (made.remove(&path), path.strip_prefix(from)) {
                // Not by `join` of nothing, which would end it in a slash.
                let path = if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) };
                made.insert(path, time);
            }
        }
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<PathBuf, SystemTime>> {
        // A panic elsewhere leaves the map whole.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_stay_where_their_files_were_and_go_elsewhere_together() {
        let directories = Directories::default();
        let _ = directories.keep_around(Path::new("a/b/file"));
        assert_eq!(directories.within(Path::new("")), ["a"]);
        assert_eq!(directories.within(Path::new("a")), ["b"]);
        directories.turn(Path::new("a"), Path::new("c/d"));
        assert!(
            directories.modified(Path::new("c/d/b")).is_some()
                && directories.modified(Path::new("a")).is_none()
        );
        assert_eq!(directories.within(Path::new("c")), ["d"]);
        assert!(directories.remove(Path::new("c/d")) && !directories.remove(Path::new("c/d")));
    }
    #[test]
    fn directories_go_again_around_a_file_that_stays_unless_somebody_else_wants_them() {
        let directories = Directories::default();
        directories.keep(Path::new("a"));
        let added = directories.keep_around(Path::new("a/b/c/file"));
        directories.keep(Path::new("a/b"));
        directories.take_back(added);
        let are_kept = ["a", "a/b", "a/b/c"].map(|path| directories.modified(Path::new(path)).is_some());
        assert_eq!(are_kept, [true, true, false]);
    }
}
