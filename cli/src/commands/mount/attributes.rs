//! What files and directories look like from outside.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use fuser::{FileAttr, FileType, INodeNo};
use svmio_svm::{Storage, StoreSet, StoredFile};

use crate::commands::CommandError;

/// Bytes: what the system counts storage in.
const BLOCK: u64 = 512;

/// Bytes: so many at a time are worth an access.
const WORTH_AN_ACCESS: u32 = 1 << 20;

/// Whose everything is, and who may do what: as the store's directory has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights {
    user: u32,
    group: u32,
    mode: u16,
}

/// What there is to tell of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    /// The logical size, bytes.
    pub(super) size: u64,
    pub(super) storage: Storage,
    /// Whether it has a name.
    pub(super) is_named: bool,
}

impl Rights {
    /// Those of the first of the stores on this machine; where there is none, of who mounts. With `for_others`, others
    /// can read at least.
    ///
    /// # Errors
    /// What the operating system says of the store's directory.
    pub(super) fn of(stores: &StoreSet, for_others: bool) -> Result<Rights, CommandError> {
        let mut rights = match stores.stores().first() {
            Some(store) => {
                let metadata = fs::metadata(store.path()).map_err(|source| CommandError::Outside {
                    action: "looking at",
                    path: store.path().to_path_buf(),
                    source,
                })?;
                let mode = (metadata.mode() & 0o777) as u16;
                Rights { user: metadata.uid(), group: metadata.gid(), mode }
            }
            None => Rights {
                user: rustix::process::geteuid().as_raw(),
                group: rustix::process::getegid().as_raw(),
                mode: 0o700,
            },
        };
        if for_others {
            rights.mode |= 0o055;
        }
        Ok(rights)
    }

    /// Whether a file's owner and group may be said to be these.
    pub(super) fn are_of(&self, user: Option<u32>, group: Option<u32>) -> bool {
        user.is_none_or(|user| user == self.user) && group.is_none_or(|group| group == self.group)
    }

    /// A file; what is not known of its times is `otherwise`.
    pub(super) fn file(&self, number: INodeNo, facts: &Facts, otherwise: SystemTime) -> FileAttr {
        let modified = facts.storage.modified.unwrap_or(otherwise);
        FileAttr {
            size: facts.size,
            blocks: facts.storage.allocated.div_ceil(BLOCK),
            kind: FileType::RegularFile,
            perm: self.mode & 0o666,
            nlink: facts.is_named.into(),
            ..self.directory(number, modified)
        }
    }

    /// A directory.
    pub(super) fn directory(&self, number: INodeNo, modified: SystemTime) -> FileAttr {
        FileAttr {
            ino: number,
            size: 0,
            blocks: 0,
            atime: modified,
            mtime: modified,
            ctime: modified,
            crtime: modified,
            kind: FileType::Directory,
            perm: self.mode,
            nlink: 2,
            uid: self.user,
            gid: self.group,
            rdev: 0,
            blksize: WORTH_AN_ACCESS,
            flags: 0,
        }
    }
}

impl Facts {
    /// Those of a file that is looked at.
    ///
    /// # Errors
    /// As [`StoredFile::storage`].
    pub(super) fn of(file: &StoredFile) -> Result<Facts, svmio_svm::Error> {
        Ok(Facts { size: file.size(), storage: file.storage()?, is_named: true })
    }

    /// Of a file of which nothing can be told: it is damaged, and can be removed.
    pub(super) fn unknown() -> Facts {
        Facts { size: 0, storage: Storage::default(), is_named: true }
    }
}
