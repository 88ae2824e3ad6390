//! Writing dirty bytes back: they are copied out, sent home, and are clean when they are there.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use super::byte_map::runs;
use super::layout::FrameState;
use super::locked::{Frame, LockedSet};
use super::{Owner, PageCache, PageKey, PageNumber, PageSet, SetVersion};
use crate::error::Result;
use crate::units::FileId;

/// What became of the wish to flush a page.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum FlushState {
    /// It is up to the caller now to send the bytes home.
    Begun(Flush),
    /// The page has no dirty bytes.
    Clean,
    /// Bytes of it are being written back by a living process, perhaps by another thread of this one.
    Elsewhere(SetVersion),
}

/// Bytes on their way home: to be given to [`PageCache::finish_flush`] or [`PageCache::fail_flush`]. Who drops
/// it instead keeps all others waiting for as long as the process has the cache open.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "others wait for the flush to end"]
pub(crate) struct Flush {
    /// The page.
    pub(crate) key: PageKey,
    /// Which bytes: offset in the page and length, ascending, not touching each other.
    pub(crate) runs: Vec<(u32, u32)>,
    /// The bytes of all runs, one after the other.
    pub(crate) bytes: Vec<u8>,
    number: u64,
}

impl PageCache {
    /// Takes the dirty bytes of a page, to be written back.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked, or there is no memory.
    pub(crate) fn begin_flush(&self, key: &PageKey) -> Result<FlushState> {
        let begin = || -> io::Result<_> {
            let set = self.lock(key)?;
            let Some(frame) = set.page(key) else {
                return Ok(FlushState::Clean);
            };
            if set.is_flushing(&frame)? {
                return Ok(FlushState::Elsewhere(set.version()));
            }
            let dirty = frame.dirty();
            if dirty.is_empty() {
                return Ok(FlushState::Clean);
            }
            let number = set.next_number();
            let mut flush = Flush { key: *key, runs: Vec::new(), bytes: Vec::new(), number };
            for run in runs(dirty.hull(), |word| dirty.bits(word)) {
                flush.runs.push((run.start, run.len() as u32));
                self.memory.append_to(&mut flush.bytes, frame.number, &run);
            }
            // Before there are flushing bytes, so that these always have the right owner.
            frame.record.flusher.store(self.own.pack(), Relaxed);
            frame.record.flush_number.store(number, Relaxed);
            frame.swap_changed();
            Ok(FlushState::Begun(flush))
        };
        begin().map_err(|source| self.error("beginning to flush a page", source))
    }

    /// The bytes are at their home.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked.
    pub(crate) fn finish_flush(&self, flush: Flush) -> Result<()> {
        let finish = || -> io::Result<_> {
            let set = self.lock(&flush.key)?;
            if let Some(frame) = flushed(&set, &flush) {
                // What it brings may have been read before the bytes came home, and nothing protects them now.
                set.void_fetch(&flush.key);
                frame.flushing().clear();
                set.count_write_back();
                set.note_cleaned();
                set.note_change();
            }
            Ok(())
        };
        finish().map_err(|source| self.error("finishing the flush of a page", source))
    }

    /// The bytes did not get home, or nobody knows: they are dirty again, but for those written anew meanwhile, which
    /// are so already.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked, or there is no memory.
    pub(crate) fn fail_flush(&self, flush: Flush) -> Result<()> {
        let fail = || -> io::Result<_> {
            let set = self.lock(&flush.key)?;
            if let Some(frame) = flushed(&set, &flush) {
                set.note_change();
                // Whoever needs room tries its luck with another page first.
                set.touch(&frame);
                // Nobody's: should memory run out on the way, whoever needs the page goes on with it.
                frame.record.flusher.store(Owner::NOBODY.pack(), Relaxed);
                frame.put_back()?;
            }
            Ok(())
        };
        fail().map_err(|source| self.error("giving up the flush of a page", source))
    }

    /// The pages of a file that have bytes which are not known to be at their home, ascending.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where a set cannot be locked.
    pub(crate) fn dirty_pages(&self, file: FileId) -> Result<Vec<PageNumber>> {
        let dirty = self.all_dirty()?;
        Ok(dirty.into_iter().filter(|key| key.file == file).map(|key| key.page).collect())
    }

    /// All pages that have bytes which are not known to be at their home, by file and page, ascending.
    ///
    /// Only sets that have such pages are locked; the others cost a bit to look at.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where a set cannot be locked.
    pub(crate) fn all_dirty(&self) -> Result<Vec<PageKey>> {
        self.dirty_in(self.dirty_sets(), |_| true)
    }

    /// Those of a file's pages that have bytes which are not known to be at their home, ascending.
    ///
    /// Only sets that have such pages, of this file or another, and that one of these may be in are locked.
    ///
    /// # Errors
    /// As [`PageCache::dirty_pages`].
    pub(crate) fn dirty_among(&self, file: FileId, pages: &PageSet) -> Result<Vec<PageNumber>> {
        let words = self.memory.dirty_sets();
        // Relaxed: as above.
        let is_dirty = |set: &u32| words[*set as usize / 64].load(Relaxed) >> (set % 64) & 1 == 1;
        let wanted = |key: &PageKey| key.file == file && pages.contains(key.page);
        let dirty = match self.few_sets_of(file, pages, is_dirty) {
            Some(sets) => self.dirty_in(sets.into_iter(), wanted),
            None => self.dirty_in(self.dirty_sets(), wanted),
        };
        Ok(dirty?.into_iter().map(|key| key.page).collect())
    }

    /// The sets that have dirty pages.
    fn dirty_sets(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.memory.dirty_sets().iter().enumerate();
        // Relaxed: see `LockedSet::note_dirty`.
        words.flat_map(|(word, bits)| ones(bits.load(Relaxed)).map(move |bit| word as u32 * 64 + bit))
    }

    fn dirty_in(
        &self,
        sets: impl Iterator<Item = u32>,
        wanted: impl Fn(&PageKey) -> bool,
    ) -> Result<Vec<PageKey>> {
        let mut found = Vec::new();
        for set in sets {
            let set = self.lock_set(set).map_err(|e| self.error("looking for dirty pages", e))?;
            let pages = set.frames().filter(|f| f.record.state() == FrameState::Page && !f.is_clean());
            found.extend(pages.map(|frame| frame.record.key()).filter(&wanted));
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// The positions of the bits that are set.
fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        Some(bit)
    })
}

/// The frame of a flush, if it is still under way.
fn flushed<'c>(set: &LockedSet<'c>, flush: &Flush) -> Option<Frame<'c>> {
    set.page(&flush.key).filter(|frame| {
        frame.record.flush_number.load(Relaxed) == flush.number && !frame.flushing().is_empty()
    })
}
