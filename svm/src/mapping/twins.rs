//! Copies of pages as they were before they were stored into.
//!
//! They lie in memory of their own, not in the allocator's: thousands of them come and go on many threads, and what
//! they took has to be given back at once for the limit to hold.

use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Room for twins.
pub(super) struct Twins {
    start: NonNull<u8>,
    page: usize,
    /// How many there is room for.
    capacity: usize,
    free: Mutex<Free>,
}

// SAFETY: the memory is this value's own; a twin is written once, before anybody else has it.
unsafe impl Send for Twins {}
// SAFETY: as above.
unsafe impl Sync for Twins {}

struct Free {
    /// Slots from here on were never taken.
    fresh: usize,
    given_back: Vec<usize>,
}

/// A page as it was. Its memory is given back on drop.
pub(super) struct Twin {
    of: Arc<Twins>,
    slot: usize,
}

impl Twins {
    /// Room for so many pages of `page` bytes; it takes memory as far as it is used.
    pub(super) fn new(capacity: usize, page: usize) -> io::Result<Arc<Twins>> {
        let bytes = capacity.checked_mul(page).ok_or(io::ErrorKind::OutOfMemory)?;
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: nothing is replaced.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, protection, flags) }?;
        // A large page would keep all its slots in memory for one. A kernel that has none says so, which does no harm.
        // SAFETY: it is this value's own, and empty.
        let _ = unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxNoHugepage) };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let free = Mutex::new(Free { fresh: 0, given_back: Vec::new() });
        Ok(Arc::new(Twins { start, page, capacity, free }))
    }

    /// A twin of a page.
    ///
    /// # Panics
    /// Where the bytes are no page, or there are more twins than there was to be room for.
    pub(super) fn of(self: &Arc<Self>, bytes: &[u8]) -> Twin {
        assert_eq!(bytes.len(), self.page, "a page");
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = free.given_back.pop().unwrap_or_else(|| {
            free.fresh += 1;
            free.fresh - 1
        });
        drop(free);
        assert!(slot < self.capacity, "a page has two twins at most, and that for a moment");
        let twin = Twin { of: Arc::clone(self), slot };
        // SAFETY: the slot lies within, and is this twin's alone.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), twin.start(), self.page) };
        twin
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        // SAFETY: this owns the memory, and no twin is left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.capacity * self.page) };
    }
}

impl Twin {
    fn start(&self) -> *mut u8 {
        self.of.start.as_ptr().wrapping_add(self.slot * self.of.page)
    }
}

impl Deref for Twin {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: it was filled when it was made, and is not written again.
        unsafe { std::slice::from_raw_parts(self.start(), self.of.page) }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // SAFETY: the slot is this twin's alone, of whose bytes nobody knows any more.
        let given = unsafe { rustix::mm::madvise(self.start().cast(), self.of.page, Advice::LinuxDontNeed) };
        debug_assert!(given.is_ok(), "it fails for addresses that are not there");
        self.of.free.lock().unwrap_or_else(PoisonError::into_inner).given_back.push(self.slot);
    }
}

impl std::fmt::Debug for Twin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Twin").field("slot", &self.slot).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_keep_their_bytes_and_share_no_memory() {
        let twins = Twins::new(100, 4096).unwrap();
        let mut kept: Vec<(u8, Twin)> = Vec::new();
        for turn in 0..2000usize {
            if kept.len() == 100 || turn % 3 == 2 {
                let (byte, twin) = kept.swap_remove(turn * 7 % kept.len());
                assert!(twin.iter().all(|other| *other == byte));
            } else {
                kept.push((turn as u8, twins.of(&[turn as u8; 4096])));
            }
            assert!(kept.iter().all(|(byte, twin)| twin[turn % 4096] == *byte));
        }
    }
}
