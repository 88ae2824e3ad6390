//! What a read of many pieces takes from other nodes.
//!
//! Long blocks, and neighbourhoods of dense ones, come by way of the page cache, and what is needed next is on its way
//! before anything is waited for. Sparse ones are copied where their pages are in the cache already; the others their
//! homes gather.

use std::ops::Range;

use crate::blocks::{self, Blocks};
use crate::cluster::{Gather, SharedFile};
use crate::error::Result;
use crate::units::SegmentIndex;

use super::long_blocks::{Block, LongBlocks, PORTION};

/// Bytes of pages that are looked at together.
const NEIGHBOURHOOD: u64 = 256 << 10;

/// Bytes of a block from which on it is read by itself.
pub(super) const LONG: u64 = NEIGHBOURHOOD / 4;

/// Bytes of the blocks in a page from which on these are copied by themselves: about as many as are copied in the time
/// that it takes to find the page.
const MANY: u64 = 4 << 10;

/// After so many pages in a row that are not cached only one of so many is looked for.
const FRUITLESS: u32 = 16;

/// Pieces of other nodes' segments, of one access. They are there after [`Elsewhere::finish`].
pub(super) struct Elsewhere<'f> {
    shared: &'f SharedFile,
    /// The access's.
    bounds: Range<u64>,
    is_dense: bool,
    /// How many bytes may be on their way while others are waited for.
    window: u64,
    /// Up to where a dense access has asked for pages.
    asked: u64,
    around: Around,
    long: LongBlocks,
    gather: Option<Gather<'f>>,
    /// How many pages in a row were not cached, or not looked for.
    fruitless: u32,
}

/// Bytes around the pieces that are read.
struct Around {
    range: Range<u64>,
    bytes: Vec<u8>,
}

impl<'f> Elsewhere<'f> {
    /// For pieces within `bounds` of the file, which fill at least half of them if they are dense.
    pub(super) fn of(shared: &'f SharedFile, bounds: Range<u64>, is_dense: bool) -> Elsewhere<'f> {
        Elsewhere {
            shared,
            window: shared.window_of_access(),
            asked: bounds.start,
            bounds,
            is_dense,
            around: Around { range: 0..0, bytes: Vec::new() },
            long: LongBlocks::default(),
            gather: None,
            fruitless: 0,
        }
    }

    /// Reads `blocks` of the file, which lie within `segment`, segment `index`, whose home is another node, to memory in
    /// which they are to be `stride` bytes from each other.
    ///
    /// # Safety
    /// Each place is valid for writes of a block, and not looked at, until this is finished or dropped.
    pub(super) unsafe fn get(
        &mut self,
        (home, index, segment): (u32, SegmentIndex, Range<u64>),
        blocks: &Blocks,
        to: *mut u8,
        stride: isize,
    ) -> Result<()> {
        // SAFETY: the caller's promise, in all cases.
        unsafe {
            if blocks.length >= LONG {
                for number in 0..blocks.count {
                    let at = blocks.start + blocks.stride * number;
                    let (within, range) = (at - segment.start, at..at + blocks.length);
                    let to = to.wrapping_offset(stride * number as isize);
                    self.long.put(self.shared, self.window, Block { home, index, within, range, to })?;
                }
                Ok(())
            } else if self.is_dense {
                self.get_dense((home, index, segment), blocks, to, stride)
            } else {
                self.get_sparse((home, index, segment.start), blocks, to, stride)
            }
        }
    }

    /// Returns when all pieces are there.
    pub(super) fn finish(mut self) -> Result<()> {
        // SAFETY: whoever called `get` vouches for the places.
        unsafe { self.long.finish(self.shared) }?;
        self.gather.take().map_or(Ok(()), Gather::finish)
    }

    /// # Safety
    /// As [`Elsewhere::get`].
    unsafe fn get_dense(
        &mut self,
        (home, index, segment): (u32, SegmentIndex, Range<u64>),
        blocks: &Blocks,
        to: *mut u8,
        stride: isize,
    ) -> Result<()> {
        let (mut rest, mut to) = (*blocks, to);
        while rest.count > 0 {
            if rest.start < self.around.range.start || rest.first(1).end() > self.around.range.end {
                self.ask_ahead(rest.start);
                // SAFETY: the caller's promise.
                let kept = unsafe { self.copy_many_kept(&rest, to, stride) }?;
                if kept > 0 {
                    (rest, to) = (rest.behind(kept), at(to, stride, kept));
                    continue;
                }
                let end = (rest.start + NEIGHBOURHOOD).min(segment.end).min(self.bounds.end);
                self.around.range = 0..0;
                self.around.bytes.resize((end - rest.start) as usize, 0);
                let (within, bytes) = (rest.start - segment.start, &mut self.around.bytes);
                // SAFETY: the vector has as many bytes.
                unsafe { self.shared.read(home, index, within, bytes.as_mut_ptr(), bytes.len()) }?;
                self.around.range = rest.start..end;
            }
            let count = rest.whole_before(self.around.range.end);
            // SAFETY: the caller's promise; so many blocks, from the first on, lie within the vector.
            unsafe {
                let from = self.around.bytes.as_ptr().add((rest.start - self.around.range.start) as usize);
                let (length, count) = (rest.length as usize, count as usize);
                blocks::copy((to, stride), (from, rest.stride as isize), length, count);
            }
            (rest, to) = (rest.behind(count), at(to, stride, count));
        }
        Ok(())
    }

    /// Copies the first of `blocks` straight from the cache, if its page is there, and there are enough of them in it for
    /// that to be less work than to copy a neighbourhood, or it lies in several. How many it has copied.
    ///
    /// # Safety
    /// As [`Elsewhere::get`].
    unsafe fn copy_many_kept(&self, blocks: &Blocks, to: *mut u8, stride: isize) -> Result<u64> {
        if !self.shared.is_cached() {
            return Ok(0);
        }
        let in_page = self.shared.in_one_page(blocks);
        if in_page > 0 && in_page * blocks.length < MANY {
            return Ok(0);
        }
        // SAFETY: the caller's promise.
        let (count, is_copied) = unsafe { self.shared.copy_kept(blocks, to, stride) }?;
        Ok(if is_copied { count } else { 0 })
    }

    /// Asks for what a dense access needs from `at` on, as far as its window reaches, in portions worth a message.
    fn ask_ahead(&mut self, at: u64) {
        let end = at.saturating_add(self.window).min(self.bounds.end);
        let from = self.asked.max(at);
        let is_due =
            from == at || end == self.bounds.end || end.saturating_sub(from) >= PORTION.min(self.window / 2);
        // A neighbourhood alone comes as fast by itself.
        if is_due && from < end && end - at > NEIGHBOURHOOD {
            self.shared.fetch_soon(std::iter::once(from..end).collect(), end);
            self.asked = end;
        }
    }

    /// # Safety
    /// As [`Elsewhere::get`]; the segment begins at `start` of the file.
    unsafe fn get_sparse(
        &mut self,
        (home, index, start): (u32, SegmentIndex, u64),
        blocks: &Blocks,
        to: *mut u8,
        stride: isize,
    ) -> Result<()> {
        // How many blocks were looked at, and from which on they are to be gathered.
        let (mut done, mut absent) = (0, 0);
        while self.shared.is_cached() && done < blocks.count {
            let rest = blocks.behind(done);
            let is_looked_for = self.fruitless < FRUITLESS || self.fruitless.is_multiple_of(FRUITLESS);
            let (count, is_copied) = match is_looked_for {
                // SAFETY: the caller's promise.
                true => unsafe { self.shared.copy_kept(&rest, at(to, stride, done), stride) }?,
                false => (self.shared.in_one_page(&rest).max(1), false),
            };
            if is_copied {
                // SAFETY: likewise.
                unsafe { self.gather((home, index, start), blocks, absent..done, to, stride) }?;
                absent = done + count;
            }
            self.fruitless = if is_copied { 0 } else { self.fruitless.wrapping_add(1) };
            done += count;
        }
        // SAFETY: likewise.
        unsafe { self.gather((home, index, start), blocks, absent..blocks.count, to, stride) }
    }

    /// Has those of `blocks` with these numbers gathered.
    ///
    /// # Safety
    /// As [`Elsewhere::get_sparse`].
    unsafe fn gather(
        &mut self,
        (home, index, start): (u32, SegmentIndex, u64),
        blocks: &Blocks,
        numbers: Range<u64>,
        to: *mut u8,
        stride: isize,
    ) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let wanted = blocks.behind(numbers.start).first(numbers.end - numbers.start).within(start);
        let gather = self.gather.get_or_insert_with(|| Gather::begin(self.shared));
        // SAFETY: the caller's promise.
        unsafe { gather.get(home, index, &wanted, at(to, stride, numbers.start), stride) }
    }
}

/// Where the block with this number goes.
fn at(to: *mut u8, stride: isize, number: u64) -> *mut u8 {
    to.wrapping_offset(stride * number as isize)
}
