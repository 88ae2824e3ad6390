//! Segment tables, sizes and manifests: what the master keeps for all nodes, and what the others do at its word.

use std::sync::PoisonError;

use crate::attachment::{Filling, Given};
use crate::cluster::wire::{FileTruth, Reply, Request, SegmentHome};
use crate::cluster::{NodeIndex, install};
use crate::error::Result;
use crate::manifest::Manifest;
use crate::placement::SizeReason;
use crate::state::State;
use crate::units::{FileId, SegmentSize};

use super::Agent;
use super::files::Served;

impl Agent {
    pub(super) fn place(
        &self,
        file: FileId,
        homes: &[SegmentHome],
        segment_size: SegmentSize,
    ) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        if homes.iter().any(|(_, home)| *home as usize >= served.attachment.nodes().len()) {
            return Err(self.cut_short());
        }
        let homes = match served.attachment.give_homes(homes, segment_size, Filling::Sparse)? {
            Given::Homes(homes) => homes,
            Given::OtherSize(size) => return Ok(Reply::OtherSize(size)),
        };
        let also_locked_at_master = served.attachment.writable()?.0.are_also_locked_at_master();
        Ok(Reply::Homes { homes, also_locked_at_master })
    }

    pub(super) fn choose(
        &self,
        file: FileId,
        segment_size: SegmentSize,
        reason: SizeReason,
    ) -> Result<Reply> {
        // Nobody opens the file meanwhile, and learns of the old size.
        let _one_at_a_time = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let served = self.files.get(&self.context, file)?;
        let (state, _) = served.attachment.writable()?;
        // Open only once: nobody has counted by the old size but those who wait for the answer, and who writes by himself
        // meanwhile, who gets no home for what he has counted.
        let may_settle = state.segments() == 0 && served.opens() <= 1;
        if let Some(_settling) = may_settle.then(|| state.begin_settling()).flatten() {
            self.settle(&served, state, segment_size, reason)?;
        }
        Ok(Reply::Size(served.attachment.segment_size().bytes()))
    }

    /// Settles the size of segments, and has all nodes know of it.
    fn settle(
        &self,
        served: &Served,
        state: &State,
        segment_size: SegmentSize,
        reason: SizeReason,
    ) -> Result<()> {
        let truncations = state.truncations();
        let manifest = served.attachment.settle_segment_size(segment_size, reason)?;
        // Also nodes of which nobody has opened it may get segments; and what is found of them later, whoever is
        // killed, has this size.
        let nodes = self.nodes_of(served, &manifest);
        let also_locked_at_master = state.are_also_locked_at_master();
        let truth = FileTruth { manifest: manifest.pack(), truncations, also_locked_at_master };
        self.context.ask_all(&nodes, &Request::Adopt { truth, durable: false }).map(drop)
    }

    pub(super) fn grow(&self, file: FileId, size: u64) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let (state, _) = served.attachment.writable()?;
        state.grow(size);
        Ok(Reply::Size(state.size()))
    }

    pub(super) fn news(&self, file: FileId, segments: u64) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let (state, _) = served.attachment.writable()?;
        let homes = (state.segments() != segments).then(|| state.homes().collect());
        // After the homes.
        let also_locked_at_master = state.are_also_locked_at_master();
        // The count first: see `File::size_and_truncations`.
        let truncations = state.truncations();
        let size = state.size();
        Ok(Reply::News { size, truncations, homes, also_locked_at_master })
    }

    pub(super) fn commit(&self, file: FileId, durable: bool, data: bool) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let (state, _) = served.attachment.writable()?;
        if data {
            // Also on nodes of which nobody takes part in the sync.
            let nodes = self.nodes_of(&served, &served.attachment.manifest(state, state.epoch()));
            let elsewhere = self.context.ask_all(&nodes, &Request::Sync { file });
            served.attachment.sync_left_segments()?;
            elsewhere?;
        }
        if !state.needs_commit() && (!durable || served.is_durable(state.epoch())) {
            return Ok(Reply::Done);
        }
        // Before the size, which the manifest has: see `File::size_and_truncations`.
        let truncations = state.truncations();
        let committed = served.attachment.commit(durable)?;
        let manifest = committed.unwrap_or_else(|| served.attachment.manifest(state, state.epoch()));
        let nodes = self.nodes_of(&served, &manifest);
        // After the homes, which the manifest has.
        let also_locked_at_master = state.are_also_locked_at_master();
        let truth = FileTruth { manifest: manifest.pack(), truncations, also_locked_at_master };
        let request = Request::Adopt { truth, durable };
        self.context.ask_all(&nodes, &request)?;
        if durable {
            let own = self.context.roster.own();
            let have_it =
                |node: &NodeIndex| *node == own || nodes.contains(node) || self.context.is_lost(*node);
            served.set_durable(manifest.epoch, have_it);
        }
        Ok(Reply::Done)
    }

    pub(super) fn adopt(&self, truth: &FileTruth, durable: bool) -> Result<Reply> {
        let manifest = self.context.unpacked(&truth.manifest)?;
        let served = self.files.get(&self.context, manifest.id)?;
        // Where nobody asks any more how long the file is: this node may be the next to open it, alone.
        install::take_size(served.attachment.writable()?.0, manifest.size, truth.truncations);
        served.attachment.adopt(&manifest, durable, truth.also_locked_at_master)?;
        Ok(Reply::Done)
    }

    pub(super) fn resize(&self, file: FileId, size: u64) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let (state, _) = served.attachment.writable()?;
        let old = state.size();
        state.set_size(size);
        if size < old {
            state.add_truncation();
            let manifest = served.attachment.manifest(state, state.epoch());
            let request = Request::Punch { file, size };
            let elsewhere = self.context.ask_all(&self.nodes_of(&served, &manifest), &request);
            self.punch_here(&served, state, size)?;
            elsewhere?;
        }
        Ok(Reply::Done)
    }

    pub(super) fn punch(&self, file: FileId, size: u64) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let (state, _) = served.attachment.writable()?;
        self.punch_here(&served, state, size).map(|()| Reply::Done)
    }

    fn punch_here(&self, served: &Served, state: &State, size: u64) -> Result<()> {
        let bytes = served.attachment.segment_size();
        let is_cut = |index| bytes.start_of(index).0 + bytes.bytes() > size;
        let cut = || served.attachment.punch_beyond(state, size);
        if self.context.fabric.capabilities().pins_memory {
            // Also those whose storage was not taken, where something went wrong: nobody knows which.
            served.windows.withdraw(is_cut, cut)?;
        } else {
            cut()?;
        }
        self.cache.truncate(served.attachment.id(), size)?;
        let own = self.context.roster.own();
        for (index, _) in served.attachment.homes() {
            if is_cut(index) {
                served.add_change(index, own);
            }
        }
        Ok(())
    }

    /// The other nodes that have to do with a file: those that opened it, unless they are lost, and those that hold
    /// parts of it.
    fn nodes_of(&self, served: &Served, manifest: &Manifest) -> Vec<NodeIndex> {
        let holders: Vec<_> =
            manifest.segments.iter().filter_map(|run| served.node_at(&self.context, run.home)).collect();
        let own = self.context.roster.own();
        // Those that have not opened it were installed when they became such.
        let nodes = served.add_holders(&holders);
        let is_needed = |node: &NodeIndex| holders.contains(node) || !self.context.is_lost(*node);
        nodes.into_iter().filter(|node| *node != own && is_needed(node)).collect()
    }
}
