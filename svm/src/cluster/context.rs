//! What asking other nodes takes, and joining them.

use std::sync::OnceLock;

use svmio_transport::Fabric;
use svmio_transport::message::{MessageSettings, Messenger};

use super::NodeIndex;
use super::client::Client;
use super::roster::Roster;
use super::wire::{FileTruth, Reply, Request};
use crate::cache::PageCache;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::Manifest;
use crate::store::Store;

/// What asking takes.
pub(crate) struct Context {
    pub(super) id: OnceLock<u64>,
    pub(super) fabric: Fabric,
    pub(super) roster: Roster,
    pub(super) store: Store,
    pub(super) client: Client,
    pub(super) requests: Messenger,
    /// As the user wants messages to be.
    pub(super) messages: MessageSettings,
}

impl Context {
    /// The cluster's number; 0 until it is known.
    pub(super) fn id(&self) -> u64 {
        self.id.get().copied().unwrap_or_default()
    }

    /// What a process says when it joins: which store it takes for that of its node.
    pub(super) fn join_request(&self) -> Request {
        let identity = self.store.identity();
        let store = (identity.boot.0, identity.device, identity.inode);
        Request::Join { node: self.store.node().clone(), store }
    }

    /// The cache of this process's node, which its leader has made.
    pub(super) fn open_cache(&self) -> Result<PageCache> {
        let own = self.roster.own();
        match self.ask_with(own, &self.join_request(), &[], &mut |_, _| {})? {
            Reply::Welcome { process, descriptor, cluster } => {
                // The leader of the master node knows it; others have to ask there.
                if own == Roster::MASTER {
                    let _ = self.id.set(cluster);
                }
                PageCache::open(process, descriptor).map_err(|error| self.no_cache(own, &error))
            }
            _ => Err(self.out_of_place(own)),
        }
    }

    /// The cache of this process's node cannot be opened: its leader may have died since it said where that is.
    fn no_cache(&self, own: NodeIndex, error: &Error) -> Error {
        let (leader, node) = (self.roster.leader(own), self.roster.name(own).clone());
        match self.fabric.membership().check(leader) {
            Err(source) => {
                Error::Fabric { subject: format!("opening the page cache of node {node}"), source }
            }
            Ok(()) => {
                let message = format!("rank {leader} has its page cache, and may have ended: {error}");
                Error::OnNode { node, kind: error.kind(), message }
            }
        }
    }

    /// The manifest of a file.
    pub(super) fn manifest_of(&self, truth: &FileTruth) -> Result<Manifest> {
        self.unpacked(&truth.manifest)
    }

    /// A manifest that came with a message.
    pub(super) fn unpacked(&self, bytes: &[u8]) -> Result<Manifest> {
        Manifest::unpack(bytes).ok_or_else(|| Error::OnNode {
            node: self.store.node().clone(),
            kind: ErrorKind::Other,
            message: "what it was told of a file makes no sense: use the same svmio on all nodes".into(),
        })
    }

    /// A home refuses what comes too late.
    pub(super) fn refused(&self, node: NodeIndex) -> Error {
        Error::OnNode {
            node: self.roster.name(node).clone(),
            kind: ErrorKind::Other,
            message: "what a lost process of another node wrote under a lock came too late".into(),
        }
    }

    /// An answer that does not belong to the question.
    pub(super) fn out_of_place(&self, node: NodeIndex) -> Error {
        Error::OnNode {
            node: self.roster.name(node).clone(),
            kind: ErrorKind::Other,
            message: "its agent gave an answer to something else: use the same svmio on all nodes".into(),
        }
    }
}
