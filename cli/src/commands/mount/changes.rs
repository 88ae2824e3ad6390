//! What comes, goes, and gets other names.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fuser::{FileAttr, FileHandle, INodeNo, RenameFlags};
use rustix::io::Errno as Number;
use svmio_svm::{Error, FileName};

use super::attributes::Facts;
use super::files::{Files, Found};
use super::own_handle::OwnHandle;
use super::refused::Answer;
use super::tree::Node;

/// What is to become of a file's or directory's attributes.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) modified: Option<SystemTime>,
}

/// How a file is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Creation {
    /// It is to be a new one.
    pub(super) exclusive: bool,
    /// One that is there is to be empty: the kernel takes it for a new one, and does not see to that.
    pub(super) truncating: bool,
}

impl Files {
    /// Sets attributes. Nothing has a mode of its own: that one is set is passed over, as programs copy modes with
    /// files.
    pub(super) fn set_attributes(
        &self,
        number: INodeNo,
        handle: Option<FileHandle>,
        wanted: &Wanted,
    ) -> Answer<FileAttr> {
        if !self.rights.are_of(wanted.user, wanted.group) {
            return Err(Number::PERM.into());
        }
        if let Node::File(id, _) = self.node(number)?
            && (wanted.size.is_some() || wanted.modified.is_some())
        {
            let opened = handle.map(|handle| self.opened(handle)).transpose()?;
            let known = self.opener.known_own(id).filter(|open| open.is_writable());
            let held;
            let file = match &opened {
                Some(opened) if opened.own().is_ok_and(|own| own.is_writable()) => opened.own()?,
                _ => {
                    held = match known {
                        Some(open) => OwnHandle::new(open, true)?,
                        None => self.opener.open_to_change(id, &self.file(number)?.1)?,
                    };
                    &held
                }
            };
            if let Some(size) = wanted.size {
                file.set_size(size)?;
            }
            if let Some(time) = wanted.modified {
                file.set_modified(time)?;
            }
        }
        self.attributes(number, handle)
    }

    /// Makes a file, or opens the one that is there, unless it is to be a new one.
    pub(super) fn create(
        &self,
        parent: INodeNo,
        name: &OsStr,
        how: Creation,
    ) -> Answer<(FileAttr, FileHandle)> {
        let path = self.path_in(parent, name)?;
        if self.directories.modified(&path).is_some() {
            return Err(Number::ISDIR.into());
        }
        let (id, file) = self.opener.create(&self.file_name(&path)?, how.exclusive)?;
        if how.truncating {
            let file = file.own()?;
            if file.access(|file| Ok(file.size()))? > 0 {
                file.set_size(0)?;
            }
        }
        let facts = match self.find(&path)? {
            Some(Found::File(found, facts)) if found == id => facts,
            // Removed since.
            _ => Facts::unknown(),
        };
        let attributes = self.attributes_of(id, &path, &facts);
        Ok((attributes, self.hold(file)))
    }

    /// Makes a directory, which only this mount knows of until it holds a file.
    pub(super) fn make_directory(&self, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        let path = self.path_in(parent, name)?;
        self.opener.own_store()?;
        if self.find(&path)?.is_some() {
            return Err(Number::EXIST.into());
        }
        // Otherwise it would be one that went by another way.
        self.tree.remove_directory(&path);
        self.directories.keep(&path);
        Ok(self.rights.directory(self.tree.tell_directory(&path), SystemTime::now()))
    }

    /// Takes a file's name away; who has it open keeps it.
    pub(super) fn remove_file(&self, parent: INodeNo, name: &OsStr) -> Answer<()> {
        let path = self.path_in(parent, name)?;
        let name = self.file_name(&path)?;
        self.keeping_around(&path, &name, || self.stores.remove(&name, false))
    }

    /// Removes a directory that is empty: one that this mount knows of, or that a killed program has left in the store.
    pub(super) fn remove_directory(&self, parent: INodeNo, name: &OsStr) -> Answer<()> {
        let path = self.path_in(parent, name)?;
        self.check_empty(&path)?;
        let directory = self.names.directory(&path)?;
        let mut was_left = false;
        for store in self.stores.stores() {
            was_left |= store.remove_empty(&directory)?;
        }
        if !self.directories.remove(&path) && !was_left {
            // It is in another host's store, or gone.
            let number = if self.find(&path)?.is_some() { Number::ROFS } else { Number::NOENT };
            return Err(number.into());
        }
        self.tree.remove_directory(&path);
        Ok(())
    }

    /// Brings to the storage device which names a directory holds, in the stores of this machine.
    pub(super) fn sync_directory(&self, number: INodeNo) -> Answer<()> {
        let path = match self.node(number) {
            Ok(Node::Directory(path)) => path,
            // It is gone, and what was in it with it.
            _ => PathBuf::new(),
        };
        let directory = self.names.directory(&path)?;
        for store in self.stores.stores() {
            store.sync_directory(&directory)?;
        }
        Ok(())
    }

    /// Gives a file, or a directory with all that is in it, another name.
    pub(super) fn rename(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Answer<()> {
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return Err(Number::INVAL.into());
        }
        let replacing = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let (from, to) = (self.path_in(parent, name)?, self.path_in(new_parent, new_name)?);
        match (self.find(&from)?, self.find(&to)?) {
            (None, _) => Err(Number::NOENT.into()),
            (_, Some(_)) if !replacing => Err(Number::EXIST.into()),
            (Some(Found::File(..)), Some(Found::Directory(_))) => Err(Number::ISDIR.into()),
            (Some(Found::Directory(_)), Some(Found::File(..))) => Err(Number::NOTDIR.into()),
            (Some(Found::File(..)), _) => {
                self.rename_file(&from, &to, replacing)?;
                self.tree.turn(&from, &to);
                Ok(())
            }
            (Some(Found::Directory(_)), replaced) => {
                if replaced.is_some() {
                    self.check_empty(&to)?;
                }
                self.rename_directory(&from, &to)
            }
        }
    }

    fn rename_file(&self, from: &Path, to: &Path, replacing: bool) -> Answer<()> {
        let (store, old, new) = (self.opener.own_store()?, self.file_name(from)?, self.file_name(to)?);
        self.keeping_around(from, &old, || store.rename(&old, &new, replacing))
    }

    /// Lets `act` take a file from its name. The directories around it are kept before that: in the store they go with
    /// the name, and freeing what the file took up may take long after that.
    fn keeping_around(
        &self,
        path: &Path,
        name: &FileName,
        act: impl FnOnce() -> Result<(), Error>,
    ) -> Answer<()> {
        let added = self.directories.keep_around(path);
        let outcome = act();
        match &outcome {
            Ok(()) => self.directories.touch_around(path),
            // Somebody else was faster.
            Err(Error::NoSuchFile { .. }) => self.directories.take_back(added),
            // It has lost its name, and only what it took up is not free.
            Err(_) if matches!(self.stores.lookup(name), Err(Error::NoSuchFile { .. })) => {}
            Err(_) => self.directories.take_back(added),
        }
        Ok(outcome?)
    }

    /// Stores know no directories: each file gets another name. Where one cannot, those before it have theirs.
    fn rename_directory(&self, from: &Path, to: &Path) -> Answer<()> {
        self.opener.own_store()?;
        let files = match self.stores.files(&self.names.directory(from)?) {
            Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => Vec::new(),
            files => files?,
        };
        self.directories.keep(from);
        for (name, _) in files {
            let Some(path) = self.names.path_of(&name) else { continue };
            let Ok(rest) = path.strip_prefix(from) else { continue };
            self.rename_file(path, &to.join(rest), false)?;
        }
        self.directories.turn(from, to);
        self.tree.turn(from, to);
        Ok(())
    }

    fn check_empty(&self, path: &Path) -> Answer<()> {
        match self.find(path)? {
            None => Err(Number::NOENT.into()),
            Some(Found::File(..)) => Err(Number::NOTDIR.into()),
            Some(Found::Directory(_)) => {
                let is_empty = self.entries(path)?.is_empty() && self.directories.within(path).is_empty();
                if is_empty { Ok(()) } else { Err(Number::NOTEMPTY.into()) }
            }
        }
    }

    fn file_name(&self, path: &Path) -> Answer<FileName> {
        Ok(self.names.file(path)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use svmio_svm::{FileOffset, OpenOptions, SegmentSize, Store, StoreSet};

    use super::*;
    use crate::commands::mount::attributes::Rights;
    use crate::commands::mount::names::Names;

    fn of(store: &Store) -> Files {
        let stores = StoreSet::new(store.clone(), []).unwrap();
        let rights = Rights::of(&stores, false).unwrap();
        Files::new(stores, Names::below(OsStr::new("/")).unwrap(), rights, false)
    }

    #[test]
    fn a_file_that_another_has_just_made_is_truncated_if_that_is_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let options = OpenOptions::read_write().create(true);
        let other = store.open_file(&FileName::new("/f").unwrap(), &options).unwrap();
        other.set_size(10).unwrap();
        let files = of(&store);
        for (truncating, size) in [(false, 10), (true, 0)] {
            let how = Creation { exclusive: false, truncating };
            let (attributes, _) = files.create(INodeNo::ROOT, OsStr::new("f"), how).unwrap();
            assert_eq!((attributes.size, other.size()), (size, size));
        }
    }
    fn put(store: &Store, name: &str, segments: u64) {
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        let file = store.open_file(&FileName::new(name).unwrap(), &options).unwrap();
        for segment in 0..segments {
            file.write_at(FileOffset(segment * SegmentSize::MIN.bytes()), b"x").unwrap();
        }
        file.commit(false).unwrap();
    }

    fn is_there(files: &Files, path: &str) -> bool {
        files.find(Path::new(path)).unwrap().is_some()
    }

    fn numbered(files: &Files, path: &str) -> INodeNo {
        files.tree.tell_directory(Path::new(path))
    }

    #[test]
    fn a_directory_is_there_while_its_last_file_is_removed_or_replaces_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let files = of(&store);
        let (inner, outer) = (numbered(&files, "a/b"), numbered(&files, "c"));
        let (f, g) = (OsStr::new("f"), OsStr::new("g"));
        let remove = || files.remove_file(inner, f);
        let replace = || files.rename((inner, f), (outer, g), RenameFlags::empty());
        for act in [&remove as &(dyn Fn() -> Answer<()> + Sync), &replace] {
            // Freeing so many takes far longer than looking.
            put(&store, "/a/b/f", 1000);
            put(&store, "/c/g", 1000);
            std::thread::scope(|scope| {
                let acting = scope.spawn(act);
                while !acting.is_finished() {
                    assert!(is_there(&files, "a/b"));
                }
                acting.join().unwrap().unwrap();
            });
            files.directories.remove(Path::new("a/b"));
            files.directories.remove(Path::new("a"));
            assert!(!is_there(&files, "a"), "it is nowhere but here");
        }
    }

    #[test]
    fn a_directory_stays_if_its_file_has_lost_its_name_and_goes_otherwise() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let files = of(&store);
        let parent = numbered(&files, "a");
        let name = FileName::new("/a/f").unwrap();
        put(&store, "/a/f", 1);
        let id = store.lookup(&name).unwrap().to_string();
        // It cannot be taken for one that is gone.
        let state = directory.path().join("objects").join(&id).join("state");
        fs::remove_file(&state).unwrap();
        fs::create_dir(&state).unwrap();
        files.remove_file(parent, OsStr::new("f")).unwrap_err();
        assert!(files.directories.modified(Path::new("a")).is_none() && is_there(&files, "a/f"));
        fs::remove_dir(&state).unwrap();
        // What it takes up cannot be freed.
        let in_the_way = directory.path().join("deleted").join(&id);
        fs::create_dir(&in_the_way).unwrap();
        fs::write(in_the_way.join("file"), "").unwrap();
        files.remove_file(parent, OsStr::new("f")).unwrap_err();
        assert!(!is_there(&files, "a/f") && is_there(&files, "a"));

        assert_eq!(files.remove_file(numbered(&files, "b"), OsStr::new("f")), Err(Number::NOENT.into()));
        assert!(!is_there(&files, "b"));
    }
}
