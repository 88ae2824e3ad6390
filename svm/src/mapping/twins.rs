//! Copies of pages as they were before they were stored into.
//!
//! They lie in memory of their own, not in the allocator's: thousands of them come and go on many threads, and what
//! they took has to be given back at once for the limit to hold.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, Range};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::difference;

/// Room for twins.
pub(super) struct Twins {
    start: NonNull<u8>,
    page: usize,
    /// How many there is room for.
    capacity: usize,
    slots: Mutex<Slots>,
}

// SAFETY: the memory is this value's own; a twin is written once, before anybody else has it.
unsafe impl Send for Twins {}
// SAFETY: as above.
unsafe impl Sync for Twins {}

#[derive(Default)]
struct Slots {
    /// Slots from here on were never taken.
    fresh: usize,
    given_back: Vec<usize>,
    /// What the twin in a slot does not tell; few have any.
    unsure: BTreeMap<usize, Vec<Range<usize>>>,
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
        Ok(Arc::new(Twins { start, page, capacity, slots: Mutex::default() }))
    }

    /// A twin of a page.
    ///
    /// # Panics
    /// Where the bytes are no page, or there are more twins than there was to be room for.
    pub(super) fn of(self: &Arc<Self>, bytes: &[u8]) -> Twin {
        assert_eq!(bytes.len(), self.page, "a page");
        let mut slots = self.slots();
        let slot = slots.given_back.pop().unwrap_or_else(|| {
            slots.fresh += 1;
            slots.fresh - 1
        });
        drop(slots);
        assert!(slot < self.capacity, "a page has two twins at most, and that for a moment");
        let twin = Twin { of: Arc::clone(self), slot };
        // SAFETY: the slot lies within, and is this twin's alone.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), twin.start(), self.page) };
        twin
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // A panic elsewhere leaves the lists whole.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        // SAFETY: this owns the memory, and no twin is left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.capacity * self.page) };
    }
}

impl Twin {
    /// The runs of bytes of `page` that may not be those at home, ascending; none touches the next.
    pub(super) fn changes(&self, page: &[u8]) -> Vec<Range<usize>> {
        let runs = difference::runs(page, self);
        match self.of.slots().unsure.get(&self.slot) {
            Some(unsure) => difference::union(&runs, unsure),
            None => runs,
        }
    }

    /// These bytes of the page were sent home, and nobody knows which of them are there: what the page has there next
    /// is a change, even if it is what it was.
    pub(super) fn doubt(&self, sent: &[Range<usize>]) {
        let mut slots = self.of.slots();
        let unsure = slots.unsure.entry(self.slot).or_default();
        *unsure = difference::union(unsure, sent);
    }

    /// What was sent of these bytes is not of interest any more.
    pub(super) fn settle(&self, within: &Range<usize>) {
        if let Some(unsure) = self.of.slots().unsure.get_mut(&self.slot) {
            let around = |run: &Range<usize>| {
                [run.start..run.end.min(within.start), run.start.max(within.end)..run.end]
            };
            *unsure = unsure.iter().flat_map(around).filter(|run| !run.is_empty()).collect();
        }
    }

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
        let mut slots = self.of.slots();
        slots.unsure.remove(&self.slot);
        slots.given_back.push(self.slot);
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

    #[test]
    fn what_may_or_may_not_have_been_sent_is_a_change_until_it_is_settled() {
        let twins = Twins::new(1, 4096).unwrap();
        let (old, mut page) = ([7; 4096], [7; 4096]);
        let twin = twins.of(&old);
        twin.doubt(&[10..20, 30..40]);
        twin.doubt(&[15..18, 17..25]);
        assert_eq!(twin.changes(&page), [10..25, 30..40]);
        page[25] = 8;
        page[100] = 8;
        assert_eq!(twin.changes(&page), [10..26, 30..40, 100..101]);
        twin.settle(&(12..35));
        assert_eq!(twin.changes(&old), [10..12, 35..40]);
        drop(twin);
        assert!(twins.of(&old).changes(&old).is_empty(), "the next one in its slot is sure");
    }
}
