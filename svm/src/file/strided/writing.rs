//! Writing many pieces of a file as one access.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use svmio_transport::StreamingStores;

use crate::blocks::Blocks;
use crate::cluster::{Scatter, SharedFile};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::likely::likely;
use crate::file::mapped::{are_mapped, packed};
use crate::file::{File, Target};
use crate::segment::{Access, Division, Place, Segment, Sole};
use crate::team::Team;
use crate::units::{FileOffset, SegmentIndex, SegmentSize};

use super::halves;

/// Bytes of all pieces from which on those that do not go straight home are packed into messages at once. Less goes by
/// the cache, which shares its messages with other accesses: that saves messages, whatever they take.
const MUCH: u64 = 64 << 10;
/// The same in pieces: one in the cache takes four times what it takes in a message, which a thousand are worth. Measured with
/// 16 ranks on four hosts whose pieces of 8 bytes alternate, until they are home: 1,024 of each take 0.6 to 0.8 of the time so,
/// 6,144 take 0.4.
const MANY: u64 = 1024;
/// Bytes between pieces up to which others, if there are some, probably write there: less than a large page.
const NEAR: u64 = 1 << 20;
/// Bytes between the first piece and the last, from which on they would be in many pages of the cache.
const WIDE: u64 = 4 << 20;

impl File {
    /// Begins to write `bytes` bytes, all of which lie within `bounds`.
    ///
    /// # Errors
    /// [`Error::NotOpenedFor`] writing, [`Error::TooLarge`], [`Error::ReadOnly`], [`Error::Access`].
    pub fn write_strided(&self, bounds: Range<FileOffset>, bytes: u64) -> Result<StridedWrite<'_>> {
        self.write_divided(bounds, bytes, Division::ALONE)
    }

    /// The same where all members of `team` begin such a write at the same time, each of about as many bytes, and often
    /// between each other's. None relies on the others: what each writes is its own affair.
    ///
    /// # Errors
    /// As [`write_strided`](Self::write_strided).
    pub fn write_strided_by_all(
        &self,
        bounds: Range<FileOffset>,
        bytes: u64,
        team: &Team,
    ) -> Result<StridedWrite<'_>> {
        self.write_divided(bounds, bytes, Division::new(team.local(), team.size()))
    }

    fn write_divided(
        &self,
        bounds: Range<FileOffset>,
        bytes: u64,
        division: Division,
    ) -> Result<StridedWrite<'_>> {
        let state = self.check_write(bounds.end.0)?;
        let bounds = bounds.start.0..bounds.end.0;
        let likely_of = |bytes| likely(&bounds, bytes, state.size());
        let (likely, likely_together) = (likely_of(bytes), likely_of(division.together(bytes)));
        // Others may have made the file longer since, with their parts of the same. Relaxed: it only decides how bytes
        // are copied.
        let seen = self.seen.load(Ordering::Relaxed).min(state.size());
        let place = if bounds.end <= seen { Place::Old } else { Place::New };
        let dense = if likely.is_empty() { 0 } else { bytes };
        let (here, sole, scatter, grown, grown_there) = (None, Sole::default(), None, 0, 0);
        let past_caches = StreamingStores::default();
        Ok(StridedWrite {
            file: self,
            bytes,
            likely,
            likely_together,
            behind: bounds.start,
            bounds,
            division,
            dense,
            place,
            here,
            sole,
            scatter,
            grown,
            grown_there,
            past_caches,
        })
    }
}

/// A write of many pieces, by one thread. They are written after [`StridedWrite::finish`]; before, some of them are.
pub struct StridedWrite<'f> {
    file: &'f File,
    bounds: Range<u64>,
    bytes: u64,
    /// What is likely to be written soon, by whomever.
    likely: Range<u64>,
    /// The same where pieces are near each other, if others write as much.
    likely_together: Range<u64>,
    /// Where the last piece ended.
    behind: u64,
    /// Who does what of the work before it.
    division: Division,
    /// How many bytes there are if there are no large gaps between them, else none.
    dense: u64,
    /// Whether other bytes have been there for a while.
    place: Place,
    /// The segment that was written last.
    here: Option<Arc<Segment>>,
    /// What has been found out of other files that have a part in its storage.
    sole: Sole,
    scatter: Option<Scatter<'f>>,
    /// Where the file ends at least.
    grown: u64,
    /// The same, once the pieces that are on their way are home.
    grown_there: u64,
    past_caches: StreamingStores,
}

impl<'f> StridedWrite<'f> {
    /// Writes `blocks` from memory in which they are `stride` bytes from each other.
    ///
    /// # Errors
    /// As [`File::write_at`]; pieces of before may be what could not be written.
    ///
    /// # Safety
    /// Each block of memory is valid for reads. None lies in a mapping of the file's.
    pub unsafe fn put(&mut self, blocks: &Blocks, source: *const u8, stride: isize) -> Result<()> {
        let (mut rest, mut source) = (*blocks, source);
        while rest.count > 0 {
            let size = self.file.segment_size();
            let (index, within, _) = self.file.piece(size, rest.start, rest.end())?;
            let start = rest.start - within;
            let count = rest.whole_before(start + size.bytes());
            if count == 0 {
                // A block in two segments.
                let (head, tail) = halves(&rest, start + size.bytes());
                let within = head.within(start);
                // SAFETY: the caller's promise; both are parts of a block.
                unsafe {
                    if !self.put_within((index, size), &within, head.end(), source, stride)? {
                        continue;
                    }
                    self.put(&tail, source.add(head.length as usize), stride)?;
                }
                (rest, source) = (rest.behind(1), source.wrapping_offset(stride));
                continue;
            }
            let part = rest.first(count);
            let within = part.within(start);
            // SAFETY: the caller's promise.
            if !unsafe { self.put_within((index, size), &within, part.end(), source, stride) }? {
                continue;
            }
            (rest, source) = (rest.behind(count), source.wrapping_offset(stride * count as isize));
        }
        Ok(())
    }

    /// Returns when all pieces are written: where their homes are, or in the cache.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`], what a home says of a piece.
    pub fn finish(mut self) -> Result<()> {
        if let Some(scatter) = self.scatter.take() {
            scatter.finish()?;
            self.grown = self.grown.max(self.grown_there);
        }
        Ok(())
    }

    /// Writes what lies in one segment, which was counted by that size. False where segments turn out to be of another
    /// one: then nothing is written, and all is to be counted anew.
    ///
    /// # Safety
    /// As [`StridedWrite::put`]; `blocks`, which end at `end` of the file, lie within the segment.
    unsafe fn put_within(
        &mut self,
        (index, size): (SegmentIndex, SegmentSize),
        blocks: &Blocks,
        end: u64,
        source: *const u8,
        stride: isize,
    ) -> Result<bool> {
        if are_mapped(blocks, source, stride) {
            // SAFETY: the caller's promise.
            let bytes = unsafe { packed(blocks, source, stride) };
            // SAFETY: the vector has the blocks, one behind the other, and is no mapping.
            return unsafe {
                self.put_within((index, size), blocks, end, bytes.as_ptr(), blocks.length as isize)
            };
        }
        let start = end - blocks.end();
        let gap = (start + blocks.start).saturating_sub(self.behind).max(blocks.stride);
        let likely = if gap <= NEAR { &self.likely_together } else { &self.likely };
        let likely = self.of_segment(likely, start);
        self.behind = end;
        if self.here.as_ref().is_none_or(|segment| segment.index() != index) {
            self.leave_segment();
            match self.file.segment_to_write(index, size, self.bounds.end, self.dense)? {
                Target::Here(segment) => {
                    if self.place == Place::New && !likely.is_empty() {
                        let range = self.of_segment(&self.bounds, start);
                        segment.make_share(&range, self.division, self.file.punches());
                    }
                    self.here = Some(segment);
                }
                Target::There(shared, home) => {
                    // SAFETY: the caller's promise.
                    unsafe { self.put_there(shared, home, index, blocks, source, stride) }?;
                    let grown = if self.scatter.is_some() { &mut self.grown_there } else { &mut self.grown };
                    *grown = end.max(*grown);
                    return Ok(true);
                }
                Target::CountAnew => return Ok(false),
            }
        }
        let Some(segment) = &self.here else { return Ok(true) };
        let sole = std::mem::take(&mut self.sole);
        let access = Access { bytes: self.bytes, place: self.place, likely, sole };
        // SAFETY: the caller's promise; `check_write` has said that the segment is mapped for writing.
        let written = unsafe {
            let access = (&access, &mut self.past_caches);
            segment.write_blocks(blocks, (source, stride), access, self.file.punches())
        };
        self.sole = access.sole;
        match written {
            Ok(()) => {
                self.grown = self.grown.max(end);
                Ok(true)
            }
            Err((done, e)) => {
                if done > 0 {
                    self.grown = self.grown.max(start + blocks.first(done).end());
                }
                let failed = Blocks::one(blocks.behind(done).start, blocks.length);
                self.file.clear_unseen(segment, failed.start..failed.end(), start.max(self.grown));
                Err(self.file.io(format!("writing segment {index} of {}", self.file.name()), e))
            }
        }
    }

    /// What of `range` lies in the segment that begins at `start`, counted from there.
    fn of_segment(&self, range: &Range<u64>, start: u64) -> Range<u64> {
        let within = |at: u64| at.saturating_sub(start).min(self.file.segment_size().bytes());
        within(range.start)..within(range.end)
    }

    /// # Safety
    /// As [`StridedWrite::put`].
    unsafe fn put_there(
        &mut self,
        shared: &'f SharedFile,
        home: u32,
        index: SegmentIndex,
        blocks: &Blocks,
        source: *const u8,
        stride: isize,
    ) -> Result<()> {
        // Who has begun to pack goes on: pages of what is packed leave the cache at the end.
        let is_much = self.scatter.is_some()
            || self.bytes >= MUCH.min(MANY * blocks.length)
            || self.bounds.end - self.bounds.start >= WIDE;
        if is_much && blocks.length < shared.least_straight() {
            // SAFETY: the caller's promise.
            return unsafe { self.pack(shared, home, index, blocks, source, stride) };
        }
        for number in 0..blocks.count {
            let source = source.wrapping_offset(stride * number as isize);
            let (at, length) = (blocks.start + blocks.stride * number, blocks.length);
            if is_much && !shared.goes_straight(index, at, length) {
                // SAFETY: the caller's promise.
                unsafe { self.pack(shared, home, index, &Blocks::one(at, length), source, stride) }?;
                continue;
            }
            // SAFETY: the caller's promise.
            let data = unsafe { std::slice::from_raw_parts(source, length as usize) };
            shared.write(home, index, at, data)?;
        }
        Ok(())
    }

    /// Has pieces go home in messages that the home scatters.
    ///
    /// # Safety
    /// As [`StridedWrite::put`].
    unsafe fn pack(
        &mut self,
        shared: &'f SharedFile,
        home: u32,
        index: SegmentIndex,
        blocks: &Blocks,
        source: *const u8,
        stride: isize,
    ) -> Result<()> {
        let scatter = self.scatter.get_or_insert_with(|| Scatter::begin(shared));
        // SAFETY: the caller's promise.
        unsafe { scatter.put(home, index, blocks, source, stride) }
    }

    fn leave_segment(&mut self) {
        self.past_caches.order();
        self.sole = Sole::default();
        if let Some(segment) = self.here.take() {
            self.file.attachment.mark_dirty(&segment);
        }
    }
}

impl Drop for StridedWrite<'_> {
    fn drop(&mut self) {
        self.leave_segment();
        drop(self.scatter.take());
        // After the bytes: whoever sees the size finds them.
        if let (true, Some(state)) = (self.grown > 0, self.file.attachment.state()) {
            state.grow(self.grown);
            self.file.seen.store(state.size(), Ordering::Relaxed);
        }
    }
}
