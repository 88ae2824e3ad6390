//! Reading and writing bytes of cached pages.

use std::io;
use std::ops::Range;

use super::byte_map::runs;
use super::layout::FrameState;
use super::locked::{Frame, LockedSet, Room};
use super::{PageCache, PageKey, SetVersion};
use crate::blocks::Blocks;
use crate::copying::Course;
use crate::error::Result;

/// What became of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum ReadOutcome {
    /// The bytes have been copied.
    Copied,
    /// Not all of them are here.
    Missing,
    /// Not all of them are here, but a living process is fetching the page.
    Coming(SetVersion),
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum WriteOutcome {
    /// The bytes are in the cache, dirty.
    Cached,
    /// Nothing was done: there is room once this page has been flushed.
    Crowded(PageKey),
    /// Nothing was done: there may be room once a fetch or flush of another has ended.
    Busy(SetVersion),
    /// Nothing was done, and there will not be room: all frames of the set are lost to fetches whose processes died.
    NoRoom,
}

/// What became of an overwrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Overwrite {
    /// The cache agrees with the bytes. With the version that the page had before; `None` where it had none.
    Done(Option<u64>),
    /// Nothing was done: bytes of the range are being written back.
    Busy(SetVersion),
}

impl PageCache {
    /// Copies bytes `within` of a page to `to`, by `course`, if all of them are here.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked.
    ///
    /// # Panics
    /// Where `within` is empty or passes the page's end; likewise below.
    ///
    /// # Safety
    /// `to` is valid for writes of as many bytes as `within` has, none of which lie in the cache.
    pub(crate) unsafe fn read(
        &self,
        key: &PageKey,
        within: Range<u32>,
        to: *mut u8,
        course: Course,
    ) -> Result<ReadOutcome> {
        self.check(&within);
        let read = || -> io::Result<_> {
            let set = self.lock(key)?;
            // SAFETY: the caller vouches for `to`.
            if unsafe { copy_out(&set, key, &within, to, course) } {
                return Ok(ReadOutcome::Copied);
            }
            Ok(if set.is_coming(key)? { ReadOutcome::Coming(set.version()) } else { ReadOutcome::Missing })
        };
        read().map_err(|source| self.error("reading a cached page", source))
    }

    /// Copies `blocks` of a page, counted from its beginning, to places that are `stride` bytes from each other, if all
    /// of the page from the first block to the last is here. Whether it is.
    ///
    /// # Errors
    /// As [`PageCache::read`].
    ///
    /// # Safety
    /// Each place is valid for writes of a block, and none lies in the cache.
    pub(crate) unsafe fn read_blocks(
        &self,
        key: &PageKey,
        blocks: &Blocks,
        to: *mut u8,
        stride: isize,
    ) -> Result<bool> {
        let within = blocks.start as u32..blocks.end() as u32;
        self.check(&within);
        let set = self.lock(key).map_err(|source| self.error("reading a cached page", source))?;
        let Some(frame) = set.page(key).filter(|frame| frame.valid().contains(&within)) else {
            return Ok(false);
        };
        // SAFETY: the caller vouches for the places; a frame that is a page has storage.
        unsafe { self.memory.copy_blocks_out(frame.number, blocks, to, stride) };
        set.touch(&frame);
        set.count_hit();
        Ok(true)
    }

    /// The bytes of `within` that are here, each run with its place in the page.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked.
    pub(crate) fn valid_bytes(&self, key: &PageKey, within: &Range<u32>) -> Result<Vec<(u32, Vec<u8>)>> {
        self.check(within);
        let set = self.lock(key).map_err(|source| self.error("reading a cached page", source))?;
        let Some(frame) = set.page(key) else { return Ok(Vec::new()) };
        let valid = frame.valid();
        let copy = |run: Range<u32>| {
            let mut bytes = Vec::new();
            self.memory.append_to(&mut bytes, frame.number, &run);
            (run.start, bytes)
        };
        Ok(runs(within.clone(), |word| valid.bits(word)).map(copy).collect())
    }

    /// Copies bytes from `from` to the bytes `within` of a page, where they stay, dirty, until they are flushed.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked, or there is no memory.
    ///
    /// # Safety
    /// `from` is valid for reads of as many bytes as `within` has, none of which lie in the cache.
    pub(crate) unsafe fn write(
        &self,
        key: &PageKey,
        within: Range<u32>,
        from: *const u8,
    ) -> Result<WriteOutcome> {
        self.check(&within);
        let write = || -> io::Result<_> {
            let set = self.lock(key)?;
            if let Some(frame) = set.page(key) {
                set.copying(&frame, &within, || {
                    // SAFETY: the caller vouches for `from`; a frame that is a page has storage.
                    unsafe { self.memory.copy_in(frame.number, &within, from) };
                    frame.valid().add(&within)?;
                    set.note_dirty();
                    frame.dirty().add(&within)
                })?;
                set.touch(&frame);
                return Ok(WriteOutcome::Cached);
            }
            Ok(match set.make_room(None)? {
                Room::Made(frame) => {
                    begin_page(&frame, key, &within);
                    // SAFETY: the caller vouches for `from`; `make_room` has given the frame storage.
                    unsafe { self.memory.copy_in(frame.number, &within, from) };
                    set.note_dirty();
                    frame.dirty().set(&within);
                    set.touch(&frame);
                    frame.record.set_state(FrameState::Page);
                    WriteOutcome::Cached
                }
                Room::Crowded(victim) => WriteOutcome::Crowded(victim),
                Room::Busy(version) => WriteOutcome::Busy(version),
                Room::None => WriteOutcome::NoRoom,
            })
        };
        write().map_err(|source| self.error("writing to a cached page", source))
    }

    /// Brings the cache into agreement with bytes that are about to go home past it: where the page is here, it has
    /// these bytes from now on. What is dirty stays so: until they are home, the page must not be fetched anew
    /// without them. [`PageCache::overwrite`] is to follow, with the version that this tells.
    ///
    /// # Errors
    /// As [`PageCache::overwrite`].
    ///
    /// # Safety
    /// As of [`PageCache::overwrite`].
    pub(crate) unsafe fn announce_overwrite(
        &self,
        key: &PageKey,
        within: Range<u32>,
        from: *const u8,
    ) -> Result<Overwrite> {
        // SAFETY: the caller's promise.
        unsafe { self.put_over(key, within, from, None) }
    }

    /// Brings the cache into agreement with bytes that went home past it: where the page is here, it has these bytes
    /// from now on, not dirty, so that no older ones are written over them. Whoever fetched the page since
    /// [`PageCache::announce_overwrite`], which told the version `announced`, may have got the old ones, or newer ones:
    /// the page has no version then.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked, or there is no memory.
    ///
    /// # Safety
    /// `from` is valid for reads of as many bytes as `within` has, none of which lie in the cache.
    pub(crate) unsafe fn overwrite(
        &self,
        key: &PageKey,
        within: Range<u32>,
        from: *const u8,
        announced: Option<u64>,
    ) -> Result<Overwrite> {
        // SAFETY: the caller's promise.
        unsafe { self.put_over(key, within, from, Some(announced)) }
    }

    /// `home`: the bytes are there, and the version that was announced before.
    ///
    /// # Safety
    /// As of [`PageCache::overwrite`].
    unsafe fn put_over(
        &self,
        key: &PageKey,
        within: Range<u32>,
        from: *const u8,
        home: Option<Option<u64>>,
    ) -> Result<Overwrite> {
        self.check(&within);
        let overwrite = || -> io::Result<_> {
            let set = self.lock(key)?;
            let page = set.page(key);
            if let Some(frame) = &page
                && frame.flushing().intersects(&within)
                && set.is_flushing(frame)?
            {
                return Ok(Overwrite::Busy(set.version()));
            }
            set.void_fetch(key);
            let before = page.as_ref().and_then(|frame| frame.record.version());
            if let Some(frame) = &page {
                set.copying(frame, &within, || {
                    // SAFETY: the caller vouches for `from`; a frame that is a page has storage.
                    unsafe { self.memory.copy_in(frame.number, &within, from) };
                    frame.valid().add(&within)?;
                    let Some(announced) = home else { return Ok(()) };
                    // Others' changes may have come home after these bytes, and a fetch since may have brought them,
                    // and a version that counts them: the page is not as new as that. The version of before counts
                    // none.
                    if before != announced {
                        frame.record.set_version(None);
                    }
                    set.note_cleaned();
                    frame.dirty().remove(&within)
                })?;
                set.touch(frame);
            }
            Ok(Overwrite::Done(before))
        };
        overwrite().map_err(|source| self.error("updating a cached page", source))
    }
}

/// Copies bytes of a page out, if they are all here.
///
/// # Safety
/// As of [`PageCache::read`].
pub(super) unsafe fn copy_out(
    set: &LockedSet<'_>,
    key: &PageKey,
    within: &Range<u32>,
    to: *mut u8,
    course: Course,
) -> bool {
    match set.page(key) {
        Some(frame) if frame.valid().contains(within) => {
            // SAFETY: the caller vouches for `to`; a frame that is a page has storage.
            unsafe { set.cache.memory.copy_out(frame.number, within, to, course) };
            set.touch(&frame);
            set.count_hit();
            true
        }
        _ => false,
    }
}

/// Prepares a free frame for being a page with these valid bytes.
pub(super) fn begin_page(frame: &Frame<'_>, key: &PageKey, valid: &Range<u32>) {
    frame.record.set_key(key);
    frame.record.set_version(None);
    frame.dirty().clear();
    frame.flushing().clear();
    frame.valid().set(valid);
}
