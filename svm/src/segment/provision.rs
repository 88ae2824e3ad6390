//! What is done to pages before they are written: they get storage, in large pages where that pays, and are mapped.

use std::io;
use std::ops::Range;

use crate::spare;

use super::Segment;
use super::division::Division;
use super::idle_cores;
use super::large_pages::{DESERVING, Outcome, WhenBusy};
use super::overwriting::Overwriting;
use super::sharing::Sole;
use super::strided::{Access, Place};

impl Segment {
    /// Gives `range` storage; bytes that had none are zero.
    pub(crate) fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.enlarge(range.clone(), None);
        spare::reserve(&self.file, range.clone())?;
        self.stored.insert(range);
        Ok(())
    }

    /// Before `range` is written, and what is behind it, up to `end`, probably soon: makes the large pages that it
    /// reaches. Where it is so long that idle cores may help with it, these do.
    pub(crate) fn foresee(&self, range: Range<u64>, end: u64, punches: u64) {
        if range.end - range.start >= idle_cores::least() {
            return;
        }
        self.stored.revalidate(punches);
        self.enlarged.revalidate(punches);
        let (bytes, likely) = (range.end - range.start, range.start..end);
        let access = Access { bytes, place: Place::New, likely, sole: Sole::default() };
        let mut rest = range;
        while !rest.is_empty() {
            let (until, is_stored) = self.stored.run(rest.clone());
            if is_stored {
                rest.start = until;
            } else if !self.prepare(rest.start, &access, punches) {
                return;
            }
        }
    }

    /// Before `range`, which is new, is written by several processes, pieces of it by each: makes the large pages that
    /// fall to this one, up to the first with which somebody has begun.
    pub(crate) fn make_share(&self, range: &Range<u64>, division: Division, punches: u64) {
        let sets = [&self.stored, &self.populated, &self.enlarged];
        sets.into_iter().for_each(|set| set.revalidate(punches));
        if let Some(large) = self.large_on_disk {
            return self.make_share_on_disk(range, division, large);
        }
        let Some(large) = self.large else { return };
        let mut own = division.own(range, large.bytes());
        if own.is_empty() {
            return;
        }
        if let Ok(Some(data)) = self.next_data(own.clone()) {
            own.end = data.start / large.bytes() * large.bytes();
        }
        if own.is_empty() || !self.has_room_for(range.end - range.start, large.bytes()) {
            return;
        }
        if large.make_ahead(&self.file, &self.map, own.clone()) == Outcome::Made {
            self.note_made(own);
        }
    }

    /// Before `range`, which has no storage as far as is known, gets some: makes large pages where enough is to be
    /// written. Where another process is about the same, `next` is made meanwhile.
    pub(super) fn enlarge(&self, range: Range<u64>, next: Option<Range<u64>>) {
        let make_next = || {
            if let Some(next) = next {
                self.enlarge_unless(next, WhenBusy::<fn()>::Leave);
            }
        };
        self.enlarge_unless(range, WhenBusy::WaitAfter(make_next));
    }

    /// The same, but for pages that other processes make at this moment.
    fn enlarge_unless(&self, range: Range<u64>, when_busy: WhenBusy<impl FnOnce()>) {
        let Some(large) = self.large else { return };
        let deserves = |page: Range<u64>, part: Range<u64>| {
            let used = self.stored.bytes_within(page) + (part.end - part.start);
            used >= large.bytes() / DESERVING && self.has_room_for(large.bytes(), large.bytes())
        };
        let pages = large.around(&range, deserves);
        if pages.is_empty() {
            return;
        }
        match large.make(&self.file, &self.map, pages.clone(), &range, when_busy) {
            Outcome::Made => self.note_made(pages),
            Outcome::Busy => {}
            Outcome::Refused => self.small.insert(pages),
        }
    }

    /// Before `range`, whose pages have storage, is written through the mapping: has the kernel map those pages
    /// in one go that it has not mapped yet, and some behind them.
    pub(super) fn populate(&self, range: Range<u64>, punches: u64) {
        /// Bytes: what is populated at least, if it has storage, so that small writes find the next pages mapped.
        const BLOCK: u64 = 256 << 10;
        if self.overwriting != Overwriting::AfterReading {
            return;
        }
        self.populated.revalidate(punches);
        let mut from = range.start;
        while from < range.end {
            let (mut until, populated) = self.populated.run(from..range.end);
            if !populated {
                // Only pages with storage: populating a hole would give it some.
                let block = (from + 1).next_multiple_of(self.mapped_at_once(from, BLOCK)).max(until);
                let end = self.stored.run(from..block.min(self.map.len() as u64)).0;
                // A kernel that cannot do this (before 5.14) maps each page when it is written.
                let _ = self.map.populate(from..end);
                self.populated.insert(from..end);
                until = end;
            }
            from = until;
        }
    }

    /// After an access to `range` by system call: remembers which pages from its first stored one on have storage, so
    /// that the next access to them needs none.
    pub(super) fn learn(&self, range: Range<u64>) {
        // Not knowing is always right, only slower: errors are of no interest here.
        if let Ok(Some(data)) = self.next_data(range.start..self.map.len() as u64)
            && data.start < range.end
        {
            self.stored.insert(data);
        }
    }

    /// How many bytes around `at` the kernel maps for the price of any of them: those of a large page; else `least`.
    fn mapped_at_once(&self, at: u64, least: u64) -> u64 {
        match self.large {
            Some(large) if self.enlarged.run(at..at + 1).1 => large.bytes().max(least),
            _ => least,
        }
    }

    fn note_made(&self, pages: Range<u64>) {
        self.stored.insert(pages.clone());
        self.enlarged.insert(pages.clone());
        self.populated.insert(pages);
    }

    /// Whether the file system has so much room that nobody will miss what large pages, of `page` bytes each, take too
    /// much of so many `bytes`.
    pub(super) fn has_room_for(&self, bytes: u64, page: u64) -> bool {
        /// Large pages.
        const ROOM: u64 = 64;
        let least = bytes.saturating_add((ROOM - 1) * page);
        rustix::fs::fstatvfs(&self.file).is_ok_and(|fs| fs.f_bavail * fs.f_frsize >= least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::large_page;
    use crate::segment::maker::Maker;
    use crate::segment::tests::opened_anew;
    use crate::team::LocalRank;
    use crate::units::SegmentIndex;

    /// Needs large pages, see `large_writes_get_large_pages_and_small_ones_do_not`.
    #[test]
    fn each_makes_large_pages_of_its_own_that_nobody_has_begun_with() {
        let large = large_page().expect("a kernel with transparent huge pages");
        let bytes = 8 * large;
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(bytes).unwrap();
        // Each has a mapping of its own, as if it were another process.
        let map = || Segment::map(SegmentIndex(0), opened_anew(&file), bytes, true).unwrap();
        let of = |rank| Division::new(LocalRank { rank, ranks: 4 }, 4);
        // The first page is not written from its beginning on: six are whole.
        let range = large / 2..7 * large;
        let segment = map();
        for (number, stored) in [(2, 4 * large..5 * large), (1, 2 * large..5 * large)] {
            segment.make_share(&range, of(number), 0);
            assert_eq!(segment.next_data(0..bytes).unwrap(), Some(stored));
        }
        assert!(segment.has_large_page().unwrap());
        // Of two pages that fall to the last one, somebody has begun with the second.
        let other = map();
        // SAFETY: the array has a byte, and the segment more.
        unsafe { other.write(6 * large + (9 << 10), [1].as_ptr(), 1, 0) }.unwrap();
        segment.make_share(&range, of(3), 0);
        assert_eq!(segment.next_data(0..bytes).unwrap(), Some(2 * large..6 * large));
        // Of one page that falls to the first, somebody has made it all.
        other.make_share(&range, of(0), 0);
        segment.make_share(&range, of(0), 0);
        assert_eq!(segment.next_data(0..bytes).unwrap(), Some(large..6 * large));
        // Nothing falls to one who is alone.
        segment.make_share(&(0..bytes), Division::ALONE, 0);
        assert_eq!(segment.next_data(0..bytes).unwrap(), Some(large..6 * large));
    }
    /// Needs large pages, see above.
    #[test]
    fn who_finds_a_page_being_made_makes_the_next_and_leaves_no_small_pages_in_it() {
        let large = large_page().expect("a kernel with transparent huge pages");
        let bytes = 4 * large;
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(bytes).unwrap();
        let segment = Segment::map(SegmentIndex(0), opened_anew(&file), bytes, true).unwrap();
        let stored = || segment.next_data(0..bytes).unwrap();
        let (first, second) = (0..large, large..2 * large);
        let maker = Maker::of(&file, &first).unwrap().expect("nobody makes it");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| segment.enlarge(first.clone(), Some(second.clone())));
            while stored() != Some(second.clone()) {
                assert!(!waiting.is_finished(), "it did not wait, or did nothing meanwhile");
                std::thread::yield_now();
            }
            drop(maker);
        });
        // The one that was to make it has not.
        assert_eq!(stored(), Some(0..2 * large));
        // Who would only have made it meanwhile leaves it, without waiting.
        let _maker = Maker::of(&file, &(2 * large..3 * large)).unwrap().expect("nobody makes it");
        segment.enlarge_unless(2 * large..3 * large, WhenBusy::<fn()>::Leave);
        assert_eq!(stored(), Some(0..2 * large));
    }
}
