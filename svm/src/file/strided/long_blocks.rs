//! Long blocks of other nodes' segments: each is read by itself, and the next ones are on their way before.

use std::collections::VecDeque;
use std::ops::Range;

use crate::cluster::SharedFile;
use crate::error::Result;
use crate::units::SegmentIndex;

/// Bytes that are worth a message.
pub(super) const PORTION: u64 = 1 << 20;

/// Blocks that are to be read, in the order in which they were given.
#[derive(Default)]
pub(super) struct LongBlocks {
    waiting: VecDeque<Block>,
    /// Bytes of these.
    bytes: u64,
    /// How many of them, from the first on, were asked for.
    asked: usize,
    /// Bytes of the others.
    unasked: u64,
}

/// A block in a segment, and where its bytes go.
pub(super) struct Block {
    pub(super) home: u32,
    pub(super) index: SegmentIndex,
    /// From the segment's beginning, bytes.
    pub(super) within: u64,
    /// Where it lies in the file, bytes.
    pub(super) range: Range<u64>,
    pub(super) to: *mut u8,
}

impl Block {
    fn length(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl LongBlocks {
    /// Reads a block when there are `window` bytes of others behind it, or at [`LongBlocks::finish`].
    ///
    /// # Safety
    /// The block's place is valid for writes of its bytes until then, or until this is dropped.
    pub(super) unsafe fn put(&mut self, shared: &SharedFile, window: u64, block: Block) -> Result<()> {
        if block.length() > window / 2 {
            // Its own pages are enough to have under way.
            // SAFETY: the caller's promise.
            return unsafe { read(shared, &block) };
        }
        self.bytes += block.length();
        self.unasked += block.length();
        self.waiting.push_back(block);
        if self.unasked >= PORTION.min(window / 2) {
            self.ask(shared);
        }
        while self.bytes > window {
            // SAFETY: as above.
            unsafe { self.read_first(shared) }?;
        }
        Ok(())
    }

    /// Reads all that are left.
    ///
    /// # Safety
    /// The places of all are still valid.
    pub(super) unsafe fn finish(&mut self, shared: &SharedFile) -> Result<()> {
        while !self.waiting.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { self.read_first(shared) }?;
        }
        Ok(())
    }

    /// # Safety
    /// As [`LongBlocks::finish`].
    unsafe fn read_first(&mut self, shared: &SharedFile) -> Result<()> {
        // A single one asks for its pages itself.
        if self.asked == 0 && self.waiting.len() > 1 {
            self.ask(shared);
        }
        let Some(block) = self.waiting.pop_front() else { return Ok(()) };
        self.bytes -= block.length();
        match self.asked {
            0 => self.unasked -= block.length(),
            _ => self.asked -= 1,
        }
        // SAFETY: the caller's promise.
        unsafe { read(shared, &block) }
    }

    /// Asks for those that were not asked for yet.
    fn ask(&mut self, shared: &SharedFile) {
        let ranges: Vec<_> = self.waiting.iter().skip(self.asked).map(|block| block.range.clone()).collect();
        let end = ranges.iter().map(|range| range.end).max().unwrap_or_default();
        shared.fetch_soon(ranges, end);
        (self.asked, self.unasked) = (self.waiting.len(), 0);
    }
}

/// # Safety
/// The block's place is valid for writes of its bytes.
unsafe fn read(shared: &SharedFile, block: &Block) -> Result<()> {
    let Block { home, index, within, to, .. } = *block;
    // SAFETY: the caller's promise.
    unsafe { shared.read(home, index, within, to, block.length() as usize) }
}
