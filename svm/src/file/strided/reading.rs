//! Reading many pieces of a file as one access.

use std::ops::Range;
use std::sync::Arc;

use svmio_transport::StreamingStores;

use crate::attachment::Home;
use crate::blocks::{self, Blocks};
use crate::copying::Course;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::File;
use crate::file::mapped::are_mapped;
use crate::segment::Segment;
use crate::units::{FileOffset, SegmentIndex, SegmentSize};

use super::elsewhere::{Elsewhere, LONG};
use super::halves;

impl File {
    /// Begins to read `bytes` bytes, all of which lie within `bounds` and before the end of the file.
    ///
    /// # Errors
    /// [`Error::NotOpenedFor`] reading.
    pub fn read_strided(&self, bounds: Range<FileOffset>, bytes: u64) -> Result<StridedRead<'_>> {
        self.check_read()?;
        let bounds = bounds.start.0..bounds.end.0;
        let is_dense = bytes >= (bounds.end - bounds.start) / 2;
        Ok(StridedRead { whole: bytes, ..StridedRead::of(self, bounds, is_dense) })
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
    elsewhere: Option<Elsewhere<'f>>,
    row: Row,
    past_caches: StreamingStores,
}

/// What the pieces are together.
enum Row {
    Nothing,
    /// Blocks at one distance.
    Of(Blocks),
    Irregular,
}

impl Row {
    fn add(&mut self, blocks: &Blocks) {
        *self = match self {
            Row::Nothing => Row::Of(*blocks),
            Row::Of(row) => row.joined(blocks).map_or(Row::Irregular, Row::Of),
            Row::Irregular => return,
        };
    }

    /// Long blocks with long gaps between them.
    fn sparse(&self) -> Option<&Blocks> {
        match self {
            Row::Of(row) if row.count > 1 && row.length >= LONG && row.stride >= row.length + LONG => {
                Some(row)
            }
            _ => None,
        }
    }
}

impl<'f> StridedRead<'f> {
    fn of(file: &'f File, bounds: Range<u64>, is_dense: bool) -> StridedRead<'f> {
        StridedRead {
            file,
            bounds,
            is_dense,
            whole: 0,
            here: None,
            elsewhere: None,
            row: Row::Nothing,
            past_caches: StreamingStores::default(),
        }
    }

    /// Reads `blocks` to memory in which they are to be `stride` bytes from each other.
    ///
    /// # Errors
    /// What is wrong with a segment.
    ///
    /// # Safety
    /// Each place is valid for writes of a block, and not looked at, until this is finished or dropped. None lies in a
    /// mapping of the file's.
    pub unsafe fn get(&mut self, blocks: &Blocks, to: *mut u8, stride: isize) -> Result<()> {
        self.row.add(blocks);
        // SAFETY: the caller's promise.
        unsafe { self.get_all(blocks, to, stride) }
    }

    /// # Safety
    /// As [`StridedRead::get`].
    unsafe fn get_all(&mut self, blocks: &Blocks, to: *mut u8, stride: isize) -> Result<()> {
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
                    self.get_all(&tail, to.add(head.length as usize), stride)?;
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
        self.complete()?;
        let File { shared: Some(shared), foresight_of_pieces: foresight, .. } = self.file else {
            return Ok(());
        };
        let (bounds, size) = (self.bounds.clone(), self.file.size());
        match self.row.sparse() {
            Some(row) => shared.look_ahead_of(foresight, row, size),
            None if self.is_dense => shared.look_ahead(foresight, bounds, size),
            None => {}
        }
        Ok(())
    }

    fn complete(&mut self) -> Result<()> {
        self.elsewhere.take().map_or(Ok(()), Elsewhere::finish)
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
            let mut whole = StridedRead::of(self.file, self.bounds.clone(), self.is_dense);
            // SAFETY: the vector has room for the blocks, until they are there, and is no mapping; the caller vouches
            // for `to`.
            unsafe {
                if !whole.get_within((index, size), blocks, start, bytes.as_mut_ptr(), length as isize)? {
                    return Ok(false);
                }
                whole.complete()?;
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
            let (bounds, segment) = (self.bounds.clone(), start..start + size.bytes());
            let elsewhere =
                self.elsewhere.get_or_insert_with(|| Elsewhere::of(shared, bounds, self.is_dense));
            // SAFETY: as above.
            unsafe { elsewhere.get((home, index, segment), blocks, to, stride) }?;
        } else {
            for number in 0..blocks.count as isize {
                // SAFETY: as above.
                unsafe { to.wrapping_offset(stride * number).write_bytes(0, blocks.length as usize) };
            }
        }
        Ok(true)
    }
}
