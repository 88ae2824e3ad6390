//! Reading and writing bytes in a row: each piece of them that lies in one segment goes to that segment, or to the node
//! that is its home.

use std::ops::Range;

use super::likely::likely;
use super::{File, Target};
use crate::attachment::Home;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::mapping::is_mapped;
use crate::segment::Segment;
use crate::units::FileOffset;

/// What is written behind the file's end leaves a hole, rather than room for what others are writing, where it begins so
/// many times its length behind it, or so many bytes.
const HOLE: (u64, u64) = (16, 1 << 20);

impl File {
    /// Reads from `offset` on until `buffer` is full or the file ends, and says how many bytes it read.
    ///
    /// # Errors
    /// [`Error::NotOpenedFor`] reading; otherwise what is wrong with the segment concerned.
    pub fn read_at(&self, offset: FileOffset, buffer: &mut [u8]) -> Result<usize> {
        // SAFETY: a slice is valid for writes of its length, and none of ours points into a mapping.
        unsafe { self.read_into(offset, buffer.as_mut_ptr(), buffer.len()) }
    }

    /// [`File::read_at`] into memory that need not be initialised.
    ///
    /// # Errors
    /// As [`File::read_at`].
    ///
    /// # Safety
    /// `to` is valid for writes of `length` bytes.
    pub unsafe fn read_into(&self, offset: FileOffset, to: *mut u8, length: usize) -> Result<usize> {
        self.check_read()?;
        if is_mapped(to, length) {
            // SAFETY: the caller's promise.
            return unsafe { self.read_into_mapped(offset, to, length) };
        }
        let end = self.size().min(offset.0.saturating_add(length as u64));
        let mut at = offset.0;
        while at < end {
            // SAFETY: the caller vouches for `length` bytes at `to`, and `end - offset` is not more.
            let to = unsafe { to.add((at - offset.0) as usize) };
            // SAFETY: as above.
            at += unsafe { self.read_piece(at..end, to) }? as u64;
        }
        if let Some(shared) = &self.shared {
            shared.look_ahead(&self.foresight, offset.0..end.max(offset.0), self.size());
        }
        Ok(end.saturating_sub(offset.0) as usize)
    }

    /// Reads the beginning of a range, as far as its segment goes, and says how many bytes these are: none where the size
    /// of segments has changed meanwhile.
    ///
    /// # Safety
    /// `to` is valid for writes of as many bytes as the range has.
    unsafe fn read_piece(&self, range: Range<u64>, to: *mut u8) -> Result<usize> {
        let size = self.segment_size();
        let (index, within, bytes) = self.piece(size, range.start, range.end)?;
        let found;
        let segment = match self.lasting(index) {
            Some(segment) => Some(segment),
            None => {
                found = self.segment(index)?;
                found.as_deref()
            }
        };
        let home = if segment.is_some() { Home::Here } else { self.attachment.home(index) };
        // Once a segment is found, the size of all stays: what was counted by another one is counted anew.
        if self.segment_size() != size {
            return Ok(0);
        }
        if let Some(segment) = segment {
            // SAFETY: the caller vouches for the memory; the piece ends within its segment.
            let read = unsafe { segment.read(within, to, bytes, self.punches()) };
            read.map_err(|e| self.io(format!("reading segment {index} of {}", self.name()), e))?;
            self.attachment.check_looked_at(segment)?;
        } else if let (Some(shared), Home::There(home)) = (&self.shared, home) {
            // SAFETY: as above.
            unsafe { shared.read(home, index, within, to, bytes) }?;
        } else {
            // SAFETY: as above.
            unsafe { to.write_bytes(0, bytes) };
        }
        Ok(bytes)
    }

    /// Writes all of `data` at `offset`, growing the file where needed.
    ///
    /// # Errors
    /// [`Error::NotOpenedFor`] writing, [`Error::NoSpace`], [`Error::Quota`], [`Error::TooLarge`]. Bytes from
    /// `offset` on may have been written then.
    pub fn write_at(&self, offset: FileOffset, data: &[u8]) -> Result<()> {
        // SAFETY: a slice is valid for reads of its length, and none of ours points into a mapping.
        unsafe { self.write_from(offset, data.as_ptr(), data.len()) }
    }

    /// [`File::write_at`] from memory that another thread may be writing to.
    ///
    /// # Errors
    /// As [`File::write_at`].
    ///
    /// # Safety
    /// `source` is valid for reads of `length` bytes.
    pub unsafe fn write_from(&self, offset: FileOffset, source: *const u8, length: usize) -> Result<()> {
        let end = offset.0.saturating_add(length as u64);
        let state = self.check_write(end)?;
        if is_mapped(source, length) {
            // SAFETY: the caller's promise.
            return unsafe { self.write_from_mapped(offset, source, length) };
        }
        let size = state.size();
        let likely = likely(&(offset.0..end), length as u64, size);
        let room = HOLE.1.min(HOLE.0.saturating_mul(length as u64));
        let goes_on = likely.end > end && offset.0 <= size.saturating_add(room);
        let all = offset..FileOffset(end);
        self.place_ahead(all.clone(), length as u64, &|size| self.unplaced_of(size, all.clone()))?;
        let mut at = offset.0;
        while at < end {
            let size = self.segment_size();
            let (index, within, bytes) = self.piece(size, at, end)?;
            // SAFETY: the caller vouches for `length` bytes at `source`, and `end - offset` is as many.
            let source = unsafe { source.add((at - offset.0) as usize) };
            let found;
            // Where there is one, the size stays: what was counted by another one is told to be counted anew.
            let lasting = self.lasting(index).filter(|_| self.segment_size() == size);
            let segment = match lasting {
                Some(segment) => Ok(segment),
                None => match self.segment_to_write(index, size, end, length as u64)? {
                    Target::Here(segment) => {
                        found = segment;
                        Ok(&*found)
                    }
                    Target::There(shared, home) => Err((shared, home)),
                    Target::CountAnew => continue,
                },
            };
            match segment {
                Ok(segment) => {
                    if goes_on {
                        let rest = (likely.end - at).min(size.bytes() - within);
                        segment.foresee(within..within + bytes as u64, within + rest, self.punches());
                    }
                    // SAFETY: as above; the piece ends within its segment; `writable` has said that it is mapped so.
                    let written = unsafe { segment.write(within, source, bytes, self.punches()) };
                    self.attachment.mark_dirty(segment);
                    if let Err((done, e)) = written {
                        if done > 0 {
                            state.grow(at + done as u64);
                        }
                        self.clear_unseen(segment, within..within + bytes as u64, at + done as u64);
                        return Err(self.io(format!("writing segment {index} of {}", self.name()), e));
                    }
                }
                Err((shared, home)) => {
                    // SAFETY: as above.
                    let data = unsafe { std::slice::from_raw_parts(source, bytes) };
                    shared.write(home, index, within, data)?;
                }
            }
            at += bytes as u64;
            // After the bytes: whoever sees the size finds them.
            state.grow(at);
        }
        Ok(())
    }

    /// After a write that has failed in `range` of the segment: what may lie there behind the file's end, which is to be
    /// at `end` at least, is zero, as whoever makes the file longer expects.
    pub(super) fn clear_unseen(&self, segment: &Segment, range: Range<u64>, end: u64) {
        // Of several nodes another one may know of a larger size: then these bytes are seen.
        if self.shared.is_some() {
            return;
        }
        let start = self.segment_size().start_of(segment.index()).0;
        let seen = self.size().max(end).saturating_sub(start);
        let unseen = range.start.max(seen)..range.end;
        if !unseen.is_empty()
            && let Err(problem) = segment.clear_unfinished(unseen)
        {
            tracing::warn!(%problem, "{}: bytes of a write that failed may show", self.name());
        }
    }
}
