//! What a file's handle does about other nodes: showing them what was written, seeing what they wrote, and homes.

use std::ops::Range;

use crate::attachment::{Filling, Home};
use crate::cluster::{NodeIndex, SharedFile};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::placement::SizeReason;
use crate::state::State;
use crate::units::{FileOffset, SegmentIndex, SegmentSize};

use super::File;

impl File {
    /// Where other nodes share the file: what processes of this one wrote is where others look for it. They see it once
    /// they [refresh](File::refresh).
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`]: what could not be brought to its home is kept, to be tried again.
    /// [`Error::WritesLost`], once: what this node wrote under a lock did not get home before the lock went on.
    pub fn flush(&self) -> Result<()> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.flush())
    }

    /// Where other nodes share the file: processes of this one see from now on what others have
    /// [flushed](File::flush). One process of each node has to call it.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`].
    pub fn refresh(&self) -> Result<()> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.refresh())
    }

    /// As [`File::flush`], for what this node wrote in `range`.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`]: what could not be brought to its home is kept, to be tried again.
    pub fn flush_range(&self, range: Range<FileOffset>) -> Result<()> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.flush_range(&(range.start.0..range.end.0)))
    }

    /// As [`File::refresh`], for what others have flushed of `range`, and for the file's size if that ends there.
    ///
    /// # Errors
    /// As [`File::refresh`].
    pub fn refresh_range(&self, range: Range<FileOffset>) -> Result<()> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.refresh_unlocked(&(range.start.0..range.end.0)))
    }

    /// Whether nodes beside this one share the file.
    pub fn is_shared_by_nodes(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.has_other_nodes())
    }

    /// Whether the file has any segment, as far as this node knows.
    pub fn has_segments(&self) -> bool {
        self.attachment.homes().next().is_some()
    }

    /// Where other nodes share the file: has its segments be of `size`, for that reason, if there is none yet and
    /// nobody else has opened it. Returns the size in force, which all others that have the file open
    /// [note](File::note_segment_size) before anybody reads; a write that goes on meanwhile goes where it should.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`].
    pub fn choose_segment_size(&self, size: SegmentSize, reason: SizeReason) -> Result<SegmentSize> {
        match &self.shared {
            Some(shared) => {
                let size = shared.choose_segment_size(size, reason)?;
                self.note_segment_size(size);
                Ok(size)
            }
            None => Ok(self.segment_size()),
        }
    }

    /// Takes note of the size that [`File::choose_segment_size`] told another process.
    pub fn note_segment_size(&self, size: SegmentSize) {
        if let (Some(_), Some(state)) = (&self.shared, self.attachment.state()) {
            state.set_segment_size(size);
        }
    }

    /// How long the file is as this node knows it, bytes, and of how many truncations it has heard.
    pub(crate) fn size_and_truncations(&self) -> (u64, u64) {
        // The size after the count: where the file is made shorter between them, nothing is told that holds no more.
        let truncations = self.attachment.state().map_or(0, State::truncations);
        (self.size(), truncations)
    }

    /// Takes note that the file is at least `size` bytes long, as all nodes know that have heard of so many
    /// `truncations`, as this one had.
    pub(crate) fn note_size(&self, size: u64, truncations: u64) {
        if let Ok((state, _)) = self.attachment.writable()
            && state.truncations() == truncations
        {
            state.grow(size);
        }
    }

    /// The segments in `range` of which this node knows no home.
    pub fn unplaced(&self, range: Range<FileOffset>) -> Vec<SegmentIndex> {
        self.unplaced_of(self.segment_size(), range)
    }

    /// The same, counted by that size.
    pub(super) fn unplaced_of(&self, size: SegmentSize, range: Range<FileOffset>) -> Vec<SegmentIndex> {
        let size = size.bytes();
        if range.is_empty() {
            return Vec::new();
        }
        let indices = range.start.0 / size..=(range.end.0 - 1) / size;
        let indices = indices.map_while(|index| u32::try_from(index).ok()).map(SegmentIndex);
        indices.filter(|index| self.attachment.home(*index) == Home::Hole).collect()
    }

    /// Gives segments homes, as far as they have none, to each of which about `each` bytes are going to be written;
    /// returns homes in force. The others that are about to write to them may [note](File::note_homes) these, without
    /// asking. There are none where somebody has locked some of the file since before it had homes, or where another
    /// size of segments turns out to be in force: who writes then has to ask.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`]; [`Error::NodesMissing`] for a node that has no part in the file.
    pub fn place(
        &self,
        homes: &[(SegmentIndex, NodeIndex)],
        each: u64,
    ) -> Result<Vec<(SegmentIndex, NodeIndex)>> {
        let Some(shared) = &self.shared else { return Ok(homes.to_vec()) };
        let (wanted, size) = (self.by_position(shared, homes)?, self.segment_size());
        let placed = shared.place(&wanted, size, Filling::of(each, size))?;
        // Noted by others, homes would not tell them where to lock.
        let Some(placed) = placed.filter(|_| !shared.are_also_locked_at_master()) else {
            return Ok(Vec::new());
        };
        placed.into_iter().map(|(index, home)| Ok((index, shared.node_at(home)?))).collect()
    }

    /// Takes note of homes that [`File::place`] told another process, which was told `each` bytes, too.
    ///
    /// # Errors
    /// [`Error::NoSpace`] and the like.
    pub fn note_homes(&self, homes: &[(SegmentIndex, NodeIndex)], each: u64) -> Result<()> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let filling = Filling::of(each, self.segment_size());
        self.attachment.enter_homes(&self.by_position(shared, homes)?, filling).map(|_| ())
    }

    fn by_position(
        &self,
        shared: &SharedFile,
        homes: &[(SegmentIndex, NodeIndex)],
    ) -> Result<Vec<(SegmentIndex, u32)>> {
        homes.iter().map(|(index, node)| Ok((*index, shared.position_of(*node)?))).collect()
    }

    /// Writes the manifest if it does not tell the file's size and segments yet. With `durable` it has reached
    /// the storage device on return.
    ///
    /// # Errors
    /// [`Error::NoSpace`] and the like; the old manifest is then still in place.
    pub fn commit(&self, durable: bool) -> Result<()> {
        match &self.shared {
            Some(shared) => shared.commit(durable, false),
            None => self.attachment.commit(durable).map(|_| ()),
        }
    }

    /// As [`File::commit`], durably, after everything that was flushed to other nodes has reached their devices, also
    /// of nodes on which nobody has the file open.
    ///
    /// # Errors
    /// As [`File::commit`] and [`File::sync_data`].
    pub fn commit_synced(&self) -> Result<()> {
        match &self.shared {
            Some(shared) => shared.commit(true, true),
            None => self.commit(true),
        }
    }

    /// Brings to the storage device what other nodes wrote to this one's segments.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_node(&self) -> Result<()> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.sync_node())
    }

    /// Waits until no other node is asked any more for what this handle would have read next.
    pub(crate) fn end_ahead(&self) {
        if let Some(shared) = &self.shared {
            shared.end_ahead();
        }
    }

    /// Says that all who opened the file together by way of a cluster have closed it, or are about to without using it
    /// any more. One of them calls this; then nothing is held open for them on any node.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`].
    pub fn closed_by_all(&self) -> Result<()> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.closed())
    }
}
