//! The memory that segments are made of.

use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::back_end::Backing;
use crate::error::{Error, Result};
use crate::memory::SharedMemory;
use crate::units::SegmentId;

/// A mapping, until it is dropped.
struct Mapping {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

// SAFETY: an address range that is this value's own; it is only unmapped through it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; whoever used it held this value.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length.get()) };
    }
}

/// Maps what a segment is made of. Fresh memory is touched, so that what is missing is missing now.
///
/// # Errors
/// `Memory`.
pub(super) fn map(id: SegmentId, backing: &Backing) -> Result<SharedMemory> {
    const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
    let (Backing::Anonymous { length } | Backing::File { length, .. }) = *backing;
    let short = |problem: std::io::Error| Error::Memory {
        what: format!("segment {id}"),
        length,
        source: Arc::new(problem),
    };
    let bytes = usize::try_from(length).map_err(|_| short(std::io::ErrorKind::OutOfMemory.into()))?;
    // There is no mapping of nothing; such a segment gets a page that nobody reaches.
    let mapped = NonZeroUsize::new(bytes).unwrap_or(NonZeroUsize::MIN);
    // SAFETY: a new mapping at an address that the kernel chooses.
    let start = unsafe {
        match backing {
            Backing::Anonymous { .. } => {
                rustix::mm::mmap_anonymous(ptr::null_mut(), mapped.get(), ACCESS, MapFlags::PRIVATE)
            }
            Backing::File { file, offset, .. } => {
                rustix::mm::mmap(ptr::null_mut(), mapped.get(), ACCESS, MapFlags::SHARED, file, *offset)
            }
        }
    };
    let start = start.map_err(|problem| short(problem.into()))?;
    let start = NonNull::new(start.cast()).ok_or_else(|| short(std::io::ErrorKind::Other.into()))?;
    let mapping = Mapping { start, length: mapped };
    if matches!(backing, Backing::Anonymous { .. }) {
        // SAFETY: the mapping that was just made.
        let touched =
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), mapped.get(), Advice::LinuxPopulateWrite) };
        touched.map_err(|problem| short(problem.into()))?;
    }
    // SAFETY: the range is valid as long as the mapping, which is kept; page-aligned; only reached through this.
    Ok(unsafe { SharedMemory::new(start, bytes, Arc::new(mapping)) })
}
