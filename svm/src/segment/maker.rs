//! Who makes a large page: one process at a time.
//!
//! Two that ask the kernel for the same large page mostly get none: each finds the page in the other's hands. And who
//! writes small pages into it meanwhile has the kernel throw away what it has cleared. So whoever is to make a page, or
//! is about to write to one that deserves to be large, asks for the right first. The right is a lock on the page's bytes
//! ([`crate::byte_locks`]): it goes with its holder.

use std::fs::File;
use std::io;
use std::ops::Range;

use crate::byte_locks::{Bytes, Kind, try_lock, unlock, wait_for_lock};

/// The right to make some pages large, until it is dropped.
pub(super) struct Maker<'a> {
    file: &'a File,
    pages: Bytes,
}

impl<'a> Maker<'a> {
    /// The right to make `pages` of `file`; `None` where another process has it for any of them.
    pub(super) fn of(file: &'a File, pages: &Range<u64>) -> io::Result<Option<Maker<'a>>> {
        let pages = Bytes::of(pages);
        Ok(try_lock(file, pages)?.then_some(Maker { file, pages }))
    }
}

impl Drop for Maker<'_> {
    fn drop(&mut self) {
        // Fails only for want of memory to split the record of a lock; then those who wait do so until this process
        // closes the file.
        let _ = unlock(self.file, self.pages);
    }
}

/// Waits until nobody makes any of `pages`: a millisecond or less, and longer only where a maker is stopped. All who wait
/// go on together.
pub(super) fn wait_for_makers(file: &File, pages: &Range<u64>) -> io::Result<()> {
    let pages = Bytes::of(pages);
    wait_for_lock(file, Kind::Shared, pages)?;
    unlock(file, pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::opened_anew;

    #[test]
    fn one_makes_a_page_and_the_others_wait_for_it() {
        let file = tempfile::tempfile().unwrap();
        let (other, third) = (opened_anew(&file), opened_anew(&file));
        let maker = Maker::of(&file, &(0..30)).unwrap().expect("nobody makes them");
        assert!(Maker::of(&other, &(20..30)).unwrap().is_none());
        let behind = Maker::of(&other, &(30..40)).unwrap().expect("nobody makes that one");
        wait_for_makers(&third, &(40..50)).unwrap();
        std::thread::scope(|scope| {
            let waiting = [&other, &third].map(|file| scope.spawn(|| wait_for_makers(file, &(10..20))));
            assert!(waiting.iter().all(|thread| !thread.is_finished()));
            drop(maker);
            waiting.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
        assert!(Maker::of(&third, &(20..30)).unwrap().is_some());
        assert!(Maker::of(&third, &(30..40)).unwrap().is_none());
        drop(behind);
        assert!(Maker::of(&third, &(30..40)).unwrap().is_some());
    }
}
