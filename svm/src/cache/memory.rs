//! The shared memory of a page cache, mapped; all access to it that the compiler cannot check is here.
//!
//! ```text
//! | header | which sets are dirty | sets | bits of all frames | frames |
//! ```
//!
//! Header and sets have storage from the beginning. The bits and the bytes of a frame get theirs when they are
//! first used (`fallocate`), so that a node without memory gives an error and not a SIGBUS.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
use svmio_transport::copy_bytes;

use super::byte_map::{ByteMap, Storage};
use super::layout::{FrameRecord, Header, SetRecord, WAYS};
use super::settings::CacheSettings;
use crate::blocks::{self, Blocks};
use crate::copying::Course;
use crate::robust_mutex::RobustMutex;
use crate::segment::give_storage;

/// What is aligned to the pages of every kernel that matters here.
const ALIGNMENT: u64 = 64 << 10;
/// The maps of a frame.
const MAPS: u64 = 3;
const VALID: u64 = 2;

/// Where everything is, in bytes from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Places {
    page: u64,
    sets: u64,
    ways: u64,
    dirty: u64,
    records: u64,
    bits: u64,
    frames: u64,
    end: u64,
}

impl Places {
    fn of(settings: &CacheSettings) -> Places {
        let page = settings.page;
        let frames = settings.capacity / page;
        // A set takes as many frames as it can; what division leaves over is less than one frame per set.
        let sets = frames.div_ceil(WAYS as u64);
        let ways = frames / sets;
        let dirty = (size_of::<Header>() as u64).next_multiple_of(ALIGNMENT);
        let records = (dirty + sets.div_ceil(64) * 8).next_multiple_of(ALIGNMENT);
        let bits = (records + sets * size_of::<SetRecord>() as u64).next_multiple_of(ALIGNMENT);
        let alignment = ALIGNMENT.max(page);
        let frames = (bits + sets * ways * MAPS * (page / 8)).next_multiple_of(alignment);
        let end = frames + sets * ways * page;
        Places { page, sets, ways, dirty, records, bits, frames, end }
    }
}

/// The mapping. Frames are counted over all sets: set by set, way by way.
pub(super) struct Memory {
    file: Arc<File>,
    map: MmapRaw,
    places: Places,
}

/// Why a file is not taken for a page cache.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotACache {
    #[error("not the page cache of this version of svmio")]
    Foreign,
    #[error("a page cache of {expected} bytes has {found}: its memory was damaged")]
    Length { expected: u64, found: u64 },
}

impl Memory {
    /// Makes the memory; `settings` have been checked.
    pub(super) fn create(settings: &CacheSettings) -> io::Result<Memory> {
        let places = Places::of(settings);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("svmio-cache", flags)?);
        file.set_len(places.end)?;
        // Nobody can take mapped memory away.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        give_storage(&file, 0..places.bits)?;
        let memory = Memory::map(file, places)?;
        for set in 0..places.sets {
            // SAFETY: the mutex is the first field of the record; the memory is mapped, writable, shared, and
            // nobody else knows of it.
            unsafe { RobustMutex::init_at(memory.at(places.records + set * SET_BYTES).cast())? };
        }
        let header = memory.header();
        header.page.store(settings.page, Relaxed);
        header.capacity.store(settings.capacity, Relaxed);
        header.write_identity();
        Ok(memory)
    }

    /// Maps memory that another process has made.
    pub(super) fn open(file: File) -> io::Result<Memory> {
        let found = file.metadata()?.len();
        let smallest = Places::of(&CacheSettings { page: 4096, capacity: 4096 });
        if found < smallest.end {
            return Err(io::Error::new(io::ErrorKind::InvalidData, NotACache::Foreign));
        }
        // At first only to look at the header, which fits in.
        let memory = Memory::map(file, Places { end: smallest.end, ..smallest })?;
        let header = memory.header();
        let settings =
            CacheSettings { page: header.page.load(Relaxed), capacity: header.capacity.load(Relaxed) };
        if !header.has_identity() || settings.check().is_err() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, NotACache::Foreign));
        }
        let places = Places::of(&settings);
        if places.end != found {
            let wrong = NotACache::Length { expected: places.end, found };
            return Err(io::Error::new(io::ErrorKind::InvalidData, wrong));
        }
        let file = memory.file;
        let map = MmapOptions::new().len(places.end as usize).map_raw(&*file)?;
        Ok(Memory { file, map, places })
    }

    fn map(file: File, places: Places) -> io::Result<Memory> {
        let map = MmapOptions::new().len(places.end as usize).map_raw(&file)?;
        Ok(Memory { file: Arc::new(file), map, places })
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(super) fn bytes(&self) -> u64 {
        self.places.end
    }

    pub(super) fn page(&self) -> u32 {
        self.places.page as u32
    }

    pub(super) fn sets(&self) -> u32 {
        self.places.sets as u32
    }

    pub(super) fn ways(&self) -> usize {
        self.places.ways as usize
    }

    /// Where the bytes of a frame begin, from the beginning of the memory.
    pub(super) fn frame_offset(&self, frame: u64) -> u64 {
        self.places.frames + frame * self.places.page
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header, which is nothing but atomics, and is aligned to a page.
        unsafe { &*self.at(0).cast() }
    }

    /// Which sets have dirty frames: a bit each.
    pub(super) fn dirty_sets(&self) -> &[AtomicU64] {
        let words = self.places.sets.div_ceil(64) as usize;
        // SAFETY: `Places` has room for these words there, aligned, used for nothing else.
        unsafe { std::slice::from_raw_parts(self.at(self.places.dirty).cast(), words) }
    }

    pub(super) fn set(&self, set: u32) -> &SetRecord {
        assert!(u64::from(set) < self.places.sets);
        // SAFETY: there are as many records there, aligned, made of atomics and a mutex that `create` has
        // initialised before anybody else could know of the memory.
        unsafe { &*self.at(self.places.records + u64::from(set) * SET_BYTES).cast() }
    }

    /// The bytes of frame `frame` that are valid.
    pub(super) fn valid<'m>(&'m self, frame: u64, record: &'m FrameRecord) -> ByteMap<'m> {
        self.byte_map(frame, VALID, &record.valid, record)
    }

    /// The bytes of frame `frame` that are in one of the two sets of changed bytes.
    pub(super) fn changed<'m>(&'m self, frame: u64, which: usize, record: &'m FrameRecord) -> ByteMap<'m> {
        self.byte_map(frame, which as u64, &record.changed[which], record)
    }

    /// Gives the bytes of a frame storage.
    pub(super) fn reserve(&self, frame: u64, record: &FrameRecord) -> io::Result<()> {
        let (at, bytes) = (self.frame_offset(frame), self.places.page);
        Storage { file: &self.file, at, bytes, reserved: &record.page_reserved }.reserve()
    }

    /// Copies bytes of a frame to `to` by `course`.
    ///
    /// # Safety
    /// `to` is valid for writes of as many bytes as `within` has, none of which lie in this mapping. The frame is
    /// reserved and its set locked.
    pub(super) unsafe fn copy_out(&self, frame: u64, within: &Range<u32>, to: *mut u8, course: Course) {
        let from = self.frame_bytes(frame, within);
        // SAFETY: `frame_bytes` vouches for the one side, the caller for the other.
        unsafe { course.copy(to, from, within.len()) };
    }

    /// Copies `blocks` of a frame to places that are `stride` bytes from each other.
    ///
    /// # Safety
    /// Each place is valid for writes of a block, and none lies in this mapping. The frame is reserved and its set
    /// locked.
    pub(super) unsafe fn copy_blocks_out(&self, frame: u64, blocks: &Blocks, to: *mut u8, stride: isize) {
        let from = self.frame_bytes(frame, &(blocks.start as u32..blocks.end() as u32));
        let (length, count) = (blocks.length as usize, blocks.count as usize);
        // SAFETY: as in `copy_out`.
        unsafe { blocks::copy((to, stride), (from, blocks.stride as isize), length, count) };
    }

    /// Copies bytes of a frame, which is reserved, its set locked, to the end of `to`.
    pub(super) fn append_to(&self, to: &mut Vec<u8>, frame: u64, within: &Range<u32>) {
        to.reserve(within.len());
        let end = to.len();
        let room = to.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: there is room for that many bytes, outside of the mapping.
        unsafe { self.copy_out(frame, within, room, Course::ThroughCaches) };
        // SAFETY: they have just been copied there.
        unsafe { to.set_len(end + within.len()) };
    }

    /// Copies bytes from `from` into a frame.
    ///
    /// # Safety
    /// `from` is valid for reads of as many bytes as `within` has, none of which lie in this mapping. The frame
    /// is reserved and its set locked.
    pub(super) unsafe fn copy_in(&self, frame: u64, within: &Range<u32>, from: *const u8) {
        let to = self.frame_bytes(frame, within);
        // SAFETY: as in `copy_out`.
        unsafe { copy_bytes(from, to, within.len()) };
    }

    /// Copies bytes from one frame to the same position in another one. Both are reserved, their set locked.
    pub(super) fn copy_across(&self, from: u64, to: u64, within: &Range<u32>) {
        assert_ne!(from, to);
        let (from, to) = (self.frame_bytes(from, within), self.frame_bytes(to, within));
        // SAFETY: two frames do not overlap, and `frame_bytes` has checked both ranges.
        unsafe { copy_bytes(from, to, within.len()) };
    }

    /// Writes bytes of `file` from `at` on to a frame, which is reserved and being fetched by the caller.
    pub(super) fn fill(&self, frame: u64, file: &File, at: u64) -> io::Result<()> {
        let bytes = self.frame_bytes(frame, &(0..self.page()));
        // SAFETY: `frame_bytes` has checked the range, which is initialised, like all of a mapped file. Nobody reads or
        // writes the bytes of a frame before who fetches it says that it has come; a frame that another process takes
        // for one of a dead fetcher is not used again.
        let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, self.page() as usize) };
        file.read_exact_at(bytes, at)
    }

    /// Writes a page to a frame, which is reserved and being fetched by the caller.
    pub(super) fn put(&self, frame: u64, page: &[u8]) {
        let whole = 0..self.page();
        assert_eq!(page.len(), whole.len());
        // SAFETY: there are as many bytes, in no cache, as nothing borrows from it. Nobody reads or writes the bytes of
        // a frame before who fetches it says that it has come, as in `fill`.
        unsafe { copy_bytes(page.as_ptr(), self.frame_bytes(frame, &whole), page.len()) };
    }

    /// Zeroes bytes of a frame, which is reserved, its set locked.
    pub(super) fn zero(&self, frame: u64, within: &Range<u32>) {
        let at = self.frame_bytes(frame, within);
        // SAFETY: `frame_bytes` has checked the range.
        unsafe { at.write_bytes(0, within.len()) };
    }

    fn byte_map<'m>(
        &'m self,
        frame: u64,
        which: u64,
        span: &'m AtomicU64,
        record: &'m FrameRecord,
    ) -> ByteMap<'m> {
        let bytes = self.places.page / 8;
        let first = self.places.bits + frame * MAPS * bytes;
        assert!(frame < self.places.sets * self.places.ways && which < MAPS);
        let words = (bytes / 8) as usize;
        // SAFETY: there is room for the maps of every frame, aligned since a page has at least 4 KiB, used for
        // nothing but these words.
        let bits = unsafe { std::slice::from_raw_parts(self.at(first + which * bytes).cast(), words) };
        // All maps of a frame get storage together.
        let storage =
            Storage { file: &self.file, at: first, bytes: MAPS * bytes, reserved: &record.bits_reserved };
        ByteMap { span, bits, storage: Some(storage) }
    }

    /// Where bytes of a frame are; as many as `within` says can be used from there.
    fn frame_bytes(&self, frame: u64, within: &Range<u32>) -> *mut u8 {
        assert!(frame < self.places.sets * self.places.ways);
        assert!(within.start <= within.end && u64::from(within.end) <= self.places.page);
        self.at(self.frame_offset(frame) + u64::from(within.start))
    }

    fn at(&self, offset: u64) -> *mut u8 {
        assert!(offset <= self.places.end);
        // SAFETY: it does not leave the mapping, which has `end` bytes.
        unsafe { self.map.as_mut_ptr().add(offset as usize) }
    }
}

const SET_BYTES: u64 = size_of::<SetRecord>() as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_lies_on_anything_else(page in 12u32..=24, frames in 1u64..100_000, extra: u32) {
            let page = 1u64 << page;
            let capacity = frames * page + u64::from(extra) % page;
            let places = Places::of(&CacheSettings { page, capacity });
            let all = places.sets * places.ways;
            prop_assert!((1..=WAYS as u64).contains(&places.ways));
            prop_assert!(all <= frames && frames - all < places.sets);
            prop_assert!(size_of::<Header>() as u64 <= places.dirty);
            prop_assert!(places.dirty + places.sets.div_ceil(8) <= places.records);
            prop_assert!(places.records + places.sets * SET_BYTES <= places.bits);
            prop_assert!(places.bits + all * MAPS * page / 8 <= places.frames);
            prop_assert!(places.frames.is_multiple_of(page) && places.frames + all * page == places.end);
            prop_assert!(places.records.is_multiple_of(64) && places.bits.is_multiple_of(64));
        }
    }
}
