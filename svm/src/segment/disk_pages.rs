//! Large pages for a segment on a disk.
//!
//! ext4 keeps what is written by system call in pages as large as that (Linux 6.16). What pieces are stored into
//! through a mapping comes to lie in small ones: each is a fault, for each process, of 4 µs and more. A mapping that
//! asks for large pages (`MADV_HUGEPAGE`) has them from its first fault on, which maps the whole page; the faults of the
//! other processes find it there.
//!
//! Large pages also come by reading. Whatever page the first byte is stored into, the file system gives storage to all
//! of it: where a part had none, and the disk is full, the process dies by SIGBUS. So bytes are stored only where all
//! has storage that a page may reach to, and go by system call elsewhere.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use crate::spare;

use super::Segment;
use super::division::Division;
use super::large_pages::{self, DESERVING, LargePages};
use super::overwriting::Overwriting;

impl Segment {
    /// Whether bytes may be stored into `range` of the mapping, whose pages have storage. Gives what is around them some
    /// where little lacks it.
    pub(super) fn may_store(&self, range: Range<u64>, punches: u64) -> bool {
        match self.overwriting {
            Overwriting::AfterReading => return true,
            Overwriting::ByCopying => return false,
            Overwriting::Directly => {}
        }
        self.populated.revalidate(punches);
        let mut at = range.start;
        while at < range.end {
            let (until, is_known) = self.populated.run(at..range.end);
            if is_known {
                at = until;
                continue;
            }
            let page = self.reach(at..at + 1);
            if !self.is_whole(&page) {
                return false;
            }
            at = page.end;
            self.populated.insert(page);
        }
        true
    }

    /// Gives `range` storage, and what is in one page with it, so that all of it may be stored into by whoever maps it.
    pub(crate) fn allocate_to_map(&self, range: Range<u64>) -> io::Result<()> {
        self.allocate(if self.overwriting == Overwriting::Directly { self.reach(range) } else { range })
    }

    /// Before pieces around `at`, where there is no storage as far as is known, are written: gives the large page there
    /// storage, where enough of it is `likely` to be written. Returns whether it has.
    pub(super) fn provide_large(&self, at: u64, likely: &Range<u64>) -> bool {
        let Some(large) = self.large_on_disk else { return false };
        let start = at / large.bytes() * large.bytes();
        let page = start..start + large.bytes();
        let part = likely.start.max(page.start)..likely.end.min(page.end);
        part.contains(&at) && is_much(part.end - part.start, &page) && self.lay_out(page).is_ok()
    }

    /// Before `range`, which is new, is written by several processes, pieces of it by each: makes the large pages that
    /// fall to this one.
    pub(super) fn make_share_on_disk(&self, range: &Range<u64>, division: Division, large: LargePages) {
        let own = division.own(range, large.bytes());
        for page in own.step_by(large.bytes() as usize) {
            let made = self.lay_out(page..page + large.bytes());
            // What this process does not get done, whoever comes there first does.
            if made.and_then(|()| self.map.populate_for_writing(page..page + 1)).is_err() {
                return;
            }
        }
    }

    /// Storage was given back: what is written next may be little.
    pub(super) fn forget_large_on_disk(&self, punches: u64) {
        let are_there = || self.enlarged.bytes_within(0..self.map.len() as u64) > 0;
        if self.large_on_disk.is_some() && are_there() {
            // Not heard, it takes more storage than it needs.
            let _ = self.map.ask_for_small_pages();
        }
        self.enlarged.revalidate(punches);
    }

    /// Gives storage to `range`, nearly all pages of which pieces are about to be written to, if it is much. Returns
    /// whether it has.
    pub(super) fn provide_for_pieces(&self, range: Range<u64>) -> bool {
        is_much(range.end - range.start, &(0..most())) && self.allocate(range).is_ok()
    }

    fn lay_out(&self, pages: Range<u64>) -> io::Result<()> {
        if !self.has_room_for(pages.end - pages.start, most()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.allocate(pages.clone())?;
        // A kernel that has none gives small ones.
        let _ = self.map.ask_for_large_pages(pages.clone());
        self.enlarged.insert(pages);
        Ok(())
    }

    /// Whether all of `page` has storage. Gives it some where enough has it.
    fn is_whole(&self, page: &Range<u64>) -> bool {
        let length = page.end - page.start;
        let stored = || self.stored.bytes_within(page.clone());
        if stored() < length {
            // Others may have written more.
            self.learn(page.clone());
        }
        let is_worth = || is_much(stored(), page) && self.has_room_for(length, most());
        if stored() < length && is_worth() && spare::reserve(&self.file, page.clone()).is_ok() {
            self.stored.insert(page.clone());
        }
        stored() >= length
    }

    /// The parts of the segment that may lie in one page with bytes of `range`.
    fn reach(&self, range: Range<u64>) -> Range<u64> {
        range.start / most() * most()..range.end.next_multiple_of(most()).min(self.map.len() as u64)
    }
}

/// Whether so many bytes are so much of a page that all of it may have storage.
fn is_much(bytes: u64, page: &Range<u64>) -> bool {
    bytes >= (page.end - page.start) / DESERVING
}

/// Bytes of the largest page that the kernel makes of a file's.
fn most() -> u64 {
    /// Where the kernel does not tell.
    const USUAL: u64 = 2 << 20;
    static MOST: OnceLock<u64> = OnceLock::new();
    *MOST.get_or_init(|| large_pages::size().unwrap_or(USUAL))
}
