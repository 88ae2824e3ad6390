//! Large pages for a segment on a disk.
//!
//! ext4 keeps what a system call writes in a page as large as that (Linux 6.16), and so does XFS. What pieces are stored
//! into through a mapping comes to lie in small ones: each is a fault, for each process, of 4 µs and more. A mapping that
//! asks for pages of 2 MiB (`MADV_HUGEPAGE`) has them from its first fault on, which maps the whole page; the faults of
//! the other processes find it there.
//!
//! Such pages also come by reading. Into whatever part of one a byte is stored, the file system gives storage to all of
//! it, and where a part had none, and the disk is full, the process dies by SIGBUS. So bytes are stored only where all
//! has storage that a page may reach to, or where there is room for many of them; elsewhere they go by system call.
//!
//! On XFS another file may get a part in that storage at any time, and a store then needs new one. So every write of
//! pieces asks whether one has, and whether there is room in case that one comes to have it meanwhile.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use crate::spare;

use super::Segment;
use super::division::Division;
use super::large_pages::{self, DESERVING, LargePages};
use super::overwriting::Overwriting;
use super::sharing::{self, Sole};

impl Segment {
    /// Up to where in `range`, whose pages have storage, bytes may be stored into the mapping; to its start where they
    /// may not. `sole` is what is known of other files that have a part in that storage, if it is worth asking; for how
    /// many pieces it is asked here comes with it.
    pub(super) fn storable_until(
        &self,
        mut range: Range<u64>,
        sole: Option<(&Sole, u64)>,
        punches: u64,
    ) -> u64 {
        match (self.overwriting, sole) {
            (Overwriting::AfterReading, _) => return range.end,
            (Overwriting::Directly, _) => {}
            (Overwriting::UnlessShared, Some((sole, pieces))) => {
                let page = range.start / most();
                match sole
                    .run(range.start, |met| met.is_worth_asking(page, pieces).then(|| self.sole(&range)))
                {
                    Some((end, true)) => range.end = range.end.min(end),
                    Some((_, false)) | None => return range.start,
                }
            }
            (Overwriting::UnlessShared, None) | (Overwriting::ByCopying, _) => return range.start,
        }
        self.populated.revalidate(punches);
        let mut at = range.start;
        while at < range.end {
            let (until, is_known) = self.populated.run(at..range.end);
            let page = self.reach(at..at + 1);
            if is_known {
                at = until;
            } else if self.is_whole(&page) {
                at = page.end;
                self.populated.insert(page);
            } else if self.has_room_for(most(), most()) {
                return range.end;
            } else {
                break;
            }
        }
        at.clamp(range.start, range.end)
    }

    /// Gives `range` storage, and what may be in one page with it, so that all of it can be stored into by whoever maps
    /// it.
    pub(crate) fn allocate_to_map(&self, range: Range<u64>) -> io::Result<()> {
        self.allocate(if self.overwriting.is_by_page_of_disk() { self.reach(range) } else { range })
    }

    /// Before pieces are written to nearly all pages of `range`, which has no storage as far as is known: gives the first
    /// of it storage, and the large page there, where enough of that is `likely` to be written. Returns whether it has;
    /// where there is little room, pieces are better written one by one.
    pub(super) fn provide_on_disk(&self, range: Range<u64>, likely: &Range<u64>) -> bool {
        if !self.has_room_for(most(), most()) {
            return false;
        }
        if let Some(large) = self.large_on_disk {
            let page = self.reach(range.start..range.start + 1);
            let part = likely.start.max(page.start)..likely.end.min(page.end);
            let is_much = part.end.saturating_sub(part.start) >= large.bytes() / DESERVING;
            if part.contains(&range.start) && is_much && self.lay_out(page).is_ok() {
                return true;
            }
        }
        self.allocate(range).is_ok()
    }

    /// Before `range`, which is new, is written by several processes, pieces of it by each: makes the large pages that
    /// fall to this one.
    pub(super) fn make_share_on_disk(&self, range: &Range<u64>, division: Division, large: LargePages) {
        let own = division.own(range, large.bytes());
        if own.is_empty() || !self.has_room_for(range.end - range.start, large.bytes()) {
            return;
        }
        for page in own.step_by(large.bytes() as usize) {
            let made = self.lay_out(page..page + large.bytes());
            // What this process does not get done, whoever comes there first does.
            if made.and_then(|()| self.map.populate_for_writing(page..page + 1)).is_err() {
                return;
            }
        }
    }

    fn lay_out(&self, page: Range<u64>) -> io::Result<()> {
        self.allocate(page.clone())?;
        // A kernel that has none gives small ones.
        if self.map.ask_for_large_pages(page.clone()).is_ok() {
            self.enlarged.insert(page);
        }
        Ok(())
    }

    /// Whether all of `page` has storage, as far as this process knows. Of a page of memory that is known to have some,
    /// blocks of the disk may lack that are smaller: they get it, if there is any.
    fn is_whole(&self, page: &Range<u64>) -> bool {
        self.stored.bytes_within(page.clone()) >= page.end - page.start
            && spare::reserve(&self.file, page.clone()).is_ok()
    }

    /// Pages from the start of `range` on of which the same holds, and whether they may be stored into: no other file has a
    /// part in their storage, and there is room for what is stored if one gets it now.
    fn sole(&self, range: &Range<u64>) -> (Range<u64>, bool) {
        let mut pages = self.reach(range.clone());
        let first = pages.start..(pages.start + most()).min(pages.end);
        if !self.has_room_for(pages.end - pages.start, most()) {
            if !self.has_room_for(most(), most()) {
                return (pages, false);
            }
            pages = first.clone();
        }
        let end = sharing::sole_until(&self.file, pages.clone(), first.end).unwrap_or(pages.start);
        // A page of which a part is shared is not sole.
        let whole = if end == pages.end { end } else { end / most() * most() };
        if whole > pages.start { (pages.start..whole, true) } else { (first, false) }
    }

    /// The parts of the segment that may lie in one page with bytes of `range`.
    fn reach(&self, range: Range<u64>) -> Range<u64> {
        range.start / most() * most()..range.end.next_multiple_of(most()).min(self.map.len() as u64)
    }
}

/// Bytes of the largest page that the kernel makes of a file's.
fn most() -> u64 {
    /// Where the kernel does not tell.
    const USUAL: u64 = 2 << 20;
    static MOST: OnceLock<u64> = OnceLock::new();
    *MOST.get_or_init(|| large_pages::size().unwrap_or(USUAL))
}
