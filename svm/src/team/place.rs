//! What a member does with files where they are, for itself or for all.

use crate::cluster::{Introduction, NodeIndex};
use crate::error::{Error, ErrorKind, Result};
use crate::file::File;
use crate::name::FileName;
use crate::open_options::OpenOptions;
use crate::store::Store;
use crate::units::FileId;

use super::Place;

impl Place {
    /// This member's store.
    pub fn store(&self) -> &Store {
        match self {
            Place::OneNode(store) | Place::Nodes { store, .. } => store,
        }
    }

    /// Finds or makes a file and opens it; returns what the others have to know, too.
    ///
    /// # Errors
    /// Those of [`Store::open_file`], [`Cluster::open`](crate::Cluster::open) and
    /// [`Cluster::attach`](crate::Cluster::attach).
    pub fn open(&self, name: &FileName, options: &OpenOptions) -> Result<(File, Vec<u8>)> {
        let (cluster, nodes) = match self {
            Place::OneNode(store) => {
                let file = store.open_file(name, options)?;
                let introduction = file.id().to_bytes().to_vec();
                return Ok((file, introduction));
            }
            Place::Nodes { cluster, .. } => (cluster, self.nodes()),
        };
        let introduction = cluster.open(name, options, &nodes)?.to_bytes();
        match self.attach(&introduction, name, options) {
            Ok(file) => Ok((file, introduction)),
            Err(error) => {
                self.give_up(&introduction, name);
                Err(error)
            }
        }
    }

    /// Opens the file that another member has opened.
    ///
    /// # Errors
    /// Those of [`Store::attach`] and [`Cluster::attach`](crate::Cluster::attach).
    pub fn attach(&self, introduction: &[u8], name: &FileName, options: &OpenOptions) -> Result<File> {
        match self {
            Place::OneNode(store) => {
                let id = introduction.try_into().map(FileId::from_bytes);
                let id = id.map_err(|_| Error::Disunited { problem: "no file was told of".into() })?;
                store.attach(id, name, options)
            }
            Place::Nodes { cluster, .. } => cluster.attach(&Introduction::from_bytes(introduction)?, options),
        }
    }

    /// Gives up a file that was opened for all, because not all can use it.
    pub fn give_up(&self, introduction: &[u8], name: &FileName) {
        let Place::Nodes { cluster, .. } = self else { return };
        let given_up =
            Introduction::from_bytes(introduction).and_then(|introduction| cluster.give_up(&introduction));
        if let Err(error) = given_up {
            tracing::warn!("{name}: it is held open until the job ends: {error}");
        }
    }

    /// Removes a file on all nodes. Whoever has it open keeps it until closing it.
    ///
    /// # Errors
    /// Those of [`Store::remove`] and [`Cluster::remove`](crate::Cluster::remove).
    pub fn remove(&self, name: &FileName) -> Result<()> {
        match self {
            Place::OneNode(store) => store.remove(name),
            Place::Nodes { cluster, .. } => cluster.remove(name),
        }
    }

    /// After a file was not made for all: its name goes, if it was given already. Nobody else knows the name.
    pub(crate) fn take_back(&self, name: &FileName) {
        match self.remove(name) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NoSuchFile => {}
            Err(error) => tracing::warn!("{name}: it stays until somebody removes it: {error}"),
        }
    }

    /// The members' nodes in their cluster, in order; none where there is no cluster.
    pub(crate) fn nodes(&self) -> Vec<NodeIndex> {
        let Place::Nodes { cluster, members, .. } = self else { return Vec::new() };
        let mut nodes: Vec<_> = members.iter().map(|&member| cluster.node_of(member)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}
