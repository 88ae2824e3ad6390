//! A locked set: finding frames, making room, and what the dead have left behind.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::thread::futex;

use super::byte_map::{ByteMap, overlap, runs};
use super::layout::{Copying, FrameRecord, FrameState, SetRecord, kill_point, step, step64};
use super::memory::Memory;
use super::{Owner, PageCache, PageKey, SetVersion};
use crate::robust_mutex::{Died, Guard};

/// A set whose mutex this thread has; dropping it unlocks, and wakes who waits for what was changed.
pub(super) struct LockedSet<'c> {
    pub(super) cache: &'c PageCache,
    index: u32,
    record: &'c SetRecord,
    /// Something that others may wait for has ended.
    changed: Cell<bool>,
    /// Frames may have become clean.
    cleaned: Cell<bool>,
    guard: Option<Guard<'c>>,
}

/// A frame of a locked set.
#[derive(Clone, Copy)]
pub(super) struct Frame<'c> {
    memory: &'c Memory,
    pub(super) record: &'c FrameRecord,
    way: usize,
    /// Among all of the cache.
    pub(super) number: u64,
}

/// The answer to the wish for a frame.
pub(super) enum Room<'c> {
    /// It is free, and its bytes have storage.
    Made(Frame<'c>),
    /// This page must be flushed first.
    Crowded(PageKey),
    /// Fetches or flushes must end first.
    Busy(SetVersion),
    /// There will not be any: processes died, or nodes were lost, while the pages that could be kept here were on their
    /// way.
    None,
}

impl<'c> LockedSet<'c> {
    pub(super) fn lock(cache: &'c PageCache, index: u32) -> io::Result<LockedSet<'c>> {
        #[cfg(test)]
        LOCKED.set(LOCKED.get() + 1);
        let record = cache.memory.set(index);
        let (guard, Died(died)) = record.mutex.lock()?;
        let (changed, cleaned) = (Cell::new(died), Cell::new(died));
        let set = LockedSet { cache, index, record, changed, cleaned, guard: Some(guard) };
        // Left by one who died, or who ran out of memory on the way.
        if let Some(copying) = Copying::unpack(record.rest.copying.load(Relaxed)) {
            set.undo(copying)?;
        }
        Ok(set)
    }

    pub(super) fn frames(&self) -> impl Iterator<Item = Frame<'c>> + use<'c> {
        let (memory, index) = (&self.cache.memory, u64::from(self.index));
        let ways = memory.ways();
        self.record.frames[..ways].iter().enumerate().map(move |(way, record)| Frame {
            memory,
            record,
            way,
            number: index * ways as u64 + way as u64,
        })
    }

    /// The frame that is the page `key`.
    pub(super) fn page(&self, key: &PageKey) -> Option<Frame<'c>> {
        self.find(key, FrameState::Page)
    }

    /// Whether a living process is fetching the page.
    pub(super) fn is_coming(&self, key: &PageKey) -> io::Result<bool> {
        if self.find(key, FrameState::Fetching).is_some() {
            self.bury()?;
        }
        Ok(self.find(key, FrameState::Fetching).is_some())
    }

    /// Whether a living process is writing bytes of the frame back.
    pub(super) fn is_flushing(&self, frame: &Frame<'_>) -> io::Result<bool> {
        if !frame.flushing().is_empty() {
            self.bury()?;
        }
        Ok(!frame.flushing().is_empty())
    }

    /// A free frame; `preferred`, if it can be had, which is one of this set.
    pub(super) fn make_room(&self, preferred: Option<Frame<'c>>) -> io::Result<Room<'c>> {
        loop {
            let frames = || self.frames().filter(|frame| frame.record.state() != FrameState::Quarantined);
            let pages = || frames().filter(|frame| frame.record.state() == FrameState::Page);
            let clean = || pages().filter(Frame::is_clean);
            let stamp = |frame: &Frame<'_>| frame.record.stamp.load(Relaxed);
            let found = preferred
                .filter(Frame::is_clean)
                .or_else(|| frames().find(|frame| frame.record.state() == FrameState::Free))
                .or_else(|| clean().min_by_key(stamp));
            if let Some(frame) = found {
                self.cache.memory.reserve(frame.number, frame.record)?;
                if frame.record.state() == FrameState::Page {
                    frame.record.set_state(FrameState::Free);
                    count(&self.record.rest.evictions);
                }
                return Ok(Room::Made(frame));
            }
            if let Some(frame) = pages().filter(|frame| frame.flushing().is_empty()).min_by_key(stamp) {
                return Ok(Room::Crowded(frame.record.key()));
            }
            if self.bury()? {
                continue;
            }
            let is_lost = frames().next().is_none();
            return Ok(if is_lost { Room::None } else { Room::Busy(self.version()) });
        }
    }

    /// What to wait on, for whoever waits for something in the set as it is now.
    pub(super) fn version(&self) -> SetVersion {
        SetVersion { set: self.index, changes: self.record.rest.changes.load(Relaxed) }
    }

    /// A number that nothing in the set has had before.
    pub(super) fn next_number(&self) -> u64 {
        count(&self.record.rest.clock)
    }

    /// Makes the frame the most recently used one.
    pub(super) fn touch(&self, frame: &Frame<'_>) {
        frame.record.stamp.store(self.next_number(), Relaxed);
    }

    /// Somebody may be waiting for what has just been done.
    pub(super) fn note_change(&self) {
        self.changed.set(true);
    }

    /// To be called before a frame gets dirty bytes.
    pub(super) fn note_dirty(&self) {
        let (word, bit) = self.dirty_bit();
        if word.load(Relaxed) & bit == 0 {
            // Atomic, as other sets have their bits in the same word. Relaxed: who must see the bit has heard of the
            // write that caused it by other means.
            word.fetch_or(bit, Relaxed);
            kill_point();
        }
    }

    /// Frames may have lost their last dirty byte.
    pub(super) fn note_cleaned(&self) {
        self.cleaned.set(true);
    }

    pub(super) fn count_hit(&self) {
        count(&self.record.rest.hits);
    }

    pub(super) fn count_miss(&self) {
        count(&self.record.rest.misses);
    }

    pub(super) fn count_write_back(&self) {
        count(&self.record.rest.write_backs);
    }

    /// Does `copy`, which changes bytes of `within` in a frame that is a page, or what they are, such that nobody takes
    /// them for valid when the process dies over it, or when `copy` fails.
    pub(super) fn copying(
        &self,
        frame: &Frame<'_>,
        within: &Range<u32>,
        copy: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let note = Copying { way: frame.way, start: within.start, end: within.end };
        step64(&self.record.rest.copying, note.pack());
        copy()?;
        step64(&self.record.rest.copying, 0);
        Ok(())
    }

    /// A fetch of the page that is under way is not to become the page.
    pub(super) fn void_fetch(&self, key: &PageKey) {
        if let Some(frame) = self.find(key, FrameState::Fetching) {
            frame.record.set_state(FrameState::Void);
            self.note_change();
        }
    }

    /// Looks for fetches and flushes whose process is dead, and ends them. Whether there were any.
    fn bury(&self) -> io::Result<bool> {
        let mut found = false;
        for frame in self.frames() {
            match frame.record.state() {
                FrameState::Fetching | FrameState::Void => {
                    if !self.is_alive(&frame.record.fetcher)? {
                        // The home may still be about to write there.
                        frame.record.set_state(FrameState::Quarantined);
                        let fetcher = Owner::unpack(frame.record.fetcher.load(Relaxed));
                        self.cache.warn_of_dead_fetcher(fetcher, frame.record.key().file);
                        found = true;
                    }
                }
                FrameState::Page => {
                    if !frame.flushing().is_empty() && !self.is_alive(&frame.record.flusher)? {
                        frame.put_back()?;
                        found = true;
                    }
                }
                FrameState::Free | FrameState::Quarantined => {}
            }
        }
        if found {
            self.note_change();
        }
        Ok(found)
    }

    fn find(&self, key: &PageKey, state: FrameState) -> Option<Frame<'c>> {
        self.frames().find(|frame| frame.record.has_key(key) && frame.record.state() == state)
    }

    fn is_alive(&self, owner: &AtomicU64) -> io::Result<bool> {
        self.cache.is_alive(Owner::unpack(owner.load(Relaxed)))
    }

    /// What a copy that was cut off has touched is not valid any more, unless dirty.
    fn undo(&self, copying: Copying) -> io::Result<()> {
        let page = self.cache.page();
        if let Some(frame) = self.frames().nth(copying.way) {
            frame.invalidate(&overlap(&(copying.start..copying.end), &(0..page)))?;
        }
        step64(&self.record.rest.copying, 0);
        Ok(())
    }

    fn dirty_bit(&self) -> (&'c AtomicU64, u64) {
        (&self.cache.memory.dirty_sets()[self.index as usize / 64], 1 << (self.index % 64))
    }
}

impl Drop for LockedSet<'_> {
    fn drop(&mut self) {
        if self.cleaned.get() {
            let dirty = self.frames().any(|f| f.record.state() == FrameState::Page && !f.is_clean());
            let (word, bit) = self.dirty_bit();
            // Relaxed: as in `note_dirty`.
            let _ = if dirty { word.fetch_or(bit, Relaxed) } else { word.fetch_and(!bit, Relaxed) };
            kill_point();
        }
        let changes = &self.record.rest.changes;
        if self.changed.get() {
            step(changes, changes.load(Relaxed).wrapping_add(1));
        }
        drop(self.guard.take());
        if self.changed.get() {
            kill_point();
            let outcome = futex::wake(changes, futex::Flags::empty(), i32::MAX.unsigned_abs());
            // It fails for an address that is not mapped or not aligned only.
            debug_assert!(outcome.is_ok(), "waking who waits for a page: {outcome:?}");
        }
    }
}

impl<'c> Frame<'c> {
    pub(super) fn valid(&self) -> ByteMap<'c> {
        self.memory.valid(self.number, self.record)
    }

    pub(super) fn dirty(&self) -> ByteMap<'c> {
        self.memory.changed(self.number, self.dirty_index(), self.record)
    }

    pub(super) fn flushing(&self) -> ByteMap<'c> {
        self.memory.changed(self.number, 1 - self.dirty_index(), self.record)
    }

    /// Whether all bytes that are here are at their home, too.
    pub(super) fn is_clean(&self) -> bool {
        self.dirty().is_empty() && self.flushing().is_empty()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.valid().contains(&(0..self.memory.page()))
    }

    /// The dirty bytes become those that are being written back, of which there were none.
    pub(super) fn swap_changed(&self) {
        step(&self.record.dirty, 1 - self.dirty_index() as u32);
    }

    /// The bytes that were being written back are dirty again.
    pub(super) fn put_back(&self) -> io::Result<()> {
        let (dirty, flushing) = (self.dirty(), self.flushing());
        for run in runs(flushing.hull(), |word| flushing.bits(word)) {
            dirty.add(&run)?;
        }
        flushing.clear();
        Ok(())
    }

    /// Bytes of `within` that are neither dirty nor flushing.
    pub(super) fn unprotected(&self, within: Range<u32>) -> impl Iterator<Item = Range<u32>> + use<'c> {
        let (dirty, flushing) = (self.dirty(), self.flushing());
        runs(within, move |word| !(dirty.bits(word) | flushing.bits(word)))
    }

    /// Bytes of `within` that are neither dirty nor flushing are not valid any more.
    pub(super) fn invalidate(&self, within: &Range<u32>) -> io::Result<()> {
        let valid = self.valid();
        self.unprotected(within.clone()).try_for_each(|run| valid.remove(&run))
    }

    fn dirty_index(&self) -> usize {
        (self.record.dirty.load(Relaxed) & 1) as usize
    }
}

/// Counts one more; gives the new number. Only under the set's mutex.
fn count(counter: &AtomicU64) -> u64 {
    let number = counter.load(Relaxed) + 1;
    counter.store(number, Relaxed);
    number
}

#[cfg(test)]
thread_local! {
    /// How often this thread has locked a set.
    pub(super) static LOCKED: Cell<u64> = const { Cell::new(0) };
}
