//! Which number stands for which file or directory, as long as the kernel knows of it.
//!
//! A file's number is its identity's beginning, so that a name that leads to another file has another number. A
//! directory, which has no identity, gets one when it is first seen, and keeps it where it gets another name, until it is
//! removed or the kernel has forgotten it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fuser::INodeNo;
use svmio_svm::FileId;

/// What a number stands for. Paths are those below the mount point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Directory(PathBuf),
    File(FileId, PathBuf),
}

/// All numbers that are in use.
#[derive(Debug)]
pub(super) struct Tree {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    numbers: HashMap<PathBuf, u64>,
    directories: HashMap<u64, SeenDirectory>,
    /// The directory's number that was given last; none is given twice.
    last: u64,
    files: HashMap<u64, SeenFile>,
}

#[derive(Debug)]
struct SeenDirectory {
    path: PathBuf,
    /// How often the kernel has been told the number, but for those that lists have.
    told: u64,
}

#[derive(Debug)]
struct SeenFile {
    id: FileId,
    path: PathBuf,
    /// How often the kernel has been told the number.
    told: u64,
}

/// What files' numbers have, and those of directories do not.
const FILE: u64 = 1 << 63;

impl Tree {
    /// Of nothing but the mount point.
    pub(super) fn new() -> Tree {
        let tree = Tree { known: Mutex::default() };
        tree.known().enter(PathBuf::new());
        tree
    }

    /// What `number` stands for.
    pub(super) fn node(&self, number: INodeNo) -> Option<Node> {
        let known = self.known();
        let directory = || known.directories.get(&number.0).map(|seen| Node::Directory(seen.path.clone()));
        let file = || known.files.get(&number.0).map(|file| Node::File(file.id, file.path.clone()));
        directory().or_else(file)
    }

    /// The number of the directory `path`, for a list.
    pub(super) fn directory(&self, path: &Path) -> INodeNo {
        INodeNo(self.known().number(path))
    }

    /// Notes that the kernel is told the number of the directory `path`.
    pub(super) fn tell_directory(&self, path: &Path) -> INodeNo {
        let mut known = self.known();
        let number = known.number(path);
        if let Some(seen) = known.directories.get_mut(&number) {
            seen.told += 1;
        }
        INodeNo(number)
    }

    /// Notes that the directory `path` is gone: one that comes there is another one.
    pub(super) fn remove_directory(&self, path: &Path) {
        let mut known = self.known();
        if let Some(number) = known.numbers.remove(path) {
            known.directories.remove(&number);
        }
    }

    /// The number of a file.
    pub(super) fn file(id: FileId) -> INodeNo {
        let bytes = id.to_bytes();
        let beginning = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        INodeNo(beginning | FILE)
    }

    /// Notes that the kernel is told the number of the file `id`, which is at `path` now.
    pub(super) fn tell(&self, id: FileId, path: &Path) -> INodeNo {
        let number = Self::file(id);
        let mut known = self.known();
        let file = known.files.entry(number.0).or_insert(SeenFile { id, path: PathBuf::new(), told: 0 });
        file.told += 1;
        path.clone_into(&mut file.path);
        number
    }

    /// Notes that the kernel has forgotten what it was told so often.
    pub(super) fn forget(&self, number: INodeNo, times: u64) {
        let mut known = self.known();
        if let Some(file) = known.files.get_mut(&number.0) {
            file.told = file.told.saturating_sub(times);
            if file.told == 0 {
                known.files.remove(&number.0);
            }
        }
        let Some(seen) = known.directories.get_mut(&number.0).filter(|_| number != INodeNo::ROOT) else {
            return;
        };
        seen.told = seen.told.saturating_sub(times);
        if seen.told == 0
            && let Some(gone) = known.directories.remove(&number.0)
        {
            known.numbers.remove(&gone.path);
        }
    }

    /// Gives what is at `from`, and below it, the path `to`.
    pub(super) fn turn(&self, from: &Path, to: &Path) {
        let turned = |path: &Path| {
            let rest = path.strip_prefix(from).ok()?;
            // Not by `join` of nothing, which would end it in a slash.
            Some(if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) })
        };
        let mut known = self.known();
        for file in known.files.values_mut() {
            if let Some(path) = turned(&file.path) {
                file.path = path;
            }
        }
        let moved: Vec<_> =
            known.directories.iter().filter_map(|(n, seen)| Some((*n, turned(&seen.path)?))).collect();
        for (number, path) in moved {
            // The directory that was there is gone, and its number with it.
            if let Some(gone) = known.numbers.insert(path.clone(), number) {
                known.directories.remove(&gone);
            }
            let Some(seen) = known.directories.get_mut(&number) else { continue };
            let old = std::mem::replace(&mut seen.path, path);
            if known.numbers.get(&old) == Some(&number) {
                known.numbers.remove(&old);
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic elsewhere leaves the maps whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn number(&mut self, path: &Path) -> u64 {
        let number = self.numbers.get(path).copied();
        number.unwrap_or_else(|| self.enter(path.to_path_buf()))
    }

    fn enter(&mut self, path: PathBuf) -> u64 {
        // The first is the mount point's.
        self.last = (self.last + 1).max(INodeNo::ROOT.0);
        let number = self.last;
        self.numbers.insert(path.clone(), number);
        self.directories.insert(number, SeenDirectory { path, told: 0 });
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_with_what_they_stand_for() {
        let tree = Tree::new();
        assert_eq!(tree.directory(Path::new("")), INodeNo::ROOT);
        let (a, inner) = (tree.directory(Path::new("a")), tree.directory(Path::new("a/b")));
        assert_eq!(tree.directory(Path::new("a")), a);
        let file = tree.tell(FileId::from_bytes([7; 16]), Path::new("a/b/f"));
        tree.turn(Path::new("a"), Path::new("c"));
        assert_eq!(tree.node(a), Some(Node::Directory("c".into())));
        assert_eq!(tree.node(inner), Some(Node::Directory("c/b".into())));
        assert_eq!(tree.node(file), Some(Node::File(FileId::from_bytes([7; 16]), "c/b/f".into())));
        let another = tree.directory(Path::new("a"));
        assert!(another != a && another != inner, "a new directory is another one");
        tree.turn(Path::new("c"), Path::new("a"));
        assert_eq!((tree.node(another), tree.directory(Path::new("a"))), (None, a));
        tree.tell(FileId::from_bytes([7; 16]), Path::new("a/b/f"));
        tree.forget(file, 1);
        assert!(tree.node(file).is_some());
        tree.forget(file, 1);
        assert_eq!(tree.node(file), None);
    }

    #[test]
    fn a_directorys_number_is_given_up_when_it_is_forgotten_or_the_directory_is_gone() {
        let tree = Tree::new();
        let (path, count) = (Path::new("a"), || tree.known().directories.len());
        let first = tree.tell_directory(path);
        assert_eq!((tree.tell_directory(path), tree.directory(path)), (first, first));
        tree.forget(first, 1);
        assert_eq!(tree.node(first), Some(Node::Directory("a".into())));
        tree.forget(first, 1);
        assert_eq!((tree.node(first), count()), (None, 1));
        let second = tree.tell_directory(path);
        tree.remove_directory(path);
        let third = tree.tell_directory(path);
        assert!(first != second && second != third);
        tree.forget(second, 1);
        assert_eq!((tree.node(third), count()), (Some(Node::Directory("a".into())), 2));
        tree.forget(INodeNo::ROOT, 1);
        assert!(tree.node(INodeNo::ROOT).is_some());
    }
}
