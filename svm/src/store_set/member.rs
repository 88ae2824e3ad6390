//! One of the stores of a set: on this machine, or on a host that answers for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::finding::{self, Survived};
use crate::manifest::Manifest;
use crate::name::{DirectoryName, FileName};
use crate::node::NodeName;
use crate::remote_store::RemoteStore;
use crate::store::aside::{Asides, Stays};
use crate::store::traces::{Removal, Trace};
use crate::store::{Entry, Store};
use crate::stored_file::{Part, Whereabouts};
use crate::units::FileId;
use crate::verify::agreement::{self, Repair};
use crate::verify::{self, reclaim};

/// A store of a set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Member<'s> {
    Here(&'s Store),
    There(&'s Arc<RemoteStore>),
}

impl<'s> Member<'s> {
    /// The node that the store belongs to.
    pub(crate) fn node(self) -> &'s NodeName {
        match self {
            Member::Here(store) => store.node(),
            Member::There(store) => store.node(),
        }
    }

    /// Where it is, for people.
    pub(crate) fn label(self) -> PathBuf {
        match self {
            Member::Here(store) => store.path().into(),
            Member::There(store) => store.label().into(),
        }
    }

    pub(crate) fn list(self, name: &DirectoryName) -> Result<Vec<Entry>> {
        match self {
            Member::Here(store) => store.list(name),
            Member::There(store) => store.list(name),
        }
    }

    /// As [`Store::directory_modified`]; another host only tells that there is one.
    pub(crate) fn directory_modified(self, name: &DirectoryName) -> Result<Option<SystemTime>> {
        match self {
            Member::Here(store) => store.directory_modified(name),
            Member::There(store) => match store.list(name) {
                Ok(_) => Ok(Some(SystemTime::UNIX_EPOCH)),
                Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => Ok(None),
                Err(e) => Err(e),
            },
        }
    }

    pub(crate) fn lookup(self, name: &FileName) -> Result<FileId> {
        match self {
            Member::Here(store) => store.lookup(name),
            Member::There(store) => store.lookup(name),
        }
    }

    /// Removes a file as [`Store::remove_tracing`] has it.
    pub(crate) fn remove(self, name: &FileName, trace: Option<&Removal>) -> Result<()> {
        match self {
            Member::Here(store) => store.remove_tracing(name, trace),
            Member::There(store) => store.remove(name, trace),
        }
    }

    /// The traces of files that were removed there.
    pub(crate) fn traces(self) -> Result<Vec<Trace>> {
        match self {
            Member::Here(store) => store.traces(),
            Member::There(store) => store.traces(),
        }
    }

    /// Removes what is left of a removed file, as [`Store::remove_leftover`] has it.
    pub(crate) fn remove_leftover(
        self,
        name: &FileName,
        file: FileId,
        trace: Option<&Removal>,
    ) -> Result<Option<PathBuf>> {
        match self {
            Member::Here(store) => store.remove_leftover(name, file, trace),
            Member::There(store) => store.remove_leftover(name, file, trace),
        }
    }

    /// What the store knows of a file, as [`finding::look`] has it.
    pub(crate) fn look(self, file: FileId, name: &FileName) -> Result<Option<(Manifest, Option<Survived>)>> {
        match self {
            Member::Here(store) => finding::look(store, file, name),
            Member::There(store) => store.look(file, name),
        }
    }

    /// The error for a name that leads to an object that is not there.
    pub(crate) fn lost_object(self, name: &FileName) -> crate::Error {
        match self {
            Member::Here(store) => store.lost_object(name),
            Member::There(store) => store.lost_object(name),
        }
    }

    /// The part of a file that is here.
    pub(crate) fn part(self, of: &Whereabouts, own: Option<&Manifest>) -> Part {
        match self {
            Member::Here(store) => Part::here(store, of, own),
            Member::There(store) => Part::there(store, of),
        }
    }

    /// Looks at a file that is on this node alone.
    pub(crate) fn look_over_alone(self, name: &FileName) -> Result<()> {
        match self {
            Member::Here(store) => verify::look_over_alone(store, name),
            Member::There(store) => store.look_over_alone(name),
        }
    }

    /// Puts `newest` in place of the store's manifest, as [`agreement::repair`] has it.
    pub(crate) fn repair(self, own: Option<&Manifest>, newest: &Manifest) -> Result<Repair> {
        match self {
            Member::Here(store) => agreement::repair(store, own, newest),
            Member::There(store) => store.repair(own, newest),
        }
    }

    /// Gives the file `id` its name again, as [`Store::give_back_name`] has it.
    pub(crate) fn enter_name(self, name: &FileName, id: FileId) -> Result<Option<PathBuf>> {
        match self {
            Member::Here(store) => store.give_back_name(name, id),
            Member::There(store) => store.enter_name(name, id),
        }
    }

    /// What is set aside there.
    pub(crate) fn asides(self) -> Result<Asides> {
        match self {
            Member::Here(store) => store.asides(),
            Member::There(store) => store.asides(),
        }
    }

    /// Restores or releases what is set aside for the file `new`; says where that was, unless somebody is about it.
    pub(crate) fn settle_aside(self, new: FileId, stays: Stays) -> Result<Option<PathBuf>> {
        match self {
            Member::Here(store) => store.settle_aside(new, stays),
            Member::There(store) => store.settle_aside(new, stays),
        }
    }

    /// Removes what belongs to no file.
    pub(crate) fn reclaim(self) -> Result<Vec<PathBuf>> {
        match self {
            Member::Here(store) => reclaim(store),
            Member::There(store) => store.reclaim(),
        }
    }
}
