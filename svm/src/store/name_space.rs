//! The name space of a store: what is where, and which file a name leads to.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::name::{DirectoryName, FileName, RESERVED_PREFIX};
use crate::object;
use crate::units::FileId;

use super::{Entry, NAMES, Store, entry};

impl Store {
    /// What the directory `name` holds, by name. A file has no identity where its name is damaged, or may not be read.
    ///
    /// # Errors
    /// [`Error::NoSuchFile`] where there is no such directory, [`Error::NotAFile`] where it is a file.
    pub fn list(&self, name: &DirectoryName) -> Result<Vec<Entry>> {
        let path = self.root.join(NAMES).join(name.as_path());
        let directory = fs::read_dir(&path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                Error::NoSuchFile { name: name.to_string(), stores: vec![self.root.to_path_buf()] }
            }
            ErrorKind::NotADirectory => Error::NotAFile {
                name: name.to_string(),
                store: self.root.to_path_buf(),
                reason: "it, or a part of its path, is a file",
            },
            _ => Error::io(format!("listing {name}"), &path, e),
        })?;
        let mut entries = Vec::new();
        for entry in directory {
            let entry = entry.map_err(|e| Error::io(format!("listing {name}"), &path, e))?;
            if entry.file_name().to_string_lossy().starts_with(RESERVED_PREFIX) {
                continue;
            }
            let relative = name.as_path().join(entry.file_name());
            if entry.path().is_dir() {
                entries.push((entry.file_name(), Entry::Directory(DirectoryName::new(&relative)?)));
            } else {
                let name = FileName::from_relative(relative);
                let id = match self.lookup(&name) {
                    Ok(id) => Some(id),
                    Err(Error::CorruptManifest { .. } | Error::Unwritten { .. } | Error::Access { .. }) => {
                        None
                    }
                    // Removed since, or a directory took its place.
                    Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => continue,
                    Err(e) => return Err(e),
                };
                entries.push((entry.file_name(), Entry::File(name, id)));
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    /// When something last came to the directory `name`, or went from it; `None` where there is no such directory: no
    /// file is below it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn directory_modified(&self, name: &DirectoryName) -> Result<Option<SystemTime>> {
        let path = self.root.join(NAMES).join(name.as_path());
        let modified = |metadata: fs::Metadata| match metadata.is_dir() {
            true => metadata.modified().map(Some),
            false => Ok(None),
        };
        match fs::metadata(&path).and_then(modified) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            modified => modified.map_err(|e| Error::io(format!("looking for {name}"), &path, e)),
        }
    }

    /// All files below `directory`, by name, with their identities as in [`Entry::File`].
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn files(&self, directory: &DirectoryName) -> Result<Vec<(FileName, Option<FileId>)>> {
        let mut files = Vec::new();
        for entry in self.list(directory)? {
            match entry {
                Entry::File(name, id) => files.push((name, id)),
                Entry::Directory(inner) => match self.files(&inner) {
                    // Its last file went meanwhile, or it became a file.
                    Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => {}
                    inner => files.extend(inner?),
                },
            }
        }
        Ok(files)
    }

    /// The identity of the file `name`.
    ///
    /// # Errors
    /// [`Error::NoSuchFile`], [`Error::NotAFile`], [`Error::NameTooLong`], [`Error::CorruptManifest`],
    /// [`Error::Unwritten`].
    pub fn lookup(&self, name: &FileName) -> Result<FileId> {
        entry::read(&self.root, name)
    }

    /// Gives the file `id` its name. False where the name is taken.
    pub(crate) fn enter_name(&self, name: &FileName, id: FileId, durable: bool) -> Result<bool> {
        let entry = self.entry(name);
        let parent = entry.parent().expect("an entry lies below the names' directory");
        loop {
            match DirBuilder::new().recursive(true).mode(0o700).create(parent) {
                // A directory went just now, with its last file.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) if e.kind() == ErrorKind::AlreadyExists && !leads_through_file(parent) => continue,
                made => made.map_err(|e| self.name_error(name, e))?,
            }
            let file = match self.new_entry(name, id, durable) {
                // Its last file went just now, and the directory with it.
                Err(Error::NoSuchFile { .. }) => continue,
                file => file?,
            };
            #[cfg(test)]
            crate::killing::point();
            match file.persist_noclobber(&entry) {
                Ok(_) => break,
                Err(e) if e.error.kind() == ErrorKind::AlreadyExists && entry.is_dir() => {
                    return Err(self.name_error(name, io::Error::from(ErrorKind::IsADirectory)));
                }
                Err(e) if e.error.kind() == ErrorKind::AlreadyExists => return Ok(false),
                Err(e) if e.error.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(self.name_error(name, e.error)),
            }
        }
        if durable && let Err(e) = self.sync_directories(name) {
            // Whoever is told that it failed removes the file.
            let _ = fs::remove_file(&entry);
            return Err(e);
        }
        Ok(true)
    }

    /// Gives the file `id` its name again, which it has lost here; says where, unless the name is taken or the file is
    /// being removed.
    ///
    /// # Errors
    /// As [`Store::enter_name`].
    pub(crate) fn give_back_name(&self, name: &FileName, id: FileId) -> Result<Option<PathBuf>> {
        // Who removes a file takes its name and then its object, with the gate held.
        let entered = self.with_object(id, |_| match self.lookup(name) {
            Err(Error::Unwritten { .. }) => Ok(self.write_name_again(name, id).map(|()| true)),
            _ => Ok(self.enter_name(name, id, true)),
        });
        let is_entered = entered.map_err(|e| self.name_error(name, e))?.unwrap_or(Ok(false))?;
        Ok(is_entered.then(|| self.entry(name)))
    }

    /// Has `name`, whose entry is empty, lead to the file `id`, whose gate the caller holds.
    ///
    /// # Errors
    /// As [`Store::enter_name`].
    pub(crate) fn write_name_again(&self, name: &FileName, id: FileId) -> Result<()> {
        // Where the directories cannot be synced, it is right all the same, and an object without a name is reclaimed.
        self.new_entry(name, id, true)?
            .persist(self.entry(name))
            .map_err(|e| self.name_error(name, e.error))?;
        self.sync_directories(name)
    }

    /// Lets `name` lead to the file `to` at once, where it has led to the file `from` or, without one, nowhere. The
    /// caller sees to it that nobody else changes it meanwhile.
    ///
    /// # Errors
    /// As [`Store::enter_name`]; it leads to `from` again then.
    pub(super) fn turn_name(
        &self,
        name: &FileName,
        from: Option<FileId>,
        to: FileId,
        durable: bool,
    ) -> Result<()> {
        let turn = |to| {
            // Its bytes before the name's change, whether that is to last or not: the older entry goes with it.
            let entry = self.new_entry(name, to, true)?;
            #[cfg(test)]
            crate::killing::point();
            let turned = entry.persist(self.entry(name)).map_err(|e| self.name_error(name, e.error));
            #[cfg(test)]
            crate::killing::point();
            turned
        };
        turn(to)?;
        if durable && let Err(e) = self.sync_directories(name) {
            let back = match from {
                Some(from) => turn(from).map(drop),
                None => fs::remove_file(self.entry(name)).map_err(|e| self.name_error(name, e)),
            };
            if let Err(e) = back {
                tracing::warn!("{name} leads to a file that could not be named for good: {e}");
            }
            return Err(e);
        }
        Ok(())
    }

    /// Brings to the storage device which names the directory `name` holds: those that were removed do not come back by
    /// a power cut. It may have gone with the last of them.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sync_directory(&self, name: &DirectoryName) -> Result<()> {
        entry::sync_upwards(&self.root, &self.names().join(name.as_path()), || format!("syncing {name}"))
    }

    /// Whether `name` leads to an object that is not there. Who removes a file takes its name away first, so
    /// that this is damage.
    pub(super) fn is_dangling(&self, name: &FileName) -> Result<bool> {
        match self.lookup(name) {
            Ok(id) => Ok(!object::path(&self.root, id).exists()),
            Err(Error::NoSuchFile { .. }) => Ok(false),
            Err(e) => Err(e),
        }
    }

    pub(crate) fn lost_object(&self, name: &FileName) -> Error {
        Error::CorruptManifest {
            name: name.to_string(),
            path: self.entry(name),
            reason: "the object that it leads to is gone".into(),
        }
    }

    /// Removes the directories that `name` leaves empty.
    pub(crate) fn prune(&self, name: &FileName) {
        for directory in name.as_path().ancestors().skip(1).filter(|d| !d.as_os_str().is_empty()) {
            match fs::remove_dir(self.root.join(NAMES).join(directory)) {
                // Where somebody who verifies the store was faster, the ones above it may be left to be removed.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                // Not empty, most often; then the ones above it are not either.
                Err(_) => break,
                Ok(()) => {}
            }
        }
    }

    /// Removes the directory `name`, which holds nothing: a killed program may have left it. False where there is none,
    /// and of the root, which stays.
    ///
    /// # Errors
    /// [`Error::Io`] with what the operating system says, as of one that is not empty.
    pub fn remove_empty(&self, name: &DirectoryName) -> Result<bool> {
        if *name == DirectoryName::root() {
            return Ok(false);
        }
        let path = self.root.join(NAMES).join(name.as_path());
        match fs::remove_dir(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true).map_err(|e| Error::io(format!("removing {name}"), &path, e)),
        }
    }

    pub(super) fn entry(&self, name: &FileName) -> PathBuf {
        entry::path(&self.root, name)
    }

    fn new_entry(&self, name: &FileName, id: FileId, durable: bool) -> Result<NamedTempFile> {
        entry::new(&self.root, name, id, durable)
    }

    pub(super) fn sync_directories(&self, name: &FileName) -> Result<()> {
        entry::sync_directories(&self.root, name)
    }

    pub(crate) fn no_such_file(&self, name: &FileName) -> Error {
        entry::no_such_file(&self.root, name)
    }

    pub(super) fn name_error(&self, name: &FileName, error: io::Error) -> Error {
        entry::error(&self.root, name, error)
    }
}

/// Whether a part of `path` is there and no directory.
pub(super) fn leads_through_file(path: &Path) -> bool {
    path.ancestors().any(|part| fs::symlink_metadata(part).is_ok_and(|metadata| !metadata.is_dir()))
}
