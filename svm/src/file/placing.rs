//! Homes for segments that have none, as the file's placement says: with a write, a lock to write under, or storage
//! ahead.

use std::ops::Range;
use std::sync::Arc;

use crate::attachment::{Filling, Home};
use crate::cluster::{NodeIndex, SharedFile};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::locks::Mode;
use crate::placement::Placement;
use crate::range_lock::RangeLock;
use crate::units::{FileOffset, SegmentIndex, SegmentSize};

use super::{File, Target};

/// Segments that get their homes with one message.
const AT_ONCE: usize = 4096;

/// More segments between an access's first byte and its last are not looked at before it, nor such of which each would
/// get fewer bytes on the average.
const MOST_LOOKED_AT: u64 = 1 << 14;
const FEWEST_BYTES: u64 = 64;

impl File {
    /// Waits until `range` of the file can be had in `mode`, and holds it. Requests that conflict are served in
    /// the order in which they came; the death of a holder frees what it held.
    ///
    /// Where other nodes share the file, an exclusive lock gives all segments in `range` their homes, unless there are
    /// so many that they can only mean the whole file: any of them may be written under it.
    ///
    /// Who holds one range and waits for another may wait for ever, unnoticed, if somebody does the same the other way
    /// round: threads that would do so within one node's part of the file are told.
    ///
    /// # Errors
    /// [`Error::Lock`]; [`Error::ReadOnly`] or [`Error::Access`] where the store is not writable; [`Error::OnNode`],
    /// [`Error::Fabric`].
    pub fn lock(&self, range: Range<FileOffset>, mode: Mode) -> Result<RangeLock> {
        let all = range.clone();
        let is_whole_file = |shared: &Arc<SharedFile>| shared.has_many_segments(&(all.start.0..all.end.0));
        let written = |size| match self.shared.as_ref().is_some_and(is_whole_file) {
            true => Vec::new(),
            false => self.unplaced_of(size, all.clone()),
        };
        self.lock_and_claim(range, mode, &written)
    }

    /// [`File::lock`] in exclusive mode for somebody who writes to some of the segments in `range` only, and to no
    /// others as long as he holds it: those that `written` tells, if they are of the size that it is given. It is asked
    /// where a segment in `range` has no home; no other segment gets one.
    ///
    /// # Errors
    /// As [`File::lock`].
    pub fn lock_to_write(
        &self,
        range: Range<FileOffset>,
        written: &dyn Fn(SegmentSize) -> Vec<SegmentIndex>,
    ) -> Result<RangeLock> {
        self.lock_and_claim(range, Mode::Exclusive, written)
    }

    fn lock_and_claim(
        &self,
        range: Range<FileOffset>,
        mode: Mode,
        written: &dyn Fn(SegmentSize) -> Vec<SegmentIndex>,
    ) -> Result<RangeLock> {
        let (range, end) = (range.start.0..range.end.0, range.end.0);
        let claim = |shared: &SharedFile| {
            loop {
                let size = self.segment_size();
                if self.claim_all(shared, (&written(size), size), end, Filling::Sparse)? {
                    return Ok(());
                }
            }
        };
        RangeLock::acquire(&self.attachment, self.shared.as_ref(), range, mode, &claim)
    }

    /// [`File::preallocate`] where ranks on `nodes` are going to write: nobody touches anything first, so that where
    /// the placement goes by that, the new segments are spread over these nodes in equal blocks.
    ///
    /// # Errors
    /// As [`File::preallocate`]; [`Error::OnNode`], [`Error::Fabric`]; [`Error::NodesMissing`] for a node that has no
    /// part in the file.
    pub fn preallocate_over(&self, size: u64, nodes: &[NodeIndex]) -> Result<()> {
        self.changing()?;
        if let (Some(_), Placement::FirstTouch, 1..) = (&self.shared, &self.placement, nodes.len())
            && size <= self.attachment.limit()
        {
            let segments = size.div_ceil(self.segment_size().bytes());
            let home = |index: SegmentIndex| {
                let place = u64::from(index.0) * nodes.len() as u64 / segments;
                (index, nodes[place as usize])
            };
            let homes: Vec<_> =
                self.unplaced(FileOffset(0)..FileOffset(size)).into_iter().map(home).collect();
            for some in homes.chunks(AT_ONCE) {
                self.place(some, size / segments)?;
            }
        }
        self.preallocate(size)
    }

    /// Gives the file's first `size` bytes storage, and makes the file that long if it is shorter. New segments get
    /// their homes as with a write of all these bytes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Quota`], [`Error::TooLarge`], [`Error::NotOpenedFor`] writing.
    pub fn preallocate(&self, size: u64) -> Result<()> {
        let (state, _) = self.changing()?;
        if size > self.attachment.limit() {
            return Err(self.too_large(size));
        }
        let mut at = 0;
        while at < size {
            let segment_size = self.segment_size();
            let (index, within, bytes) = self.piece(segment_size, at, size)?;
            let range = within..within + bytes as u64;
            match self.segment_to_write(index, segment_size, size, size - at)? {
                Target::CountAnew => continue,
                Target::Here(segment) => {
                    segment.allocate(range).map_err(|e| {
                        self.io(format!("preallocating segment {index} of {}", self.name()), e)
                    })?;
                    self.attachment.mark_dirty(&segment);
                }
                Target::There(shared, home) => shared.reserve(home, index, range)?,
            }
            at += bytes as u64;
        }
        state.grow(size);
        self.flush()
    }

    /// Gives homes to the segments that somebody is about to write `bytes` bytes to in `range`, as far as they have none:
    /// all with one message, where the write itself would send one for each. They are those that `written` tells, if
    /// they are of the size that it is given. It is asked where more than one segment in `range` has no home, and not
    /// where `range` is so wide that most of its segments are not written.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn place_ahead(
        &self,
        range: Range<FileOffset>,
        bytes: u64,
        written: &dyn Fn(SegmentSize) -> Vec<SegmentIndex>,
    ) -> Result<()> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let size = self.segment_size();
        let end = range.end.0;
        let segments = end.saturating_sub(range.start.0) / size.bytes();
        if end.saturating_sub(1) / size.bytes() <= range.start.0 / size.bytes()
            || segments > MOST_LOOKED_AT.min(bytes / FEWEST_BYTES)
        {
            return Ok(());
        }
        self.check_write(end)?;
        match self.unplaced(range).len() {
            0 | 1 => Ok(()),
            _ => {
                let filling = Filling::of(bytes / (segments + 1), size);
                // Where they are to be counted anew, the write itself asks for what it comes to.
                self.claim_all(shared, (&written(size), size), end, filling).map(drop)
            }
        }
    }

    /// Has segments stay of the size in force: whoever maps the file counts by that from now on.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`].
    pub(crate) fn fix_segment_size(&self) -> Result<()> {
        let Some(shared) = &self.shared else { return Ok(()) };
        while !shared.fix_segment_size(self.segment_size())? {}
        Ok(())
    }

    /// Gives a segment a home, as a write does that ends at `end`, if it has none. The size of segments is
    /// [fixed](File::fix_segment_size).
    pub(crate) fn claim(&self, index: SegmentIndex, end: u64) -> Result<()> {
        while let Target::CountAnew = self.segment_to_write(index, self.segment_size(), end, 0)? {}
        Ok(())
    }

    /// The home that the placement gives to a segment of an access that ends at `end`.
    pub(super) fn home_for(&self, shared: &SharedFile, index: SegmentIndex, end: u64) -> NodeIndex {
        let last = self.segment_size().locate(FileOffset(end.saturating_sub(1)));
        let last = last.map_or(index, |(last, _)| last);
        self.placement.home(index, last, shared.node_names(), shared.own_node())
    }

    /// Gives homes to those of the segments of an access that ends at `end`, counted by that size, that have none. False
    /// where they are to be counted anew.
    fn claim_all(
        &self,
        shared: &SharedFile,
        (indices, size): (&[SegmentIndex], SegmentSize),
        end: u64,
        filling: Filling,
    ) -> Result<bool> {
        let holes = indices.iter().filter(|index| self.attachment.home(**index) == Home::Hole);
        let home =
            |index: &SegmentIndex| Ok((*index, shared.position_of(self.home_for(shared, *index, end))?));
        let homes = holes.map(home).collect::<Result<Vec<_>>>()?;
        for some in homes.chunks(AT_ONCE) {
            if shared.place(some, size, filling)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
