//! Accesses from and to memory that is a mapping of a file.
//!
//! Copying from or to such memory may be a fault, which is served by a thread that may need the page cache's locks, and
//! an agent that may need a segment's file, which a system call keeps locked. So nothing of that is held while mapped
//! memory is touched: the bytes are copied once more.

use svmio_transport::copy_bytes;

use crate::blocks::{self, Blocks};
use crate::error::Result;
use crate::mapping::is_mapped;
use crate::units::FileOffset;

use super::File;

/// Bytes that are copied at a time.
const PORTION: usize = 1 << 20;

impl File {
    /// # Safety
    /// As [`File::read_into`].
    pub(super) unsafe fn read_into_mapped(
        &self,
        offset: FileOffset,
        to: *mut u8,
        length: usize,
    ) -> Result<usize> {
        let mut copy = vec![0; length.min(PORTION)];
        let mut done = 0;
        while done < length {
            let bytes = (length - done).min(PORTION);
            let read = self.read_at(FileOffset(offset.0 + done as u64), &mut copy[..bytes])?;
            // SAFETY: the caller vouches for `length` bytes, of which these are some.
            unsafe { copy_bytes(copy.as_ptr(), to.add(done), read) };
            done += read;
            if read < bytes {
                break;
            }
        }
        Ok(done)
    }

    /// # Safety
    /// As [`File::write_from`].
    pub(super) unsafe fn write_from_mapped(
        &self,
        offset: FileOffset,
        source: *const u8,
        length: usize,
    ) -> Result<()> {
        let mut copy = vec![0; length.min(PORTION)];
        for done in (0..length).step_by(PORTION) {
            let bytes = (length - done).min(PORTION);
            // SAFETY: the caller vouches for `length` bytes, of which these are some.
            unsafe { copy_bytes(source.add(done), copy.as_mut_ptr(), bytes) };
            self.write_at(FileOffset(offset.0 + done as u64), &copy[..bytes])?;
        }
        Ok(())
    }
}

/// Whether some of `blocks`, which in memory begin at `first` and are `stride` bytes from each other, may be mapped.
pub(super) fn are_mapped(blocks: &Blocks, first: *const u8, stride: isize) -> bool {
    let Some(others) = blocks.count.checked_sub(1) else { return false };
    let far = stride.unsigned_abs() * others as usize;
    let start = if stride < 0 { first.wrapping_sub(far) } else { first };
    is_mapped(start, far + blocks.length as usize)
}

/// The bytes of blocks that in memory are `stride` bytes from each other, one behind the other.
///
/// # Safety
/// Each block of memory is valid for reads.
pub(super) unsafe fn packed(blocks: &Blocks, source: *const u8, stride: isize) -> Vec<u8> {
    let (length, count) = (blocks.length as usize, blocks.count as usize);
    let mut bytes = vec![0; length * count];
    // SAFETY: the vector has as many bytes; the caller vouches for the blocks.
    unsafe { blocks::copy((bytes.as_mut_ptr(), length as isize), (source, stride), length, count) };
    bytes
}
