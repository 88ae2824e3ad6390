//! One segment's storage, mapped into this process, and the two ways to its bytes.
//!
//! Bytes whose pages are known to have storage are copied through the mapping: no system call. All others
//! go by `pread` and `pwrite`: a hole costs no storage when it is read, a full file system answers with an
//! error instead of a SIGBUS, and a fresh page is several times cheaper that way than by a page fault. Cheapest are
//! large pages, which are made before anything is written where the file system lets them be made.
//!
//! ```text
//! idle_cores    long accesses that other cores help with
//! provision     storage for pages before they are written, and mapping them
//! page_set      which pages are known to have storage, which to be mapped
//! overwriting   what the file system does about stores into a mapping
//! sharing       storage that other files have a part in
//! large_pages   large pages made on demand
//! disk_pages    large pages asked of a disk's file system
//! maker         who makes one of them: one process at a time
//! patience      whether they are worth their time
//! division      who makes which of them, where several write together
//! mapping       the mapping itself, where large pages fit
//! strided       many small pieces at a time
//! contiguous    bytes in a row
//! extents       what of its file has storage, and what that holds
//! ```

mod contiguous;
mod disk_pages;
mod division;
mod extents;
mod idle_cores;
mod large_pages;
mod maker;
mod mapping;
mod overwriting;
mod page_set;
mod patience;
mod provision;
mod sharing;
mod strided;

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

pub(crate) use self::division::Division;
pub(crate) use self::extents::{empty, give_storage, is_zero, next_data, open_sole, punch};
use self::large_pages::LargePages;
use self::mapping::Mapping;
use self::overwriting::Overwriting;
pub(crate) use self::overwriting::{is_in_memory, takes_pieces};
use self::page_set::PageSet;
pub(crate) use self::sharing::Sole;
pub(crate) use self::strided::{Access, Place};
use crate::changes::Mark;
use crate::units::SegmentIndex;

/// Which file of the operating system's: no other one has these while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) device: u64,
    pub(crate) number: u64,
}

impl Inode {
    pub(crate) fn of(metadata: &Metadata) -> Inode {
        Inode { device: metadata.dev(), number: metadata.ino() }
    }
}

/// A mapped segment.
pub(crate) struct Segment {
    index: SegmentIndex,
    file: File,
    inode: Inode,
    map: Mapping,
    /// Pages that have storage.
    stored: PageSet,
    /// Pages that this process has made ready to be stored into: mapped them in memory, and on a disk seen to what is
    /// around them.
    populated: PageSet,
    /// Pages that were to lie in large ones, and do not.
    small: PageSet,
    /// Large pages that came to be while this process wanted them, or will with the first fault.
    enlarged: PageSet,
    overwriting: Overwriting,
    /// Large pages that are made where the file system, in memory, has small ones.
    large: Option<LargePages>,
    /// Those that the file system of a disk has, where it is asked for them.
    large_on_disk: Option<LargePages>,
    /// When it was last changed by this process.
    mark: Mark,
}

impl Segment {
    /// Maps the segment whose storage is `file`.
    pub(crate) fn map(index: SegmentIndex, file: File, bytes: u64, writable: bool) -> io::Result<Segment> {
        let overwriting = Overwriting::of(&file)?;
        let large_if = |is_so| if is_so { LargePages::of(bytes) } else { None };
        let large = large_if(overwriting == Overwriting::AfterReading);
        let large_on_disk = large_if(overwriting.is_by_page_of_disk());
        let alignment = large.or(large_on_disk).map_or(1, |large| large.bytes() as usize);
        let map = Mapping::new(&file, bytes as usize, writable, alignment)?;
        let inode = Inode::of(&file.metadata()?);
        let [stored, populated, small, enlarged] = std::array::from_fn(|_| PageSet::new(bytes));
        let mark = Mark::default();
        Ok(Segment {
            index,
            file,
            inode,
            map,
            stored,
            populated,
            small,
            enlarged,
            overwriting,
            large,
            large_on_disk,
            mark,
        })
    }

    /// The same storage as another segment: nothing is known of its pages, or has been changed.
    pub(crate) fn renewed(self, index: SegmentIndex) -> Segment {
        let [stored, populated, small, enlarged] =
            std::array::from_fn(|_| PageSet::new(self.map.len() as u64));
        Segment { index, stored, populated, small, enlarged, mark: Mark::default(), ..self }
    }

    /// Which file has its storage.
    pub(crate) fn inode(&self) -> Inode {
        self.inode
    }

    /// Whether any name leads to its storage.
    pub(crate) fn has_name(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }

    /// Makes the bytes of `range` zero; they keep their storage. Nobody uses them, and it was mapped for writing.
    pub(crate) fn clear(&self, range: Range<u64>) -> io::Result<()> {
        let mut rest = range;
        while let Some(data) = self.next_data(rest.clone())? {
            self.map.populate(data.clone())?;
            self.map.clear(data.clone());
            rest.start = data.end;
        }
        Ok(())
    }

    /// Which segment of its file this is.
    pub(crate) fn index(&self) -> SegmentIndex {
        self.index
    }

    /// Whether bytes may be stored, at any time, into a mapping of it where it has storage: the file system does not write
    /// copies.
    pub(crate) fn may_be_stored_into(&self) -> bool {
        matches!(self.overwriting, Overwriting::AfterReading | Overwriting::Directly)
    }

    /// Whether bytes may be written to its pages past all mappings. A file system of a disk would not hear of it, and
    /// take the pages for those that it has on the disk.
    pub(crate) fn may_be_pinned(&self) -> bool {
        self.overwriting == Overwriting::AfterReading
    }

    /// Whether at least half of it has storage.
    pub(crate) fn is_mostly_stored(&self) -> bool {
        /// Of which the system counts the blocks, whatever the file system has.
        const BLOCK: u64 = 512;
        let half = self.map.len() as u64 / 2;
        self.file.metadata().is_ok_and(|metadata| metadata.blocks().saturating_mul(BLOCK) >= half)
    }

    /// Whether any of it is mapped by a large page at this moment.
    pub(crate) fn has_large_page(&self) -> io::Result<bool> {
        self.map.has_large_page()
    }

    /// The file that has its storage.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// A descriptor of the segment's file for somebody else.
    pub(crate) fn reopened(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// When this process last changed it.
    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Brings all changes, whoever made them, to the storage device.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // Also writes back what was stored through shared mappings.
        self.file.sync_data()
    }

    /// Takes the storage of `range` back: its bytes read as zero. The caller raises the count of punches.
    pub(crate) fn punch(&self, range: Range<u64>) -> io::Result<()> {
        punch(&self.file, range)
    }

    /// The first range of `within` that has storage, or `None`.
    pub(crate) fn next_data(&self, within: Range<u64>) -> io::Result<Option<Range<u64>>> {
        next_data(&self.file, within)
    }
}

/// Bytes of the large pages that segments may have; `None` where there are none.
pub(crate) fn large_page() -> Option<u64> {
    large_pages::size()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    use super::*;
    use proptest::prelude::*;

    /// The same file as another process would have it: with locks of its own.
    pub(super) fn opened_anew(file: &File) -> File {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        File::options().read(true).write(true).open(path).unwrap()
    }

    /// A file without content, on the disk or in memory.
    fn file(directory: &str, bytes: u64) -> File {
        let file = tempfile::tempfile_in(directory).unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn a_segment_reads_what_was_written(
            in_memory: bool,
            // Parts of the segment: positions and lengths.
            writes in prop::collection::vec((0.0..1.0, 0.0..0.4, any::<u8>()), 1..12),
            punched in 0.0..1.0,
        ) {
            let (directory, bytes) = if in_memory { ("/dev/shm", 8 << 20) } else { ("/tmp", 4 << 20) };
            let segment = Segment::map(SegmentIndex(0), file(directory, bytes), bytes, true).unwrap();
            let part = |share: f64| (bytes as f64 * share) as u64;
            let punched = part(punched);
            let mut oracle = vec![0u8; bytes as usize];
            let half = writes.len() / 2;
            for (n, (at, length, value)) in writes.into_iter().enumerate() {
                let punches = u64::from(n >= half);
                if n == half {
                    segment.punch(punched..bytes).unwrap();
                    oracle[punched as usize..].fill(0);
                }
                let at = part(at);
                let length = (part(length) + 1).min(bytes - at) as usize;
                let data = vec![value; length];
                // SAFETY: the buffer has `length` bytes and the range ends within the segment.
                unsafe { segment.write(at, data.as_ptr(), length, punches) }.unwrap();
                oracle[at as usize..][..length].fill(value);
                let mut read = vec![0xAAu8; bytes as usize];
                // SAFETY: the buffer has as many bytes as the segment.
                unsafe { segment.read(0, read.as_mut_ptr(), bytes as usize, punches) }.unwrap();
                prop_assert!(read == oracle);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        /// Long enough for other cores to take a share of each, in segments of which some is there and some is not.
        #[test]
        fn long_accesses_are_shared_and_none_of_their_bytes_is_missing(
            in_memory: bool,
            // Parts of what a write could begin behind, and be longer than the least that is shared.
            writes in prop::collection::vec((0.0..1.0, 0.0..1.0, any::<u8>()), 1..5),
        ) {
            const BYTES: u64 = 32 << 20;
            let directory = if in_memory { "/dev/shm" } else { "/tmp" };
            let segment = Segment::map(SegmentIndex(0), file(directory, BYTES), BYTES, true).unwrap();
            let mut oracle = vec![0u8; BYTES as usize];
            for (at, length, value) in writes {
                let at = ((BYTES - idle_cores::least()) as f64 * at) as u64;
                let longer = ((BYTES - at - idle_cores::least()) as f64 * length) as u64;
                let length = (idle_cores::least() + longer) as usize;
                // Each page's bytes are its own.
                let row: Vec<u8> = (0..4099_u32).map(|n| value.wrapping_add(n as u8)).collect();
                let data = &row.repeat(length.div_ceil(row.len()))[..length];
                // SAFETY: the buffer has `length` bytes and the range ends within the segment.
                unsafe { segment.write(at, data.as_ptr(), length, 0) }.unwrap();
                oracle[at as usize..][..length].copy_from_slice(data);
                let mut read = vec![0xAAu8; BYTES as usize - 1];
                // SAFETY: the buffer has as many bytes as are asked for.
                unsafe { segment.read(1, read.as_mut_ptr(), read.len(), 0) }.unwrap();
                prop_assert!(read == oracle[1..]);
            }
        }
    }

    #[test]
    fn what_is_cleared_is_zero_and_nothing_else() {
        const BYTES: u64 = 4 << 20;
        let segment = Segment::map(SegmentIndex(0), file("/dev/shm", BYTES), BYTES, true).unwrap();
        let (start, end) = (3 * 4096 + 5, (1 << 20) + 77);
        let data = vec![7u8; 2 << 20];
        // SAFETY: the buffers are as long as is told, and the ranges end within the segment.
        unsafe { segment.write(0, data.as_ptr(), data.len(), 0) }.unwrap();
        segment.clear_unfinished(start..end).unwrap();
        // Behind the last byte there is none, and an empty range is none.
        segment.clear_unfinished(3 << 20..BYTES).unwrap();
        segment.clear_unfinished(9..9).unwrap();
        let mut read = vec![1u8; BYTES as usize];
        // SAFETY: as above.
        unsafe { segment.read(0, read.as_mut_ptr(), read.len(), 0) }.unwrap();
        for (at, byte) in (0..).zip(read) {
            let is_there = at < start || (end..2 << 20).contains(&at);
            assert_eq!(byte, if is_there { 7 } else { 0 }, "{at}");
        }
    }

    /// Needs Linux 6.1, with transparent huge pages that `/sys/kernel/mm/transparent_hugepage/shmem_enabled` does not
    /// deny.
    #[test]
    fn large_writes_get_large_pages_and_small_ones_do_not() {
        let large = large_page().expect("a kernel with transparent huge pages");
        let bytes = 4 * large;
        let stored = |segment: &Segment| segment.next_data(0..bytes).unwrap();
        for (length, is_large) in [(large / 16, false), (large / 4, true), (large, true), (3 * large, true)] {
            let segment = Segment::map(SegmentIndex(0), file("/dev/shm", bytes), bytes, true).unwrap();
            let data = vec![7u8; length as usize];
            // SAFETY: as above.
            unsafe { segment.write(large, data.as_ptr(), data.len(), 0) }.unwrap();
            assert_eq!(segment.has_large_page().unwrap(), is_large, "{length} bytes");
            let end = if is_large { length.next_multiple_of(large) } else { length };
            assert_eq!(stored(&segment), Some(large..large + end), "{length} bytes");
        }
        // Small ones do together.
        let segment = Segment::map(SegmentIndex(0), file("/dev/shm", bytes), bytes, true).unwrap();
        for at in (0..large / 4).step_by(4096) {
            // SAFETY: as above.
            unsafe { segment.write(at, [1u8; 4096].as_ptr(), 4096, 0) }.unwrap();
        }
        assert!(segment.has_large_page().unwrap());
        assert_eq!(stored(&segment), Some(0..large));
    }

    #[test]
    fn nothing_is_lost_while_several_make_the_same_large_pages() {
        several_make_the_same_large_pages(false);
        several_make_the_same_large_pages(true);
    }

    fn several_make_the_same_large_pages(is_foreseen: bool) {
        const BYTES: u64 = 16 << 20;
        const WRITERS: u64 = 4;
        const BLOCK: u64 = 47_008;
        let file = file("/dev/shm", BYTES);
        let value = |block: u64| (block * 31 % 251) as u8 + 1;
        let blocks = BYTES / BLOCK;
        let writer = |first: u64| {
            // Each has a mapping of its own, as if it were another process.
            let segment = Segment::map(SegmentIndex(0), file.try_clone().unwrap(), BYTES, true).unwrap();
            for block in (first..blocks).step_by(WRITERS as usize) {
                let data = [value(block); BLOCK as usize];
                let range = block * BLOCK..(block + 1) * BLOCK;
                if is_foreseen {
                    segment.foresee(range.clone(), (2 * range.end).min(BYTES), 0);
                }
                // SAFETY: the array has so many bytes, and the block ends within the segment.
                unsafe { segment.write(range.start, data.as_ptr(), data.len(), 0) }.unwrap();
            }
        };
        std::thread::scope(|scope| (0..WRITERS).for_each(|first| drop(scope.spawn(move || writer(first)))));
        let mut content = vec![0; (blocks * BLOCK) as usize];
        file.read_exact_at(&mut content, 0).unwrap();
        for (block, bytes) in content.chunks(BLOCK as usize).enumerate() {
            assert!(bytes.iter().all(|byte| *byte == value(block as u64)), "block {block}");
        }
    }
}
