//! Files that several nodes share.
//!
//! ```text
//!   File ── SharedFile ── Cluster ── Client ─── requests ───► Agent (in each node's leader)
//!             (who is home)             ◄────── replies ──────   names    open, reopen, find, install, remove (master)
//!                                                                files    what is served, versions
//!                                                                data     read, write, reserve, show
//!                                                                tables   homes, sizes, manifests       (master)
//!                                                                lending  locks for other nodes' ranks
//! ```
//!
//! The processes of a job form a *cluster*; those on one node share that node's store, and the lowest rank among them
//! is its *leader*, in which the node's *agent* runs: a thread that does for other nodes what they cannot do for
//! themselves. Where rank 0 is, is the *master* node: names, segment tables and sizes are true there, and every other
//! node has a replica, in the shared state of the file, that may lack what others did since it was last refreshed.
//! That is all that MPI asks for outside of atomic mode. Nothing here knows of MPI: what has to be exchanged among all
//! ranks at an open (an [`Introduction`]) or a collective write (new segments' homes) is given to the caller.

mod agent;
mod asking;
mod client;
mod context;
mod foresight;
mod install;
mod introduction;
mod keeping;
mod long_writes;
mod mapped;
mod messages;
mod natively;
mod pages;
mod pieces;
mod read_ahead;
mod roster;
mod shared_file;
mod statistics;
mod strictly;
#[cfg(test)]
pub(crate) mod tests;
mod version_word;
mod windows;
mod wire;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use svmio_transport::back_end::{Backing, Service};
use svmio_transport::message::{Footprint, MessageSettings, Messenger, Port};
use svmio_transport::{Fabric, LocalSegment, Rank, SegmentId};

use crate::attachment::{self, AttachError, How};
use crate::cache::{CacheSettings, PageCache};
use crate::error::{Error, ErrorKind, Result};
use crate::file::File;
use crate::name::FileName;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::store::Store;
use crate::team::Reach;

use agent::Agent;
pub(crate) use asking::Asked;
use client::Client;
pub(crate) use client::{Attending, Come, Mailbox};
pub(crate) use context::Context;
pub(crate) use foresight::Foresight;
pub use introduction::Introduction;
pub(crate) use keeping::{HomeLock, Source};
use long_writes::LongWrites;
pub(crate) use mapped::{Merge, Merging, Runs};
use natively::NativeReads;
pub(crate) use natively::{Fetching, Patience};
use pages::Coming;
pub(crate) use pieces::{Gather, Scatter};
use read_ahead::Ahead;
use roster::Roster;
pub(crate) use shared_file::{SharedFile, UnderLock};
pub use statistics::{CacheStatistics, ClusterStatistics, StraightStatistics};
pub(crate) use strictly::{AskedAhead, AskedReturn, MappingNumber, Returned};
pub(crate) use wire::{Gone, Order, PagePlace, Wish};
use wire::{Reply, Request};

/// The port on which agents are asked.
const REQUESTS: Port = Port::new(1).expect("there are more ports");

/// What [`Reach`] uses.
const REACH: SegmentId = SegmentId::new(0x7376_6d72, 0);

/// A node of a cluster, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeIndex(pub u32);

/// One process's part in files that several nodes share.
pub struct Cluster {
    context: Arc<Context>,
    agent: Option<Arc<Agent>>,
    service: Mutex<Option<Box<dyn Service>>>,
    cache: Arc<PageCache>,
    ahead: Ahead,
    long_writes: LongWrites,
    native_reads: NativeReads,
    /// How many teams of all processes were formed.
    teams: AtomicU32,
    /// By what teams of its processes reach each other, once there was one.
    reach: Mutex<Option<Reach>>,
    /// The cache, for homes to write pages into; `None` where there is not as much memory as a fabric pins for it.
    export: Option<LocalSegment>,
}

impl Cluster {
    /// Joins the processes of `fabric`, of which each calls this with its node's store. Those of one node have one
    /// cache of other nodes' pages, to be as its leader's `settings` say. What they tell each other goes through
    /// buffers as `messages` says, but for what would have an agent wait for a process that computes: messages go on by
    /// themselves, each in its best way, and there is no less room for those that nobody waits for yet than by
    /// default, unless `memory_cap` allows no more.
    ///
    /// # Errors
    /// [`Error::Fabric`] where `memory_cap` is too little for so many processes, where the leader of the own node or
    /// rank 0 does not get as far within 30 s, or is lost, and where the job ends: nobody else is waited for. One that
    /// has come that far and lives is waited for however long its answer takes. [`Error::OnNode`] where the node's
    /// cache cannot be had.
    pub fn join(
        fabric: Fabric,
        store: Store,
        settings: &CacheSettings,
        messages: &MessageSettings,
    ) -> Result<Arc<Cluster>> {
        let failed = |source| Error::Fabric { subject: "joining the other nodes".into(), source };
        let roster = Roster::new(fabric.membership());
        let own = roster.name(roster.own());
        if own != store.node() {
            return Err(Error::OnNode {
                node: own.clone(),
                kind: ErrorKind::Other,
                message: format!(
                    "the store {} belongs to node {}: set SVMIO_NODE to that name, or SVMIO_STORE to a store of this node",
                    store.path().display(),
                    store.node()
                ),
            });
        }
        let for_agents = messages::for_agents(messages);
        // The same on all of them, and told here by all: otherwise some would wait for those whom it hits first.
        Footprint::expected(&for_agents, fabric.capabilities(), roster.size(), None)
            .map_err(messages::too_little(messages))?;
        let requests = Messenger::open(&fabric, REQUESTS, &for_agents).map_err(failed)?;
        let client = Client::open(&fabric, &for_agents).map_err(failed)?;
        let messages = messages.clone();
        let context =
            Arc::new(Context { id: OnceLock::new(), fabric, roster, store, client, requests, messages });
        if context.roster.rank() == Rank(0) {
            // Drawn like a file's identity: two clusters do not get the same.
            let drawn = crate::units::FileId::random()
                .map_err(|e| Error::io("joining the other nodes", context.store.path(), e))?;
            let bytes = drawn.to_bytes();
            let id = u64::from_le_bytes(*bytes.first_chunk().expect("sixteen bytes")).max(1);
            let _ = context.id.set(id);
        }
        let (agent, service, cache) = if context.roster.leads() {
            let cache = Arc::new(PageCache::create(settings)?);
            let agent = Arc::new(Agent::new(&context, &cache));
            let body = Arc::clone(&agent);
            let run = Box::new(move || body.run());
            let service = context.fabric.back_end().spawn("agent", run).map_err(failed)?;
            (Some(agent), Some(service), cache)
        } else {
            (None, None, Arc::new(context.open_cache()?))
        };
        if context.id.get().is_none()
            && let Reply::Joined { cluster } =
                context.ask_with(Roster::MASTER, &context.join_request(), &[], &mut |_, _| {})?
        {
            let _ = context.id.set(cluster);
        }
        let (file, length) = (Arc::clone(cache.file()), cache.bytes());
        let backing = Backing::File { file, offset: 0, length };
        let export = match context.fabric.create(shared_file::CACHE_SEGMENT, &backing) {
            Ok(export) => Some(export),
            Err(error @ svmio_transport::Error::Memory { .. }) => {
                // Each of the node's processes has it, and one of them tells.
                if context.roster.leads() {
                    tracing::warn!(
                        "node {}: other nodes cannot write into the page cache, and send pages by message, which takes \
                         longer: {error}. Allow more, or make the cache smaller by SVMIO_CACHE_CAPACITY",
                        context.store.node()
                    );
                }
                None
            }
            Err(error) => return Err(failed(error)),
        };
        let cluster = Arc::new(Cluster {
            context,
            agent,
            service: Mutex::new(service),
            cache,
            ahead: Ahead::default(),
            long_writes: LongWrites::default(),
            native_reads: NativeReads::default(),
            teams: AtomicU32::new(0),
            reach: Mutex::new(None),
            export,
        });
        if let Some(agent) = &cluster.agent {
            agent.set_cluster(&cluster);
        }
        Ok(cluster)
    }

    /// A number that all processes of the cluster know it by, and that no other one has; not 0.
    pub fn id(&self) -> u64 {
        self.context.id()
    }

    /// This process.
    pub fn rank(&self) -> Rank {
        self.context.roster.rank()
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.context.roster.size()
    }

    /// The node of a process.
    pub fn node_of(&self, rank: Rank) -> NodeIndex {
        self.context.roster.node_of(rank)
    }

    /// The node of this process.
    pub fn own_node(&self) -> NodeIndex {
        self.context.roster.own()
    }

    /// The nodes' names, by number.
    pub fn nodes(&self) -> &[NodeName] {
        self.context.roster.names()
    }

    /// The node's store.
    pub fn store(&self) -> &Store {
        &self.context.store
    }

    /// Opens or makes a file, for processes on `nodes`. One process calls this, and tells all, itself included, what
    /// they need to [`Cluster::attach`] it.
    ///
    /// # Errors
    /// As [`Store::open_file`]; [`Error::NodesMissing`], [`Error::TwoFiles`], [`Error::TwoHomes`],
    /// [`Error::OpenInAnotherJob`]; [`Error::NodesUnasked`] where no node that is left has the file, and others are
    /// lost.
    pub fn open(&self, name: &FileName, options: &OpenOptions, nodes: &[NodeIndex]) -> Result<Introduction> {
        let (name, options, nodes) = (wire_name(name), options.clone(), nodes.to_vec());
        match self.ask_master(&Request::Open { name, options, nodes })? {
            Reply::Opened { truth } => Ok(Introduction(truth)),
            _ => Err(self.context.out_of_place(Roster::MASTER)),
        }
    }

    /// Opens the file that another process of the cluster has opened.
    ///
    /// # Errors
    /// As [`Store::open_file`]; [`Error::TwoFiles`].
    pub fn attach(self: &Arc<Self>, introduction: &Introduction, options: &OpenOptions) -> Result<File> {
        let context = &self.context;
        let manifest = context.manifest_of(&introduction.0)?;
        let name = manifest.name.clone();
        // The node has it since it was opened; it may have been removed since then.
        install::renew(context, &manifest)?;
        let how = How { removed: true, ..How::through(self.id()) };
        let attach = || attachment::attach(&context.store, manifest.id, &name, how);
        let attachment = match attach() {
            // From this store alone, by who does not take part: whoever does would hold it here.
            Err(AttachError::Gone) => {
                install::install(context, &manifest)?;
                attach()
            }
            attached => attached,
        };
        let attachment = attachment.map_err(|error| error.into_error(manifest.id))?;
        install::refresh(&attachment, &manifest, &introduction.0)?;
        *attachment.policies() = manifest.policies();
        let shared = || SharedFile::new(Arc::clone(self), Arc::clone(&attachment));
        if context.is_lost(self.own_node()) {
            // Of what lost processes of this node left in its cache, nobody has brought home what is to come there, or
            // given up what comes too late.
            shared().settle_cached();
        }
        let shared = shared();
        // The node may have pages from when it had the file open before.
        shared.drop_stale(&(0..u64::MAX))?;
        File::new_shared(attachment, options, shared)
    }

    /// Gives up a file that was opened, for all processes that were to attach it. If opening it has made it, it is
    /// removed.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`].
    pub fn give_up(&self, introduction: &Introduction) -> Result<()> {
        let file = self.context.manifest_of(&introduction.0)?.id;
        self.ask_master(&Request::Closed { file, is_given_up: true }).map(|_| ())
    }

    /// Removes a file on all nodes that are not lost. Whoever has it open keeps it until closing it.
    ///
    /// # Errors
    /// As [`Store::remove`]; [`Error::NodesMissing`] where lost nodes have parts of it, and [`Error::NodesUnasked`]
    /// where they may.
    pub fn remove(&self, name: &FileName) -> Result<()> {
        self.ask_master(&Request::Remove { name: wire_name(name) }).map(|_| ())
    }

    /// From how many bytes on a write of this process goes straight into another node's segment instead of the cache,
    /// where that has storage for them: as measured so far.
    pub fn long_write(&self) -> u64 {
        self.long_writes.bound()
    }

    /// Sets that for all writes; `None` for what is measured.
    pub fn set_long_write(&self, bytes: Option<u64>) {
        self.long_writes.set(bytes);
    }

    /// Ends the agent, and with it the fabric: others must not need this process any more.
    pub fn leave(&self) {
        self.context.fabric.close();
        self.ahead.end();
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(service) = service {
            service.join();
        }
        if let Some(agent) = &self.agent {
            agent.forget_all();
        }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Whether processes can be dealt with, as far as is known here. Cheap as long as all can.
    ///
    /// # Errors
    /// [`Error::Disunited`], which names the first one that is lost, and its node.
    pub fn check(&self, members: &[Rank]) -> Result<()> {
        let membership = self.context.fabric.membership();
        members.iter().try_for_each(|&member| membership.check(member)).map_err(|error| {
            let problem = error.to_string();
            Error::Disunited { problem }
        })
    }

    /// Whether each process can map the others' memory: the same on all of them.
    pub fn shares_memory(&self) -> bool {
        self.context.fabric.capabilities().direct_mapping
    }

    /// By what teams of its processes reach each other. The first time all of them call this.
    ///
    /// # Errors
    /// As [`Reach::of`].
    pub fn reach(&self) -> Result<Reach> {
        let mut reach = self.reach.lock().unwrap_or_else(PoisonError::into_inner);
        match &*reach {
            Some(reach) => Ok(reach.clone()),
            None => Ok(reach.insert(Reach::of(&self.context.fabric, REACH, &self.context.messages)?).clone()),
        }
    }

    /// A number for a team of all processes: the same on all of them, and different for each team.
    pub(crate) fn count_team(&self) -> u32 {
        // Relaxed: only different numbers matter.
        self.teams.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// How pages come that other nodes are asked for.
    fn coming(&self) -> Coming {
        if self.export.is_some() { Coming::IntoCache } else { Coming::WithAnswer }
    }

    fn shared_cache(&self) -> &Arc<PageCache> {
        &self.cache
    }
}

fn wire_name(name: &FileName) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    name.as_path().as_os_str().as_bytes().to_vec()
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cluster").field("roster", &self.context.roster).finish_non_exhaustive()
    }
}
