//! Reading many pieces of a file as one access.

use std::ops::Range;
use std::sync::Arc;

use svmio_transport::StreamingStores;

use crate::attachment::Home;
use crate::blocks::{self, Blocks};
use crate::cluster::{Gather, SharedFile};
use crate::copying::Course;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::File;
use crate::file::mapped::are_mapped;
use crate::segment::Segment;
use crate::units::{FileOffset, SegmentIndex, SegmentSize};

use super::halves;

/// Bytes of other nodes' pages that are looked at together.
const NEIGHBOURHOOD: u64 = 256 << 10;

impl File {
    /// Begins to read `bytes` bytes, all of which lie within `bounds` and before the end of the file.
    ///
    /// # Errors
    /// [`Error::NotOpenedFor`] reading.
    pub fn read_strided(&self, bounds: Range<FileOffset>, bytes: u64) -> Result<StridedRead<'_>> {
        self.check_read()?;
        let bounds = bounds.start.0..bounds.end.0;
        let around = Around { range: 0..0, bytes: Vec::new() };
        let is_dense = bytes >= (bounds.end - bounds.start) / 2;
        let past_caches = StreamingStores::default();
        Ok(StridedRead {
            file: self,
            bounds,
            is_dense,
            whole: bytes,
            here: None,
            gather: None,
            around,
            past_caches,
        })
    }
}

/// A read of many pieces, by one thread. They are there after [`StridedRead::finish`].
pub struct StridedRead<'f> {
    file: &'f File,
    bounds: Range<u64>,
    is_dense: bool,
    /// Bytes of all pieces, as far as they are not copied once more.
    whole: u64,
    /// The segment that was read last.
    here: Option<Arc<Segment>>,
    gather: Option<Gather<'f>>,
    around: Around,
    past_caches: StreamingStores,
}

/// Bytes of other nodes' segments around the pieces that are read.
struct Around {
    range: Range<u64>,
    bytes: Vec<u8>,
}

impl<'f> StridedRead<'f> {
    /// Reads `blocks` to memory in which they are to be `stride` bytes from each other.
    ///
    /// # Errors
    /// What is wrong with a segment.
    ///
    /// # Safety
    /// Each place is valid for writes of a block, and not looked at, until this is finished or dropped. None lies in a
    /// mapping of the file's.
    pub unsafe fn get(&mut self, blocks: &Blocks, to: *mut u8, stride: isize) -> Result<()> {
        let (mut rest, mut to) = (*blocks, to);
        while rest.count > 0 {
            let size = self.file.segment_size();
            let (index, within, _) = self.file.piece(size, rest.start, rest.end())?;
            let start = rest.start - within;
            let count = rest.whole_before(start + size.bytes());
            if count == 0 {
                // A block in two segments.
                let (head, tail) = halves(&rest, start + size.bytes());
                // SAFETY: the caller's promise; both are parts of a block.
                unsafe {
                    if !self.get_within((index, size), &head, start, to, stride)? {
                        continue;
                    }
                    self.get(&tail, to.add(head.length as usize), stride)?;
                }
                (rest, to) = (rest.behind(1), to.wrapping_offset(stride));
                continue;
            }
            // SAFETY: the caller's promise.
            if !unsafe { self.get_within((index, size), &rest.first(count), start, to, stride) }? {
                continue;
            }
            (rest, to) = (rest.behind(count), to.wrapping_offset(stride * count as isize));
        }
        Ok(())
    }

    /// Returns when all pieces are there.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`], what a home says of a piece.
    pub fn finish(mut self) -> Result<()> {
        self.gather.take().map_or(Ok(()), Gather::finish)
    }

    /// Reads what lies in one segment, which was counted by that size. False where segments turn out to be of another
    /// one: then nothing is read, and all is to be counted anew.
    ///
    /// # Safety
    /// As [`StridedRead::get`]; `blocks` lie within the segment, which begins at `start`.
    unsafe fn get_within(
        &mut self,
        (index, size): (SegmentIndex, SegmentSize),
        blocks: &Blocks,
        start: u64,
        to: *mut u8,
        stride: isize,
    ) -> Result<bool> {
        if are_mapped(blocks, to, stride) {
            let (length, count) = (blocks.length as usize, blocks.count as usize);
            let mut bytes = vec![0; length * count];
            let mut whole = StridedRead {
                file: self.file,
                bounds: self.bounds.clone(),
                is_dense: self.is_dense,
                whole: 0,
                here: None,
                gather: None,
                around: Around { range: 0..0, bytes: Vec::new() },
                past_caches: StreamingStores::default(),
            };
            // SAFETY: the vector has room for the blocks, until they are there, and is no mapping; the caller vouches
            // for `to`.
            unsafe {
                if !whole.get_within((index, size), blocks, start, bytes.as_mut_ptr(), length as isize)? {
                    return Ok(false);
                }
                whole.finish()?;
                blocks::copy((to, stride), (bytes.as_ptr(), length as isize), length, count);
            }
            return Ok(true);
        }
        if self.here.as_ref().is_none_or(|segment| segment.index() != index) {
            self.here = self.file.segment(index)?;
        }
        let home = if self.here.is_some() { Home::Here } else { self.file.attachment.home(index) };
        // Once a segment is found, the size of all stays.
        if self.file.segment_size() != size {
            return Ok(false);
        }
        if let Some(segment) = &self.here {
            let course = (Course::out_of_file(blocks.length, self.whole), &mut self.past_caches);
            let (blocks, to) = (blocks.within(start), (to, stride));
            // SAFETY: the caller's promise.
            let read = unsafe { segment.read_blocks(&blocks, to, course, self.file.punches()) };
            read.map_err(|e| self.file.io(format!("reading segment {index} of {}", self.file.name()), e))?;
            self.file.attachment.check_looked_at(segment)?;
        } else if let (Some(shared), Home::There(home)) = (&self.file.shared, home) {
            // SAFETY: as above.
            unsafe { self.get_there(shared, home, index, blocks, start, to, stride) }?;
        } else {
            for number in 0..blocks.count as isize {
                // SAFETY: as above.
                unsafe { to.wrapping_offset(stride * number).write_bytes(0, blocks.length as usize) };
            }
        }
        Ok(true)
    }

    /// # Safety
    /// As [`StridedRead::get_within`].
    #[allow(clippy::too_many_arguments)]
    unsafe fn get_there(
        &mut self,
        shared: &'f SharedFile,
        home: u32,
        index: SegmentIndex,
        blocks: &Blocks,
        start: u64,
        to: *mut u8,
        stride: isize,
    ) -> Result<()> {
        if blocks.length >= NEIGHBOURHOOD / 4 {
            for number in 0..blocks.count {
                let (at, length) = (blocks.start + blocks.stride * number - start, blocks.length as usize);
                // SAFETY: the caller's promise.
                unsafe {
                    shared.read(home, index, at, to.wrapping_offset(stride * number as isize), length)
                }?;
            }
            return Ok(());
        }
        if !self.is_dense {
            if self.gather.is_none() {
                self.gather = Some(Gather::begin(shared));
            }
            let blocks = blocks.within(start);
            // SAFETY: the caller's promise.
            let get = |gather: &mut Gather<'f>| unsafe { gather.get(home, index, &blocks, to, stride) };
            return self.gather.as_mut().map_or(Ok(()), get);
        }
        let segment = start..start + self.file.segment_size().bytes();
        let (mut rest, mut to) = (*blocks, to);
        while rest.count > 0 {
            if rest.start < self.around.range.start || rest.first(1).end() > self.around.range.end {
                let end = (rest.start + NEIGHBOURHOOD).min(segment.end).min(self.bounds.end);
                self.around.range = 0..0;
                self.around.bytes.resize((end - rest.start) as usize, 0);
                let (at, bytes) = (rest.start - start, &mut self.around.bytes);
                // SAFETY: the vector has as many bytes.
                unsafe { shared.read(home, index, at, bytes.as_mut_ptr(), bytes.len()) }?;
                self.around.range = rest.start..end;
            }
            let count = rest.whole_before(self.around.range.end);
            // SAFETY: the caller's promise; so many blocks, from the first on, lie within the vector.
            unsafe {
                let from = self.around.bytes.as_ptr().add((rest.start - self.around.range.start) as usize);
                blocks::copy(
                    (to, stride),
                    (from, rest.stride as isize),
                    rest.length as usize,
                    count as usize,
                );
            }
            (rest, to) = (rest.behind(count), to.wrapping_offset(stride * count as isize));
        }
        Ok(())
    }
}
