//! One segment's storage, mapped into this process, and the two ways to its bytes.
//!
//! Bytes whose pages are known to have storage are copied through the mapping: no system call. All others
//! go by `pread` and `pwrite`: a hole costs no storage when it is read, a full file system answers with an
//! error instead of a SIGBUS, and a fresh page is several times cheaper that way than by a page fault.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, SeekFrom};

use crate::units::SegmentIndex;

/// A mapped segment.
pub(crate) struct Segment {
    index: SegmentIndex,
    file: File,
    map: MmapRaw,
    /// Pages that have storage.
    stored: PageSet,
    /// Pages that this process can write without a fault each.
    populated: PageSet,
    overwriting: Overwriting,
    /// The sync period (see [`crate::attachment`]) in which the segment was last written.
    written_in: AtomicU64,
}

impl Segment {
    /// Maps the segment whose storage is `file`.
    pub(crate) fn map(index: SegmentIndex, file: File, bytes: u64, writable: bool) -> io::Result<Segment> {
        let mut options = MmapOptions::new();
        let options = options.len(bytes as usize);
        let map = if writable { options.map_raw(&file)? } else { options.map_raw_read_only(&file)? };
        let overwriting = Overwriting::of(&file)?;
        let (stored, populated) = (PageSet::new(bytes), PageSet::new(bytes));
        Ok(Segment { index, file, map, stored, populated, overwriting, written_in: AtomicU64::new(0) })
    }

    /// Which segment of its file this is.
    pub(crate) fn index(&self) -> SegmentIndex {
        self.index
    }

    /// Whether bytes may be stored into a mapping of it where it has storage: the file system does not write copies.
    pub(crate) fn may_be_stored_into(&self) -> bool {
        self.overwriting != Overwriting::ByCopying
    }

    /// A descriptor of the segment's file for somebody else.
    pub(crate) fn reopened(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Copies `length` bytes from position `at` of the segment to `to`.
    ///
    /// `punches` is the file's count of punches, see [`crate::state::State::punches`].
    ///
    /// # Safety
    /// `to` is valid for writes of `length` bytes, none of which lie in this mapping, and `at + length` does
    /// not pass the segment's end.
    pub(crate) unsafe fn read(&self, at: u64, to: *mut u8, length: usize, punches: u64) -> io::Result<()> {
        self.stored.revalidate(punches);
        let end = at + length as u64;
        let mut from = at;
        while from < end {
            let (until, stored) = self.stored.run(from..end);
            let bytes = (until - from) as usize;
            // SAFETY: the caller vouches for `to` and for the range.
            let to = unsafe { to.add((from - at) as usize) };
            if stored {
                // SAFETY: as above; the pages have storage, so that the copy cannot fault. Other processes
                // may write the same bytes meanwhile: MPI leaves such a read's result undefined.
                unsafe { std::ptr::copy_nonoverlapping(self.map.as_ptr().add(from as usize), to, bytes) };
            } else {
                // SAFETY: the caller vouches for `bytes` writable bytes at `to`.
                let to = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
                self.file.read_exact_at(to, from)?;
                self.learn(from..until);
            }
            from = until;
        }
        Ok(())
    }

    /// Copies `length` bytes from `source` to position `at` of the segment. On an error the first part of
    /// it is how many bytes have been written.
    ///
    /// # Safety
    /// `source` is valid for reads of `length` bytes, none of which lie in this mapping; `at + length` does
    /// not pass the segment's end; the segment was mapped for writing.
    pub(crate) unsafe fn write(
        &self,
        at: u64,
        source: *const u8,
        length: usize,
        punches: u64,
    ) -> Result<(), (usize, io::Error)> {
        self.stored.revalidate(punches);
        let end = at + length as u64;
        let mut from = at;
        while from < end {
            let (until, stored) = self.stored.run(from..end);
            let (done, bytes) = ((from - at) as usize, (until - from) as usize);
            // SAFETY: the caller vouches for `source` and for the range.
            let source = unsafe { source.add(done) };
            if stored && self.overwriting != Overwriting::ByCopying {
                self.populate(from..until, punches);
                // SAFETY: as above; the mapping is writable and its pages have storage.
                unsafe {
                    std::ptr::copy_nonoverlapping(source, self.map.as_mut_ptr().add(from as usize), bytes)
                };
            } else {
                // SAFETY: the caller vouches for `bytes` readable bytes at `source`.
                let source = unsafe { std::slice::from_raw_parts(source, bytes) };
                self.write_through(from, source).map_err(|(n, e)| (done + n, e))?;
            }
            from = until;
        }
        Ok(())
    }

    /// Marks the segment as written in a sync period. True where it was not marked so before.
    pub(crate) fn mark_written(&self, period: u64) -> bool {
        // The load spares the common case the cache line's ownership. Relaxed: `sync` writes back whatever is
        // there when it is called, and the set of segments to sync has a lock of its own.
        self.written_in.load(Ordering::Relaxed) != period
            && self.written_in.swap(period, Ordering::Relaxed) != period
    }

    /// Brings all changes, whoever made them, to the storage device.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // Also writes back what was stored through shared mappings.
        self.file.sync_data()
    }

    /// Gives `range` storage; bytes that had none are zero.
    pub(crate) fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), range.start, range.end - range.start)?;
        self.stored.insert(range);
        Ok(())
    }

    /// Takes the storage of `range` back: its bytes read as zero. The caller raises the count of punches.
    pub(crate) fn punch(&self, range: Range<u64>) -> io::Result<()> {
        punch(&self.file, range)
    }

    /// The first range of `within` that has storage, or `None`.
    pub(crate) fn next_data(&self, within: Range<u64>) -> io::Result<Option<Range<u64>>> {
        next_data(&self.file, within)
    }

    fn write_through(&self, at: u64, source: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut done = 0;
        let outcome = loop {
            if done == source.len() {
                break Ok(());
            }
            match self.file.write_at(&source[done..], at + done as u64) {
                Ok(0) => break Err((done, io::Error::from_raw_os_error(libc::ENOSPC))),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err((done, e)),
            }
        };
        // Every page that the kernel wrote even one byte of has storage now.
        self.stored.insert(at..at + done as u64);
        outcome
    }

    /// Before `range`, whose pages have storage, is written through the mapping: has the kernel map those pages
    /// in one go that it has not mapped yet, and some behind them.
    fn populate(&self, range: Range<u64>, punches: u64) {
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
                let block = (from + 1).next_multiple_of(BLOCK).max(until).min(self.map.len() as u64);
                let end = self.stored.run(from..block).0;
                // A kernel that cannot do this (before 5.14) maps each page when it is written.
                let _ = self.map.advise_range(Advice::PopulateRead, from as usize, (end - from) as usize);
                self.populated.insert(from..end);
                until = end;
            }
            from = until;
        }
    }

    /// After a read of `range`: remembers which of its first bytes have storage, so that the next read of
    /// them needs no system call.
    fn learn(&self, range: Range<u64>) {
        // Not knowing is always right, only slower: errors are of no interest here.
        if let Ok(Some(data)) = self.next_data(range.clone()) {
            self.stored.insert(data.start..data.end.min(range.end));
        }
    }
}

/// What a file system does when bytes that have storage are stored into a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overwriting {
    /// It lets them be, and a page that was mapped for reading can be written: tmpfs. The kernel maps sixteen such
    /// pages at a fault, so that populating for reading costs a quarter of a fault for writing per page.
    AfterReading,
    /// It lets them be, but wants to hear of the first write to each page: ext4.
    Directly,
    /// It may write a copy, need space for that, and answer with SIGBUS when it is full: btrfs, and all that are
    /// not known.
    ByCopying,
}

impl Overwriting {
    fn of(file: &File) -> io::Result<Overwriting> {
        /// From `linux/magic.h`.
        const TMPFS: u64 = 0x0102_1994;
        const EXT4: u64 = 0xef53;
        Ok(match rustix::fs::fstatfs(file)?.f_type as u64 {
            TMPFS => Overwriting::AfterReading,
            EXT4 => Overwriting::Directly,
            _ => Overwriting::ByCopying,
        })
    }
}

/// Takes the storage of `range` of `file` back.
pub(crate) fn punch(file: &File, range: Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, flags, range.start, range.end - range.start)?)
}

/// The first range of `within` that has storage in `file`.
pub(crate) fn next_data(file: &File, within: Range<u64>) -> io::Result<Option<Range<u64>>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(within.start)) {
        Ok(start) if start < within.end => start,
        Ok(_) | Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some(start..end.min(within.end)))
}

/// Pages of a segment of which this process knows something. The same may be true of a page that is not in the
/// set, so that forgetting is always safe.
struct PageSet {
    words: Box<[AtomicU64]>,
    /// The count of punches at which the set was last known to hold.
    punches: AtomicU64,
    page_shift: u32,
}

impl PageSet {
    fn new(bytes: u64) -> PageSet {
        let page_shift = rustix::param::page_size().trailing_zeros();
        let words = (bytes >> page_shift).div_ceil(64).max(1);
        PageSet {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            punches: AtomicU64::new(0),
            page_shift,
        }
    }

    /// Forgets everything if storage was given back since.
    fn revalidate(&self, punches: u64) {
        // Acquire: whoever sees the new count sees the cleared words.
        if self.punches.load(Ordering::Acquire) != punches {
            self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            self.punches.store(punches, Ordering::Release);
        }
    }

    /// The longest run from the start of `range` whose pages are all in the set, or all not: its end, and which.
    fn run(&self, range: Range<u64>) -> (u64, bool) {
        let first = range.start >> self.page_shift;
        let last = (range.end - 1) >> self.page_shift;
        let stored = self.contains(first);
        let mut page = first + 1;
        while page <= last {
            // Bits that differ from the run's, from `page` on within its word.
            let word = self.words[(page / 64) as usize].load(Ordering::Acquire);
            let differing = (if stored { !word } else { word }) >> (page % 64);
            if differing != 0 {
                page += u64::from(differing.trailing_zeros());
                break;
            }
            page = (page / 64 + 1) * 64;
        }
        ((page.min(last + 1) << self.page_shift).min(range.end), stored)
    }

    fn contains(&self, page: u64) -> bool {
        // Acquire: pairs with `insert`: the system call that gave the page storage has returned.
        self.words[(page / 64) as usize].load(Ordering::Acquire) >> (page % 64) & 1 != 0
    }

    /// Adds every page that `range` touches.
    fn insert(&self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (first, last) = (range.start >> self.page_shift, (range.end - 1) >> self.page_shift);
        for word in first / 64..=last / 64 {
            let low = first.max(word * 64) % 64;
            let high = last.min(word * 64 + 63) % 64;
            let mask = (u64::MAX >> (63 - high)) & (u64::MAX << low);
            self.words[word as usize].fetch_or(mask, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: u64 = 64 << 12;

    proptest! {
        #[test]
        fn runs_agree_with_a_plain_set(
            inserted in prop::collection::vec((0..BYTES, 1..BYTES), 0..6),
            start in 0..BYTES, length in 1..BYTES,
        ) {
            let pages = PageSet::new(BYTES);
            let page = 1u64 << pages.page_shift;
            let mut oracle = vec![false; (BYTES / page) as usize];
            for (from, length) in inserted {
                let to = (from + length).min(BYTES);
                pages.insert(from..to);
                (from / page..=(to - 1) / page).for_each(|p| oracle[p as usize] = true);
            }
            let end = (start + length).min(BYTES);
            let (until, stored) = pages.run(start..end);
            prop_assert!(start < until && until <= end);
            for byte in (start..until).step_by(7) {
                prop_assert_eq!(oracle[(byte / page) as usize], stored);
            }
            if until < end {
                prop_assert_eq!(oracle[(until / page) as usize], !stored);
            }
        }

        #[test]
        fn a_segment_reads_what_was_written(
            writes in prop::collection::vec((0..BYTES, 1..BYTES / 3, any::<u8>()), 1..12),
            punched in 0..BYTES,
        ) {
            let file = tempfile::tempfile().unwrap();
            file.set_len(BYTES).unwrap();
            let segment = Segment::map(SegmentIndex(0), file, BYTES, true).unwrap();
            let mut oracle = vec![0u8; BYTES as usize];
            let half = writes.len() / 2;
            for (n, (at, length, value)) in writes.into_iter().enumerate() {
                let punches = u64::from(n >= half);
                if n == half {
                    segment.punch(punched..BYTES).unwrap();
                    oracle[punched as usize..].fill(0);
                }
                let length = length.min(BYTES - at) as usize;
                let data = vec![value; length];
                // SAFETY: the buffer has `length` bytes and the range ends within the segment.
                unsafe { segment.write(at, data.as_ptr(), length, punches) }.unwrap();
                oracle[at as usize..][..length].fill(value);
                let mut read = vec![0xAAu8; BYTES as usize];
                // SAFETY: the buffer has as many bytes as the segment.
                unsafe { segment.read(0, read.as_mut_ptr(), BYTES as usize, punches) }.unwrap();
                prop_assert!(read == oracle);
            }
        }
    }
}
