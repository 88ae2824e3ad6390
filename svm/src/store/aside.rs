//! Files that are set aside in this store while another one takes their name in several stores.
//!
//! ```text
//!   the name leads to the older file ─► it is recorded here ─► the name leads to the new file ─► released: the older one goes
//!                                              └──────────────────────────┴─ restored: it has its name again
//! ```
//!
//! A record is locked as long as the process lives that replaces the file. One that is not locked was left by a killed
//! process: what the stores know together tells what is to become of it ([`crate::verify()`]).

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::name::{FileName, RESERVED_PREFIX};
use crate::node::NodeName;
use crate::object;
use crate::units::FileId;

use super::Store;

/// Where the records lie: a file per new file, called like it.
pub(crate) const ASIDE: &str = "aside";

/// What a new file is put over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Over {
    /// The file that has the name in the stores, if any has.
    pub(crate) older: Option<FileId>,
    /// The nodes that have parts of the new file.
    pub(crate) nodes: Vec<NodeName>,
    /// The nodes that have none, and lose the name of the older one.
    pub(crate) cleared: Vec<NodeName>,
}

/// A record that a store has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) name: FileName,
    pub(crate) new: FileId,
    pub(crate) over: Over,
    /// Somebody is about it.
    pub(crate) in_use: bool,
}

/// All records that a store has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asides {
    pub(crate) recorded: Vec<Recorded>,
    /// Records that cannot be read: which files they are about is not known.
    pub(crate) damaged: Vec<PathBuf>,
}

/// A record, locked by this process.
#[derive(Debug)]
pub(crate) struct Aside {
    name: FileName,
    new: FileId,
    over: Over,
    _lock: Locked,
}

/// A lock on a file, which goes with this: also where a child that another thread forks has a copy of the descriptor.
#[derive(Debug)]
struct Locked(fs::File);

impl Locked {
    fn new(file: fs::File, operation: FlockOperation) -> io::Result<Self> {
        flock(&file, operation)?;
        Ok(Self(file))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // It goes with the descriptor at the latest.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Which file is to have the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stays {
    Older,
    New,
}

impl Store {
    /// Gives the file `new` its name, and sets aside the one that has it.
    ///
    /// # Errors
    /// As [`Store::replace_name`]; [`Error::Exists`] where another file than that of `over` has the name;
    /// [`Error::BeingReplaced`]. All is as it was then.
    pub(crate) fn set_aside(&self, name: &FileName, new: FileId, over: &Over) -> Result<Aside> {
        let failed = |e: io::Error| Error::io(format!("setting {name} aside"), self.path(), e);
        loop {
            let turned = self.with_holder(name, |held| {
                let held =
                    held.map(|held| self.check_older(name, held.id, over).map(|()| held)).transpose()?;
                let aside = self.record(name, new, over)?;
                let turned = held
                    .as_ref()
                    .map_or(Ok(()), |held| held.void_names(failed))
                    .and_then(|()| self.turn_name(name, held.as_ref().map(|held| held.id), new, true));
                self.unless_failed(aside, turned)
            });
            match turned {
                Err(Error::NoSuchFile { .. }) => {}
                turned => return turned,
            }
            let aside = self.record(name, new, over)?;
            let entered = self.enter_name(name, new, true);
            let is_taken = matches!(entered, Ok(false));
            let aside = self.unless_failed(aside, entered.map(drop))?;
            if !is_taken {
                return Ok(aside);
            }
            self.forget(&aside)?;
        }
    }

    /// Takes the name from the file that has it, and sets that one aside; `None` where none has it.
    ///
    /// # Errors
    /// As [`Store::set_aside`].
    pub(crate) fn clear_name(&self, name: &FileName, new: FileId, over: &Over) -> Result<Option<Aside>> {
        let failed = |e: io::Error| Error::io(format!("setting {name} aside"), self.path(), e);
        let cleared = self.with_holder(name, |held| {
            held.as_ref().map_or(Ok(()), |held| self.check_older(name, held.id, over))?;
            let aside = self.record(name, new, over)?;
            let voided = held.as_ref().map_or(Ok(()), |held| held.void_names(failed));
            let gone = voided.and_then(|()| {
                let gone = fs::remove_file(self.entry(name));
                gone.map_err(|e| Error::io(format!("removing {name}"), self.path(), e))
            });
            self.prune(name);
            self.unless_failed(aside, gone)
        });
        match cleared {
            Err(Error::NoSuchFile { .. }) => Ok(None),
            cleared => cleared.map(Some),
        }
    }

    /// Gives the older file its name again, and removes the new one.
    ///
    /// # Errors
    /// As [`Store::remove`] and [`Store::set_aside`]. The record stays then.
    pub(crate) fn restore(&self, aside: &Aside) -> Result<()> {
        let Aside { name, new, .. } = aside;
        let failed = |e: io::Error| Error::io(format!("restoring {name}"), self.path(), e);
        // Elsewhere it may be whole, and this store have no part of it.
        let older = aside.over.older.filter(|older| object::path(self.path(), *older).exists());
        loop {
            let is_replaced = self.with_holder(name, |held| match (&held, older) {
                (Some(held), _) if held.id != *new => Ok(Some(held.id) != aside.over.older),
                (_, Some(older)) => {
                    held.as_ref().map_or(Ok(()), |held| held.void_names(failed))?;
                    // Who reclaims objects without a name has the gate, too.
                    let turned =
                        self.with_object(older, |_| Ok(self.turn_name(name, Some(*new), older, true)));
                    turned.map_err(failed)?.unwrap_or(Ok(()))?;
                    point();
                    held.map_or(Ok(()), |held| self.discard(held).map_err(failed)).map(|()| false)
                }
                (_, None) => {
                    held.as_ref().map_or(Ok(()), |held| held.void_names(failed))?;
                    fs::remove_file(self.entry(name)).map_err(failed)?;
                    self.prune(name);
                    held.map_or(Ok(()), |held| self.discard(held).map_err(failed)).map(|()| false)
                }
            });
            match (is_replaced, older) {
                // A third file has taken the name meanwhile.
                (Ok(true), _) => return self.release(aside),
                (Ok(false), _) | (Err(Error::NoSuchFile { .. }), None) => return self.forget(aside),
                (Err(Error::NoSuchFile { .. }), Some(older)) => {
                    let entered = self.with_object(older, |_| Ok(self.enter_name(name, older, true)));
                    if entered.map_err(failed)?.unwrap_or(Ok(true))? {
                        return self.forget(aside);
                    }
                }
                (Err(e), _) => return Err(e),
            }
        }
    }

    /// Removes the older file: the new one stays.
    ///
    /// # Errors
    /// As [`Store::remove`].
    pub(crate) fn release(&self, aside: &Aside) -> Result<()> {
        if let Some(older) = aside.over.older {
            // Where the record came, and a kill before its name went.
            self.take_back(&aside.name, older)?;
            let is_reached =
                |node: &NodeName| aside.over.nodes.contains(node) || aside.over.cleared.contains(node);
            if let Some(removal) = self.removal_to_tell(older, is_reached) {
                self.leave_trace(&aside.name, older, &removal);
            }
        }
        self.forget(aside)?;
        let Some(older) = aside.over.older else { return Ok(()) };
        let discarded = self.with_object(older, |held| self.discard(held));
        discarded.map(drop).map_err(|e| Error::io(format!("removing {}", aside.name), self.path(), e))
    }

    /// All records here.
    ///
    /// # Errors
    /// What keeps it from reading them.
    pub(crate) fn asides(&self) -> Result<Asides> {
        let directory = self.path().join(ASIDE);
        let failed = |e: io::Error| Error::io("reading what is set aside in the store", &directory, e);
        let entries = match fs::read_dir(&directory) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Asides::default()),
            entries => entries.map_err(failed)?,
        };
        let mut found = Asides::default();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let Some(new) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            match read(&entry.path(), new) {
                Ok(recorded) => found.recorded.push(recorded),
                // Settled just now.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) if e.kind() == ErrorKind::InvalidData => found.damaged.push(entry.path()),
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(found)
    }

    /// Does what is to be done about the record of the file `new`; says where it was, unless somebody is about it.
    ///
    /// # Errors
    /// As [`Store::restore`] and [`Store::release`].
    pub(crate) fn settle_aside(&self, new: FileId, stays: Stays) -> Result<Option<PathBuf>> {
        let path = self.path().join(ASIDE).join(new.to_string());
        let failed = |e: io::Error| Error::io("reading what is set aside in the store", &path, e);
        let file = match fs::File::open(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let Ok(lock) = Locked::new(file, FlockOperation::NonBlockingLockExclusive) else { return Ok(None) };
        if object::is_unlinked(&lock.0).map_err(failed)? {
            return Ok(None);
        }
        let Recorded { name, over, .. } = read(&path, new).map_err(failed)?;
        let aside = Aside { name, new, over, _lock: lock };
        match stays {
            Stays::Older => self.restore(&aside)?,
            Stays::New => self.release(&aside)?,
        }
        Ok(Some(path))
    }

    /// Whether other stores may have a record of the file `new`, too, whether somebody is about it or not.
    ///
    /// # Errors
    /// What keeps it from reading the record here. Of one that is damaged nothing is known.
    pub(super) fn is_aside_elsewhere(&self, new: FileId) -> Result<bool> {
        let path = self.path().join(ASIDE).join(new.to_string());
        match read(&path, new) {
            Ok(Recorded { over, .. }) => {
                Ok(over.nodes.iter().chain(&over.cleared).any(|node| node != self.node()))
            }
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(false),
            Err(e) => Err(Error::io("reading what is set aside in the store", &path, e)),
        }
    }

    /// Releases what is set aside for the file `new`, which is about to go: it would have the name again once that is
    /// gone. So it would in other stores, for whom a trace is left.
    ///
    /// # Errors
    /// As [`Store::release`].
    pub(super) fn release_aside_of_removed(&self, name: &FileName, new: FileId) -> Result<()> {
        if self.path().join(ASIDE).join(new.to_string()).exists()
            && let Some(removal) = self.removal_to_tell(new, |_| false)
        {
            self.leave_trace(name, new, &removal);
        }
        self.release_aside(new)
    }

    /// Releases what is set aside for the file `new`, unless somebody is about it, or its record is damaged.
    ///
    /// # Errors
    /// As [`Store::release`].
    pub(super) fn release_aside(&self, new: FileId) -> Result<()> {
        match self.settle_aside(new, Stays::New) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::InvalidData => Ok(()),
            settled => settled.map(drop),
        }
    }

    fn check_older(&self, name: &FileName, holder: FileId, over: &Over) -> Result<()> {
        if Some(holder) == over.older {
            return Ok(());
        }
        Err(Error::Exists { name: name.to_string(), store: self.path().to_path_buf() })
    }

    /// Writes a record: it is on the storage device on return.
    fn record(&self, name: &FileName, new: FileId, over: &Over) -> Result<Aside> {
        let directory = self.path().join(ASIDE);
        let failed = |e: io::Error| Error::io(format!("setting {name} aside"), &directory, e);
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(failed(e)),
            _ => {}
        }
        // One at a time: a file is set aside for one other only.
        let turn = fs::File::open(&directory).map_err(failed)?;
        let turn = Locked::new(turn, FlockOperation::LockExclusive).map_err(failed)?;
        if self.asides()?.recorded.iter().any(|recorded| recorded.name == *name) {
            return Err(Error::BeingReplaced { name: name.to_string(), store: self.path().to_path_buf() });
        }
        let mut file =
            tempfile::Builder::new().prefix(RESERVED_PREFIX).tempfile_in(&directory).map_err(failed)?;
        let lock = file.as_file().try_clone().map_err(failed)?;
        let lock = Locked::new(lock, FlockOperation::NonBlockingLockExclusive).map_err(failed)?;
        let mut text = serde_json::to_vec(over).map_err(|e| failed(e.into()))?;
        text.push(b'\n');
        text.extend(name.as_path().as_os_str().as_bytes());
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist_noclobber(directory.join(new.to_string())).map_err(|e| failed(e.error))?;
        let root = || fs::File::open(self.path())?.sync_all();
        turn.0.sync_all().and_then(|()| root()).map_err(failed)?;
        point();
        Ok(Aside { name: name.clone(), new, over: over.clone(), _lock: lock })
    }

    fn forget(&self, aside: &Aside) -> Result<()> {
        let directory = self.path().join(ASIDE);
        let gone = match fs::remove_file(directory.join(aside.new.to_string())) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            gone => gone,
        };
        let synced = gone.and_then(|()| fs::File::open(&directory)?.sync_all());
        synced.map_err(|e| Error::io(format!("removing {}", aside.name), &directory, e))?;
        point();
        Ok(())
    }

    /// The record, unless what it was for has failed, and nothing was changed.
    fn unless_failed(&self, aside: Aside, outcome: Result<()>) -> Result<Aside> {
        point();
        match outcome {
            Ok(()) => Ok(aside),
            Err(e) => {
                // Otherwise the record tells what is to be put right.
                if !self.lookup(&aside.name).is_ok_and(|id| id == aside.new) {
                    self.forget(&aside)?;
                }
                Err(e)
            }
        }
    }
}

fn read(path: &Path, new: FileId) -> io::Result<Recorded> {
    let file = fs::File::open(path)?;
    let in_use = Locked::new(file, FlockOperation::NonBlockingLockShared).is_err();
    let bytes = fs::read(path)?;
    let damaged = || io::Error::new(ErrorKind::InvalidData, format!("{} is damaged", path.display()));
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let over = serde_json::from_slice(&bytes[..end]).map_err(|_| damaged())?;
    let name = FileName::new(OsStr::from_bytes(&bytes[end + 1..])).map_err(|_| damaged())?;
    Ok(Recorded { name, new, over, in_use })
}

/// Where tests kill a process.
fn point() {
    #[cfg(test)]
    crate::killing::point();
}
