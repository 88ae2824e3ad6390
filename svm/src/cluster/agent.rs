//! The agent: does for other nodes what they cannot do for themselves.
//!
//! One thread takes requests and answers at once what needs no waiting. What waits, for the storage device, for a lock
//! or for other nodes' agents, gets a thread of its own.

mod coherence;
mod data;
mod directory;
mod files;
mod leftovers;
mod lending;
mod names;
mod opening;
mod published;
mod showing;
mod tables;
mod untold;
mod version;
mod waiting;
mod windows;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use svmio_transport::{Rank, RemoteSegment};

use crate::accounting::Cost;
use crate::cache::PageCache;
use crate::error::{Error, ErrorKind, Result};
use crate::node::NodeName;

use super::wire::{self, FileTruth, Reply, Request};
use super::{Cluster, Context};
use files::{Files, Served};
use lending::Wanted;
use waiting::Waiting;

/// What a node does for others.
pub(super) struct Agent {
    context: Arc<Context>,
    files: Files,
    /// Held while a name is being looked up, made or removed, or the size of segments settled: one at a time.
    naming: Mutex<()>,
    /// Where other processes' cached pages go.
    caches: Mutex<HashMap<Rank, Arc<RemoteSegment>>>,
    waiting: Waiting,
    /// This node's own.
    cache: Arc<PageCache>,
    /// What the agent is part of.
    cluster: OnceLock<Weak<Cluster>>,
    /// What files have cost those who are leaving.
    costs: Mutex<BTreeMap<Rank, Cost>>,
    /// How many of the next questions for orders a test has fail.
    #[cfg(test)]
    refusals: std::sync::atomic::AtomicU32,
}

impl Agent {
    pub(super) fn new(context: &Arc<Context>, cache: &Arc<PageCache>) -> Agent {
        let (files, naming, caches) = (Files::default(), Mutex::default(), Mutex::default());
        let (context, cache) = (Arc::clone(context), Arc::clone(cache));
        let (waiting, cluster, costs) = (Waiting::default(), OnceLock::new(), Mutex::default());
        Agent {
            context,
            files,
            naming,
            caches,
            waiting,
            cache,
            cluster,
            costs,
            #[cfg(test)]
            refusals: Default::default(),
        }
    }

    /// Tells the agent what it is part of.
    pub(super) fn set_cluster(&self, cluster: &Arc<Cluster>) {
        let _ = self.cluster.set(Arc::downgrade(cluster));
    }

    fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.get()?.upgrade()
    }

    /// Serves until the fabric is closed: where all others are lost, this process, which asks its own agent as others
    /// do.
    pub(super) fn run(self: Arc<Self>) {
        let mut buffer = vec![0; wire::LONGEST];
        let (membership, requests) = (self.context.fabric.membership(), &self.context.requests);
        let mut buried = BTreeSet::new();
        loop {
            let is_alone = buried.len() + 1 >= membership.size() as usize && !buried.is_empty();
            let received = if is_alone {
                let own = membership.rank();
                requests.receive(own, &mut buffer).map(|length| (own, length))
            } else {
                requests.receive_any(&mut buffer)
            };
            match received {
                Ok((from, length)) => self.attend(from, &buffer[..length]),
                Err(_) if membership.check_job().is_err() => return,
                Err(error) if error.lost_peer().is_some() => {
                    // One was told of, and others may be lost by now.
                    for lost in membership.lost().into_iter().filter(|lost| buried.insert(*lost)) {
                        // Before those that are served are looked for: none is between.
                        self.files.doubt_unserved();
                        self.files.all().iter().for_each(|served| self.bury_at_once(served, lost));
                        self.forget_coherence(lost);
                    }
                }
                Err(error) => tracing::warn!("a request was not understood: {error}"),
            }
        }
    }

    /// Gives back what a lost process had of a file; what that waits for, a thread of its own does.
    fn bury_at_once(self: &Arc<Self>, served: &Served, lost: Rank) {
        let orphans = self.bury(served, lost);
        if orphans.is_empty() {
            return;
        }
        let agent = Arc::clone(self);
        let body = Box::new(move || agent.free(orphans));
        if let Err(error) = self.context.fabric.back_end().spawn("agent-task", body) {
            let name = served.attachment.name();
            tracing::error!(
                "what lost rank {lost} wrote to {name} under a lock may come home too late: {error}"
            );
        }
    }

    /// Does what its own process asks.
    pub(super) fn serve_own(
        &self,
        request: &Request,
        data: &[u8],
        take: &mut dyn FnMut(&Reply, &[u8]),
    ) -> Result<Reply> {
        let mut out = Vec::new();
        let reply = self.serve(self.context.roster.rank(), request, data, &mut out)?;
        take(&reply, &out);
        Ok(reply)
    }

    /// Lets go of all files.
    pub(super) fn forget_all(&self) {
        self.files.clear();
    }

    /// What has been noted of costs.
    pub(super) fn costs(&self) -> BTreeMap<Rank, Cost> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, from: Rank, cost: Cost) -> Result<Reply> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner).insert(from, cost);
        Ok(Reply::Done)
    }

    fn attend(self: &Arc<Self>, from: Rank, bytes: &[u8]) {
        let Some((number, request, data)) = wire::decode::<Request>(bytes) else {
            tracing::warn!("rank {from} asked something that makes no sense");
            return;
        };
        if coherence::concerns(&request) {
            return self.cohere(from, number, &request, data);
        }
        if !waits(&request) {
            return self.answer(from, number, &request, data);
        }
        let wait = match self.waiting.begin(from, &request, self.context.store.node()) {
            Ok(wait) => wait,
            Err(error) => {
                self.send(from, number, &Reply::of_error(&error), &[]);
                return;
            }
        };
        let (agent, data) = (Arc::clone(self), data.to_vec());
        let body = Box::new(move || {
            agent.answer(from, number, &request, &data);
            drop(wait);
        });
        // The thread goes when it has answered.
        if let Err(error) = self.context.fabric.back_end().spawn("agent-task", body) {
            let subject = "starting a thread of the agent".into();
            self.send(from, number, &Reply::of_error(&Error::Fabric { subject, source: error }), &[]);
        }
    }

    fn answer(&self, from: Rank, number: u64, request: &Request, data: &[u8]) {
        let mut out = Vec::new();
        // Whoever asked must not wait for ever for the answer to what broke the agent. What it shares is kept whole by
        // mutexes that are taken over from a thread that panicked.
        let served = catch_unwind(AssertUnwindSafe(|| self.serve(from, request, data, &mut out)));
        let reply = match served {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => Reply::of_error(&error),
            Err(_) => {
                let message = format!("its agent failed; its rank {} says why", self.context.roster.rank());
                Reply::Failed { kind: ErrorKind::Other, message }
            }
        };
        let is_sent = self.send(from, number, &reply, &out);
        if let (false, Reply::Locked { lock, .. }, Request::Lock { file, .. }) = (is_sent, &reply, request) {
            self.take_unsaid(from, *file, *lock);
        }
    }

    fn send(&self, to: Rank, number: u64, reply: &Reply, data: &[u8]) -> bool {
        let mut bytes = wire::encode(number, reply, data);
        if bytes.len() > wire::LONGEST {
            let error = self.context.too_long(bytes.len());
            bytes = wire::encode(number, &Reply::of_error(&error), &[]);
        }
        // Never waits for the asker: he may take answers only when he has asked all that he asks at once, and be
        // waiting until the agent takes that.
        let sent = self.context.client.answers().send_kept(to, bytes);
        sent.inspect_err(|error| tracing::debug!("an answer to rank {to} was not sent: {error}")).is_ok()
    }

    /// To a process of another node the cluster's number, to one of this node where the cache is.
    fn join(&self, node: &NodeName, (boot, device, inode): ([u8; 16], u64, u64)) -> Result<Reply> {
        let (store, identity) = (&self.context.store, self.context.store.identity());
        if node != store.node() {
            return Ok(Reply::Joined { cluster: self.context.id() });
        }
        if (identity.boot.0, identity.device, identity.inode) != (boot, device, inode) {
            let message = format!(
                "its processes have different stores, of which one is {}: set SVMIO_STORE to one directory for all, \
                 or SVMIO_NODE to different names",
                store.path().display()
            );
            return Err(Error::OnNode { node: node.clone(), kind: ErrorKind::Other, message });
        }
        let (process, descriptor) = self.cache.whereabouts();
        Ok(Reply::Welcome { process, descriptor, cluster: self.context.id() })
    }

    fn install(&self, truth: &FileTruth) -> Result<Reply> {
        let manifest = self.context.manifest_of(truth)?;
        super::install::install(&self.context, &manifest).map(|()| Reply::Done)
    }

    fn serve(&self, from: Rank, request: &Request, data: &[u8], out: &mut Vec<u8>) -> Result<Reply> {
        match request {
            Request::Join { node, store } => self.join(node, *store),
            Request::Open { name, options, nodes } => self.open(name, options, nodes),
            Request::Find { name } => self.find(name),
            Request::Reopen { name, file, epoch } => self.reopen(name, *file, *epoch),
            Request::Install { truth } => self.install(truth),
            Request::Remove { name } => self.remove(name),
            Request::Discard { name, file, is_open, trace } => {
                self.discard(name, *file, *is_open, trace.as_ref())
            }
            Request::Missing { file } => self.missing(*file),
            Request::Closed { file, is_given_up } => self.closed(*file, *is_given_up),
            Request::Forget { file } => self.forget(*file),
            Request::Place { file, homes, segment_size } => self.place(*file, homes, *segment_size),
            Request::Choose { file, segment_size, reason } => self.choose(*file, *segment_size, *reason),
            Request::Grow { file, size } => self.grow(*file, *size),
            Request::Refresh { file, segments } => self.news(*file, *segments),
            Request::Commit { file, durable, data } => self.commit(*file, *durable, *data),
            Request::Adopt { truth, durable } => self.adopt(truth, *durable),
            Request::Resize { file, size } => self.resize(*file, *size),
            Request::Punch { file, size } => self.punch(*file, *size),
            Request::Read { file, parts } => self.read(*file, parts, out),
            Request::Write { file, parts, cached: false } => self.write(from, *file, parts, data),
            Request::Write { file, parts, cached: true } => self.write_cached(from, *file, parts, data),
            Request::Merge { file, parts } => self.merge_bytes(from, *file, parts, data),
            Request::Changes { file, segments } => self.changes(*file, segments),
            Request::Fetch { file, pages } => self.fetch(from, *file, pages),
            Request::Pages { file, pages } => self.pages(from, *file, pages, out),
            Request::Versions { file, segments } => self.versions(from, *file, segments),
            Request::Show { file, segment } => self.show(from, *file, *segment),
            Request::Reserve { file, part, export } => self.reserve(from, *file, part, *export),
            Request::Wrote { file, segments } => self.wrote(from, *file, segments),
            Request::Sync { file } => self.sync(*file),
            Request::Lock { file, range, thread, exclusive, place } => {
                self.lend(from, *file, &Wanted::new(range.clone(), *exclusive), *thread, *place)
            }
            Request::GiveBack { file, lock, place } => self.give_up(from, *file, *lock, *place),
            Request::AskBack { file, range, exclusive } => {
                self.clear_way(from, *file, &Wanted::new(range.clone(), *exclusive))
            }
            Request::Unlock { file, lock } => self.take_back(*file, *lock),
            Request::BringHome { file, range } => self.bring_home_of_lost(from, *file, range),
            Request::Refuse { file, node, range } => Ok(self.refuse_late(*file, *node, range)),
            Request::Late { file } => Ok(self.late_of(*file, self.context.roster.node_of(from))),
            Request::GaveUp { file, late } => {
                Ok(self.forget_late(*file, self.context.roster.node_of(from), late))
            }
            Request::Note { cost } => self.note(from, *cost),
            // Answered when it is time, and so only by way of messages.
            Request::Acquire { .. }
            | Request::AcquireAhead { .. }
            | Request::Attend { .. }
            | Request::Return { .. }
            | Request::Surrender { .. }
            | Request::Withdraw { .. } => Err(self.cut_short()),
        }
    }
}

/// Whether what is asked may have to wait for something.
fn waits(request: &Request) -> bool {
    match request {
        Request::Open { .. }
        | Request::Find { .. }
        | Request::Reopen { .. }
        | Request::Install { .. }
        | Request::Discard { .. }
        | Request::Missing { .. }
        | Request::Remove { .. }
        | Request::Closed { .. }
        | Request::Forget { .. }
        | Request::Choose { .. }
        | Request::Commit { .. }
        | Request::Adopt { .. }
        | Request::Resize { .. }
        | Request::Punch { .. }
        | Request::Reserve { .. }
        | Request::Sync { .. }
        | Request::GiveBack { .. }
        | Request::AskBack { .. }
        | Request::BringHome { .. }
        | Request::Lock { .. } => true,
        Request::Join { .. }
        | Request::Place { .. }
        | Request::Grow { .. }
        | Request::Refresh { .. }
        | Request::Read { .. }
        | Request::Write { .. }
        | Request::Fetch { .. }
        | Request::Pages { .. }
        | Request::Merge { .. }
        | Request::Changes { .. }
        | Request::Versions { .. }
        | Request::Show { .. }
        | Request::Wrote { .. }
        | Request::Acquire { .. }
        | Request::AcquireAhead { .. }
        | Request::Attend { .. }
        | Request::Return { .. }
        | Request::Surrender { .. }
        | Request::Withdraw { .. }
        | Request::Note { .. }
        | Request::Refuse { .. }
        | Request::Late { .. }
        | Request::GaveUp { .. }
        | Request::Unlock { .. } => false,
    }
}

#[cfg(test)]
impl Agent {
    /// Whether a file is open here for other nodes.
    pub(super) fn serves(&self, file: crate::units::FileId) -> bool {
        self.files.known(file).is_some()
    }

    /// Of how many pages of a file something is known here that concerns strict mappings.
    pub(super) fn strict_pages(&self, file: crate::units::FileId) -> usize {
        self.files.known(file).map_or(0, |served| served.directory.lock().unwrap().pages())
    }

    /// Runs something while questions about pages of a file that is mapped strictly are not answered.
    pub(super) fn hold_strict_pages(&self, file: crate::units::FileId, meanwhile: impl FnOnce()) {
        let served = self.files.known(file).unwrap();
        let _held = served.directory.lock().unwrap();
        meanwhile();
    }

    /// Has so many of the next questions for orders, and reports of what was ordered, fail, as where it lacks
    /// descriptors.
    pub(super) fn refuse_strict(&self, count: u32) {
        self.refusals.store(count, std::sync::atomic::Ordering::SeqCst);
    }

    fn refuses(&self, request: &Request) -> Result<()> {
        use std::sync::atomic::Ordering::SeqCst;
        let is_meant = matches!(request, Request::Attend { .. } | Request::Return { .. });
        let left = |left: u32| left.checked_sub(1);
        if is_meant && self.refusals.fetch_update(SeqCst, SeqCst, left).is_ok() {
            Err(self.cut_short())
        } else {
            Ok(())
        }
    }

    /// Answers what another process asks, but for the message.
    pub(super) fn serve_for(&self, from: Rank, request: &Request) -> Result<Reply> {
        self.serve(from, request, &[], &mut Vec::new())
    }
}
