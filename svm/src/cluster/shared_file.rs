//! What a file handle does where other nodes take part: finds homes, reads and writes there, sees and shows changes.

mod accesses;
mod placing;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use svmio_transport::SegmentId;

use crate::attachment::{Attachment, Filling, Home};
use crate::cache::PageCache;
use crate::error::{Error, Result};
use crate::node::NodeName;
use crate::placement::SizeReason;
use crate::state::State;
use crate::units::{FileId, SegmentIndex, SegmentSize};

use super::natively::Sources;
use super::read_ahead::Requests;
use super::windows::Windows;
use super::wire::{Reply, Request};
use super::{Cluster, NodeIndex, Roster, install};

/// Under which id each process exports its cache of pages, for homes to write into.
pub(super) const CACHE_SEGMENT: SegmentId = SegmentId::new(0x7376_6d63, 0);

/// One file of a cluster, in one process.
pub(crate) struct SharedFile {
    cluster: Arc<Cluster>,
    attachment: Arc<Attachment>,
    /// The nodes of the file's list, by their positions; `None` for one that takes no part in the cluster.
    nodes: Box<[Option<NodeIndex>]>,
    windows: Windows,
    sources: Sources,
    /// How many of the node's losses (`State::losses`) this handle has been told of.
    told_losses: AtomicU64,
    /// How many ranges this handle has locked.
    locked: AtomicU32,
    /// What this handle has asked for ahead.
    requests_ahead: Arc<Requests>,
}

/// As long as this is there, something is locked.
pub(crate) struct UnderLock(Arc<SharedFile>);

impl SharedFile {
    pub(super) fn new(cluster: Arc<Cluster>, attachment: Arc<Attachment>) -> SharedFile {
        let losses = attachment.state().map_or(0, |state| state.losses().0);
        let (windows, sources) = (Windows::default(), Sources::default());
        let (told_losses, locked) = (AtomicU64::new(losses), AtomicU32::new(0));
        let requests_ahead = Arc::default();
        let roster = &cluster.context().roster;
        let nodes = attachment.nodes().iter().map(|name| roster.index(name)).collect();
        SharedFile { cluster, attachment, nodes, windows, sources, told_losses, locked, requests_ahead }
    }

    /// Whether there is more than one node.
    pub(crate) fn has_other_nodes(&self) -> bool {
        self.cluster.nodes().len() > 1
    }

    /// The node in a position of the file's list.
    pub(crate) fn node_at(&self, position: u32) -> Result<NodeIndex> {
        // Each access to another node asks.
        match self.nodes.get(position as usize) {
            Some(Some(node)) => Ok(*node),
            _ => self.node_called(&self.attachment, position),
        }
    }

    /// The position of a node in the file's list.
    pub(crate) fn position_of(&self, node: NodeIndex) -> Result<u32> {
        let name = &self.cluster.nodes()[node.0 as usize];
        let position = self.attachment.nodes().iter().position(|known| known == name);
        position.map(|position| position as u32).ok_or_else(|| {
            let parts = format!("node {name} is");
            Error::NodesMissing { name: self.attachment.name().into(), parts }
        })
    }

    /// Gives a part of a segment on another node storage.
    pub(crate) fn reserve(&self, home: u32, index: SegmentIndex, range: Range<u64>) -> Result<()> {
        let request = Request::Reserve { file: self.attachment.id(), part: (index, range), export: false };
        self.cluster.ask(self.node_at(home)?, &request).map(|_| ())
    }

    /// Shows other nodes what processes of this one did, as far as they ask. Where one of them cannot be reached, the
    /// others are told all the same.
    pub(crate) fn flush(&self) -> Result<()> {
        self.attachment.tell_changes();
        let cached = if self.is_cached() { self.flush_cached() } else { Ok(()) };
        let told = self.tell_homes();
        let reported = self.report_size();
        cached.and(told).and(reported).and_then(|()| self.report_losses())
    }

    pub(super) fn report_size(&self) -> Result<()> {
        self.report_size_up_to(u64::MAX)
    }

    /// The same where others do not know that the file reaches up to `end`, if it does.
    pub(super) fn report_size_up_to(&self, end: u64) -> Result<()> {
        let (state, _) = self.attachment.writable()?;
        let size = state.size();
        if self.cluster.context().roster.is_master_node() || size.min(end) <= state.reported_size() {
            return Ok(());
        }
        let request = Request::Grow { file: self.attachment.id(), size };
        match self.cluster.ask(Roster::MASTER, &request)? {
            Reply::Size(known) => {
                state.set_reported_size(known);
                Ok(())
            }
            _ => Err(self.cluster.context().out_of_place(Roster::MASTER)),
        }
    }

    /// Has this node's agent bring to the device what it wrote for others.
    pub(crate) fn sync_node(&self) -> Result<()> {
        let request = Request::Sync { file: self.attachment.id() };
        self.cluster.ask(self.cluster.own_node(), &request).map(|_| ())
    }

    /// Has the manifest written on all nodes.
    pub(crate) fn commit(&self, durable: bool, data: bool) -> Result<()> {
        let request = Request::Commit { file: self.attachment.id(), durable, data };
        self.cluster.ask(Roster::MASTER, &request).map(|_| ())
    }

    /// Has the master node choose the size of segments; returns the one in force.
    pub(crate) fn choose_segment_size(
        &self,
        segment_size: SegmentSize,
        reason: SizeReason,
    ) -> Result<SegmentSize> {
        let request = Request::Choose { file: self.attachment.id(), segment_size, reason };
        let out_of_place = || self.cluster.context().out_of_place(Roster::MASTER);
        match self.cluster.ask(Roster::MASTER, &request)? {
            Reply::Size(bytes) => SegmentSize::new(bytes).map_err(|_| out_of_place()),
            _ => Err(out_of_place()),
        }
    }

    /// Says that all who opened the file together have closed it.
    pub(crate) fn closed(&self) -> Result<()> {
        let request = Request::Closed { file: self.attachment.id(), is_given_up: false };
        self.cluster.ask(Roster::MASTER, &request).map(|_| ())
    }

    /// Has the size set.
    pub(crate) fn set_size(&self, size: u64) -> Result<()> {
        let request = Request::Resize { file: self.attachment.id(), size };
        self.cluster.ask(Roster::MASTER, &request).map(|_| ())
    }

    /// Sees what other nodes have shown.
    pub(crate) fn refresh(&self) -> Result<()> {
        self.refresh_table()?;
        if self.is_cached() { self.drop_stale(&(0..u64::MAX)) } else { Ok(()) }
    }

    /// Brings size and segment table up to date.
    fn refresh_table(&self) -> Result<()> {
        let (state, _) = self.attachment.writable()?;
        let unasked = state.unasked_homes();
        if self.cluster.context().roster.is_master_node() {
            state.set_asked_homes(unasked);
            return Ok(());
        }
        let request = Request::Refresh { file: self.attachment.id(), segments: state.segments() };
        match self.cluster.ask(Roster::MASTER, &request)? {
            Reply::News { size, truncations, homes, also_locked_at_master } => {
                self.attachment.note_homes(
                    &homes.unwrap_or_default(),
                    Filling::Sparse,
                    also_locked_at_master,
                )?;
                state.set_asked_homes(unasked);
                install::take_size(state, size, truncations);
                Ok(())
            }
            _ => Err(self.cluster.context().out_of_place(Roster::MASTER)),
        }
    }

    /// Whether there are more segments in `range` than looking at each is worth: most of them may not be there.
    pub(crate) fn has_many_segments(&self, range: &Range<u64>) -> bool {
        const MANY_SEGMENTS: u64 = 1024;
        let (first, last) = self.segments_of(range);
        last - first >= MANY_SEGMENTS
    }

    /// The nodes whose segments lie in `range`, ascending, each once, and the master for those that have no home, or
    /// where it has to be asked in any case.
    pub(crate) fn nodes_of(&self, range: &Range<u64>) -> Result<Vec<NodeIndex>> {
        if self.has_many_segments(range) {
            return self.nodes_of_many(range);
        }
        let (first, last) = self.segments_of(range);
        let mut nodes = Vec::new();
        for index in first..=last {
            match self.attachment.home(SegmentIndex(u32::try_from(index).unwrap_or(u32::MAX))) {
                Home::Hole => nodes.push(Roster::MASTER),
                Home::Here => nodes.push(self.cluster.own_node()),
                Home::There(home) => nodes.push(self.node_at(home)?),
            }
        }
        if self.are_also_locked_at_master() {
            nodes.push(Roster::MASTER);
        }
        nodes.sort_unstable();
        nodes.dedup();
        Ok(nodes)
    }

    /// The same of many segments, some of which have no home.
    fn nodes_of_many(&self, range: &Range<u64>) -> Result<Vec<NodeIndex>> {
        let (first, last) = self.segments_of(range);
        let mut nodes = BTreeSet::from([Roster::MASTER]);
        let first = SegmentIndex(u32::try_from(first).unwrap_or(u32::MAX));
        let segments = self.attachment.segments_from(first).take_while(|index| u64::from(index.0) <= last);
        let mut before = Home::Hole;
        for home in segments.map(|index| self.attachment.home(index)) {
            // Neighbours mostly have the same one.
            match home {
                home if home == before => {}
                Home::Hole => {}
                Home::Here => _ = nodes.insert(self.cluster.own_node()),
                Home::There(home) => _ = nodes.insert(self.node_at(home)?),
            }
            if nodes.len() == self.cluster.nodes().len() {
                break;
            }
            before = home;
        }
        Ok(nodes.into_iter().collect())
    }

    /// Whether all ranges are locked at the master, too; asked after the homes of their segments.
    pub(crate) fn are_also_locked_at_master(&self) -> bool {
        self.attachment.state().is_some_and(State::are_also_locked_at_master)
    }

    /// This process's node.
    pub(crate) fn own_node(&self) -> NodeIndex {
        self.cluster.own_node()
    }

    /// The names of the cluster's nodes.
    pub(crate) fn node_names(&self) -> &[NodeName] {
        self.cluster.nodes()
    }

    /// Sees what other nodes have shown of `range`, which is not locked.
    pub(crate) fn refresh_unlocked(&self, range: &Range<u64>) -> Result<()> {
        // Nobody makes a file shorter behind the backs of those who read it.
        if range.end <= self.attachment.size() && !self.may_have_holes(range) {
            return self.refresh_cached(range);
        }
        self.refresh_range(range)
    }

    /// Sees what other nodes have shown of `range`, which is locked.
    pub(crate) fn refresh_range(&self, range: &Range<u64>) -> Result<()> {
        self.refresh_table()?;
        self.refresh_cached(range)
    }

    /// The same where its segments have homes, and the file is known not to end in it.
    pub(crate) fn refresh_cached(&self, range: &Range<u64>) -> Result<()> {
        if self.is_cached() { self.drop_stale(range) } else { Ok(()) }
    }

    /// Whether pages of the file are cached: they have to lie within segments.
    pub(crate) fn is_cached(&self) -> bool {
        u64::from(self.cache().page()) <= self.attachment.segment_size().bytes()
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(super) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    pub(super) fn told_losses(&self) -> &AtomicU64 {
        &self.told_losses
    }

    pub(super) fn requests_ahead(&self) -> &Arc<Requests> {
        &self.requests_ahead
    }

    pub(super) fn windows(&self) -> &Windows {
        &self.windows
    }

    pub(super) fn sources(&self) -> &Sources {
        &self.sources
    }

    pub(super) fn cache(&self) -> &PageCache {
        self.cluster.cache()
    }

    pub(super) fn file(&self) -> FileId {
        self.attachment.id()
    }

    /// The node in a position of the list of `attachment`, which may be of another file.
    pub(super) fn node_called(&self, attachment: &Attachment, position: u32) -> Result<NodeIndex> {
        let name = attachment.nodes().get(position as usize);
        name.and_then(|name| self.cluster.context().roster.index(name)).ok_or_else(|| {
            let node = name.map_or("?", |name| name.as_str());
            let parts = format!("a segment lies on node {node}, which is");
            Error::NodesMissing { name: attachment.name().into(), parts }
        })
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        self.end_ahead();
    }
}

impl UnderLock {
    /// A range of the file is about to be locked.
    pub(crate) fn of(shared: &Arc<SharedFile>) -> UnderLock {
        shared.locked.fetch_add(1, Ordering::Relaxed);
        UnderLock(Arc::clone(shared))
    }
}

impl Drop for UnderLock {
    fn drop(&mut self) {
        self.0.locked.fetch_sub(1, Ordering::Relaxed);
    }
}
