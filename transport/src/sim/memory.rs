//! The memory of simulated processes: zeroed, shared by all stacks of the one real process.

use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::back_end::Backing;
use crate::error::{Error, Result};
use crate::memory::{SharedMemory, UserMemory};

/// A mapping that ends when it is dropped.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is a range of addresses; unmapping it is possible from any thread.
unsafe impl Send for Mapping {}
// SAFETY: it has no methods; `SharedMemory` governs access to its bytes.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map`, and every `SharedMemory` over it held this value. An error would
        // mean that it is not mapped any more, and leaves nothing to do.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Maps what `backing` tells.
pub(crate) fn map(backing: &Backing) -> Result<SharedMemory> {
    let length = length_of(backing);
    let failed = |source| Error::Memory { what: "a simulated segment".into(), length, source };
    let bytes =
        usize::try_from(length).map_err(|_| failed(Arc::new(std::io::ErrorKind::OutOfMemory.into())))?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // The system maps no empty ranges.
    let mapped = bytes.max(1);
    let start = match backing {
        // SAFETY: a fresh mapping at an address of the system's choice touches nothing that exists.
        Backing::Anonymous { .. } => unsafe {
            mmap_anonymous(std::ptr::null_mut(), mapped, access, MapFlags::PRIVATE | MapFlags::NORESERVE)
        },
        // SAFETY: as above; that the file stays as long as it is, is the caller's promise in `Backing`.
        Backing::File { file, offset, .. } => unsafe {
            mmap(std::ptr::null_mut(), mapped, access, MapFlags::SHARED, file, *offset)
        },
    };
    let start = start.map_err(|errno| failed(Arc::new(errno.into())))?;
    let start = NonNull::new(start.cast::<u8>())
        .ok_or_else(|| failed(Arc::new(std::io::ErrorKind::OutOfMemory.into())))?;
    let mapping = Arc::new(Mapping { start, length: mapped });
    // SAFETY: `mapping` keeps the range, which starts with a page; nobody else has a reference to it.
    Ok(unsafe { SharedMemory::new(start, bytes, mapping) })
}

/// Bytes of a segment.
pub(crate) fn length_of(backing: &Backing) -> u64 {
    match backing {
        Backing::Anonymous { length } | Backing::File { length, .. } => *length,
    }
}

/// Copies `length` bytes from `offset` on out of a process's own memory.
///
/// # Safety
/// The range must be valid, and unchanged meanwhile.
pub(crate) unsafe fn read_user(memory: UserMemory, offset: usize, length: usize) -> Vec<u8> {
    let part = memory.part(offset, length);
    // SAFETY: `part` keeps within the range, which the caller says is valid.
    unsafe { std::slice::from_raw_parts(part.start.as_ptr(), part.length) }.to_vec()
}

/// Copies `bytes` to `offset` of a process's own memory, as far as they are within it.
///
/// # Safety
/// The range must be valid, and no one else use it meanwhile.
pub(crate) unsafe fn write_user(memory: UserMemory, offset: usize, bytes: &[u8]) {
    let part = memory.part(offset, bytes.len());
    // SAFETY: `part` keeps within the range, which the caller says is valid; `bytes` is a buffer of our own.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.start.as_ptr(), part.length) };
}
