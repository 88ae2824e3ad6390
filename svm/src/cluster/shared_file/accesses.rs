//! Reads and writes of segments on other nodes, each the way that is best for it.

use std::ops::Range;
use std::sync::atomic::Ordering;

use svmio_transport::copy_bytes;

use crate::cluster::NodeIndex;
use crate::cluster::long_writes::Circumstances;
use crate::cluster::wire::{LONGEST_DATA, Part, Request};
use crate::error::Result;
use crate::units::SegmentIndex;

use super::SharedFile;

impl SharedFile {
    /// Reads from a segment on another node.
    ///
    /// # Safety
    /// `to` is valid for writes of `length` bytes.
    pub(crate) unsafe fn read(
        &self,
        home: u32,
        index: SegmentIndex,
        within: u64,
        to: *mut u8,
        length: usize,
    ) -> Result<()> {
        let node = self.node_at(home)?;
        if self.is_cached() {
            // SAFETY: the caller's promise.
            return unsafe { self.read_cached(node, index, within, to, length) };
        }
        for (at, bytes) in portions(length) {
            let part = Part::one(index, within + at as u64, bytes as u32);
            let request = Request::Read { file: self.attachment.id(), parts: vec![part] };
            let mut came = 0;
            self.cluster.ask_with(node, &request, &[], &mut |_, data| {
                came = data.len().min(bytes);
                // SAFETY: the caller vouches for `length` bytes; the portion lies within them.
                unsafe { copy_bytes(data.as_ptr(), to.add(at), came) };
            })?;
            if came != bytes {
                return Err(self.cluster.context().out_of_place(node));
            }
        }
        Ok(())
    }

    /// Writes to a segment on another node.
    pub(crate) fn write(&self, home: u32, index: SegmentIndex, within: u64, data: &[u8]) -> Result<()> {
        let node = self.node_at(home)?;
        let length = data.len() as u64;
        let circumstances = || self.circumstances(index, &(within..within + length));
        let Some(long) = self.cluster.long_writes.begin(length, circumstances) else {
            return match self.is_cached() {
                true => self.write_cached(index, within, data),
                false => self.write_in_messages(node, index, within, data),
            };
        };
        let mut is_straight = false;
        let mut write = || {
            is_straight = self.write_through_window(node, index, within, data)?;
            if is_straight { Ok(()) } else { self.write_in_messages(node, index, within, data) }
        };
        match self.is_cached() {
            true => self.write_around(index, within, data, write)?,
            false => write()?,
        }
        long.finish(is_straight);
        Ok(())
    }

    /// Whether so many bytes at a position of a segment on another node would go straight to it.
    pub(crate) fn goes_straight(&self, index: SegmentIndex, within: u64, length: u64) -> bool {
        let circumstances = || self.circumstances(index, &(within..within + length));
        self.cluster.long_writes.is_long(length, circumstances)
    }

    /// How many bytes go straight at least: fewer never do.
    pub(crate) fn least_straight(&self) -> u64 {
        self.cluster.long_writes.least()
    }

    fn circumstances(&self, index: SegmentIndex, range: &Range<u64>) -> Circumstances {
        Circumstances {
            is_stored: self.is_known_stored(index, range),
            // Relaxed: a thread's own lock counts, and it has taken it before.
            is_locked: self.locked.load(Ordering::Relaxed) > 0,
        }
    }

    /// Writes to a segment on another node by way of its agent.
    pub(in crate::cluster) fn write_in_messages(
        &self,
        node: NodeIndex,
        index: SegmentIndex,
        within: u64,
        data: &[u8],
    ) -> Result<()> {
        for (at, bytes) in portions(data.len()) {
            let part = Part::one(index, within + at as u64, bytes as u32);
            let request = Request::Write { file: self.attachment.id(), parts: vec![part], cached: false };
            self.cluster.ask_with(node, &request, &data[at..at + bytes], &mut |_, _| {})?;
        }
        Ok(())
    }
}

/// Cuts `length` bytes into what fits into a message: where each portion begins, and its length.
fn portions(length: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..length).step_by(LONGEST_DATA).map(move |at| (at, LONGEST_DATA.min(length - at)))
}
