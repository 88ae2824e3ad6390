//! The page cache used by several handles, threads and processes.

mod deaths;
mod model;
mod opening;
mod sets;
mod threads;

use std::ops::Range;

use super::*;
use crate::copying::Course;

const PAGE: u32 = 4096;

/// A cache that has room for so many pages.
fn cache_of(pages: u64) -> PageCache {
    PageCache::create(&CacheSettings { page: PAGE.into(), capacity: pages * u64::from(PAGE) }).unwrap()
}

/// As another process would open it.
fn open_again(cache: &PageCache) -> PageCache {
    let (pid, fd) = cache.whereabouts();
    PageCache::open(pid, fd).unwrap()
}

fn key(file: u8, page: u64) -> PageKey {
    PageKey { file: FileId::from_bytes([file; 16]), page: PageNumber(page) }
}

fn all_pages() -> PageSet {
    PageSet::touched(&(0..u64::MAX), 1)
}

/// The calls with slices for pointers, and the fabric.
impl PageCache {
    fn read_into(&self, key: &PageKey, at: u32, to: &mut [u8]) -> ReadOutcome {
        let course = if at.is_multiple_of(2) { Course::ThroughCaches } else { Course::PastCaches };
        // SAFETY: the slice has as many bytes as are asked for.
        unsafe { self.read(key, at..at + to.len() as u32, to.as_mut_ptr(), course) }.unwrap()
    }

    fn write_from(&self, key: &PageKey, at: u32, from: &[u8]) -> WriteOutcome {
        // SAFETY: as above.
        unsafe { self.write(key, at..at + from.len() as u32, from.as_ptr()) }.unwrap()
    }

    fn overwrite_from(&self, key: &PageKey, at: u32, from: &[u8], announced: Option<u64>) -> Overwrite {
        // SAFETY: as above.
        unsafe { self.overwrite(key, at..at + from.len() as u32, from.as_ptr(), announced) }.unwrap()
    }

    fn announce_from(&self, key: &PageKey, at: u32, from: &[u8]) -> Overwrite {
        // SAFETY: as above.
        unsafe { self.announce_overwrite(key, at..at + from.len() as u32, from.as_ptr()) }.unwrap()
    }

    /// What the home does: writes the page to where the ticket says, by the cache's file.
    fn deliver(&self, ticket: &FetchTicket, page: &[u8]) {
        self.deliver_part(ticket, 0..PAGE, page);
    }

    /// The same with some bytes of the page.
    fn deliver_part(&self, ticket: &FetchTicket, within: Range<u32>, page: &[u8]) {
        use std::os::unix::fs::FileExt;
        assert_eq!(page.len(), PAGE as usize);
        let at = ticket.offset + u64::from(within.start);
        self.file().write_all_at(&page[indices(&within)], at).unwrap();
    }

    fn fetch_begun(&self, key: &PageKey) -> FetchTicket {
        match self.begin_fetch(key).unwrap() {
            Fetch::Begun(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn flush_begun(&self, key: &PageKey) -> Flush {
        match self.begin_flush(key).unwrap() {
            FlushState::Begun(flush) => flush,
            other => panic!("{other:?}"),
        }
    }

    /// Where the set of a page stands now.
    fn set_version(&self, key: &PageKey) -> SetVersion {
        self.lock(key).unwrap().version()
    }

    /// What the module's documentation says always holds, where nobody uses the cache meanwhile.
    #[track_caller]
    fn assert_in_order(&self) {
        use layout::FrameState::*;
        for index in 0..self.memory.sets() {
            let set = self.lock_set(index).unwrap();
            let mut dirty = false;
            for frame in set.frames().filter(|f| f.record.state() == Page) {
                let key = frame.record.key();
                let same = |state| {
                    set.frames().filter(|f| f.record.state() == state && f.record.key() == key).count()
                };
                assert!(same(Page) == 1 && same(Fetching) <= 1);
                for map in [frame.dirty(), frame.flushing()] {
                    for run in byte_map::runs(0..PAGE, |word| map.bits(word)) {
                        assert!(frame.valid().contains(&run), "dirty bytes are valid");
                    }
                }
                dirty |= !frame.is_clean();
            }
            let word = self.memory.dirty_sets()[index as usize / 64].load(Relaxed);
            assert!(!dirty || word >> (index % 64) & 1 == 1, "dirty, and nobody knows");
        }
    }
}

fn indices(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
