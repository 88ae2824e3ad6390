//! Dropping what is too old, gone, or cut off.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use super::layout::FrameState;
use super::locked::{Frame, LockedSet};
use super::{PageCache, PageKey, PageNumber, PageSet, SetVersion};
use crate::error::Result;
use crate::units::FileId;

/// What became of bytes that were given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Discarded {
    /// Some of them were dirty, and are lost.
    Dirty,
    /// None of them was dirty.
    Nothing,
    /// Nothing was done: some of them are being written back.
    Busy(SetVersion),
}

impl PageCache {
    /// Drops those of `pages` of a file for which `keep` says no, but for their dirty bytes and those that are being
    /// written back. `keep` is told the version with which the page was fetched; `None` where it never was,
    /// or is being fetched now: such a fetch is discarded when it ends. It costs something only for sets that these pages
    /// are in.
    ///
    /// `keep` must not use the cache.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where a set cannot be locked, or there is no memory; some pages may have been
    /// dropped.
    pub(crate) fn retain(
        &self,
        file: FileId,
        pages: &PageSet,
        mut keep: impl FnMut(PageNumber, Option<u64>) -> bool,
    ) -> Result<()> {
        self.visit(self.sets_of(file, pages), |set, frame, key| {
            // A frame that is neither page nor fetch is not visited.
            let version = frame.record.version().filter(|_| frame.record.state() == FrameState::Page);
            let is_meant = key.file == file && pages.contains(key.page);
            if is_meant && !keep(key.page, version) { set.expire(frame) } else { Ok(()) }
        })
        .map_err(|source| self.error("dropping old pages", source))
    }

    /// Drops pages of a file, but for their dirty bytes and those that are being written back. Fetches of them that are
    /// under way are discarded when they end. It costs something only for sets that these pages are in.
    ///
    /// # Errors
    /// As [`PageCache::retain`].
    pub(crate) fn expire(&self, file: FileId, pages: &PageSet) -> Result<()> {
        self.visit(self.sets_of(file, pages), |set, frame, key| {
            if key.file == file && pages.contains(key.page) { set.expire(frame) } else { Ok(()) }
        })
        .map_err(|source| self.error("dropping old pages", source))
    }

    /// The same for all pages of all files.
    ///
    /// # Errors
    /// As [`PageCache::retain`].
    pub(super) fn expire_all(&self) -> Result<()> {
        self.visit(self.all_sets(), |set, frame, _| set.expire(frame))
            .map_err(|source| self.error("dropping old pages", source))
    }

    /// Drops all pages of a file, dirty bytes too. Fetches under way are discarded when they end; of a flush
    /// under way the end is not of interest any more, but its bytes may still come home.
    ///
    /// # Errors
    /// As [`PageCache::retain`].
    pub(crate) fn forget(&self, file: FileId) -> Result<()> {
        self.visit(self.all_sets(), |set, frame, key| {
            if key.file == file {
                set.drop_frame(frame);
            }
            Ok(())
        })
        .map_err(|source| self.error("forgetting a file's pages", source))
    }

    /// Drops the bytes `within` of a page, dirty ones too: they are not to come home any more, and are fetched anew by
    /// whoever reads them.
    ///
    /// # Errors
    /// As [`PageCache::retain`].
    pub(crate) fn discard(&self, key: &PageKey, within: &Range<u32>) -> Result<Discarded> {
        self.check(within);
        let discard = || -> io::Result<_> {
            let set = self.lock(key)?;
            let Some(frame) = set.page(key) else { return Ok(Discarded::Nothing) };
            if frame.flushing().intersects(within) && set.is_flushing(&frame)? {
                return Ok(Discarded::Busy(set.version()));
            }
            let were_dirty = frame.dirty().intersects(within);
            set.copying(&frame, within, || {
                frame.dirty().remove(within)?;
                frame.valid().remove(within)
            })?;
            set.note_cleaned();
            set.note_change();
            Ok(if were_dirty { Discarded::Dirty } else { Discarded::Nothing })
        };
        discard().map_err(|source| self.error("giving up bytes of a page", source))
    }

    /// Drops all bytes of a file from `size` on, dirty ones too. Fetches under way of pages that these are in are
    /// discarded when they end.
    ///
    /// The page that holds the end keeps its bytes before it. Behind them it has zeros if it was all here.
    ///
    /// # Errors
    /// As [`PageCache::retain`].
    pub(crate) fn truncate(&self, file: FileId, size: u64) -> Result<()> {
        let bytes = u64::from(self.page());
        let (last, cut) = (PageNumber(size / bytes), (size % bytes) as u32);
        self.visit(self.all_sets(), |set, frame, key| {
            let page = key.page;
            if key.file != file {
                return Ok(());
            }
            if page > last || page == last && cut == 0 {
                set.drop_frame(frame);
            } else if page == last && frame.record.state() == FrameState::Page {
                let (whole, gone) = (frame.is_whole(), cut..self.page());
                set.copying(frame, &gone, || {
                    frame.dirty().remove(&gone)?;
                    frame.flushing().remove(&gone)?;
                    frame.valid().remove(&gone)?;
                    if whole {
                        self.memory.zero(frame.number, &gone);
                        frame.valid().add(&gone)?;
                    }
                    Ok(())
                })?;
                set.note_cleaned();
            } else if page == last {
                set.drop_frame(frame);
            }
            Ok(())
        })
        .map_err(|source| self.error("truncating a file's pages", source))
    }

    /// Calls `change` with each frame in some sets that is a page, or to which one is fetched.
    fn visit(
        &self,
        sets: impl Iterator<Item = u32>,
        mut change: impl FnMut(&LockedSet<'_>, &Frame<'_>, PageKey) -> io::Result<()>,
    ) -> io::Result<()> {
        for index in sets {
            // Relaxed: who has a page dropped has heard that it was used, if that matters, by other means.
            if self.memory.set(index).rest.clock.load(Relaxed) == 0 {
                continue;
            }
            let set = self.lock_set(index)?;
            for frame in set.frames() {
                if matches!(frame.record.state(), FrameState::Page | FrameState::Fetching) {
                    change(&set, &frame, frame.record.key())?;
                }
            }
        }
        Ok(())
    }

    fn all_sets(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.memory.sets()
    }
}

impl LockedSet<'_> {
    /// Drops what is in the frame, which is a page or fetched to, but for bytes that are not home.
    fn expire(&self, frame: &Frame<'_>) -> io::Result<()> {
        self.void_fetch(&frame.record.key());
        match frame.record.state() {
            FrameState::Page if frame.is_clean() => self.free(frame),
            FrameState::Page => {
                frame.record.set_version(None);
                frame.invalidate(&(0..self.cache.page()))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What is in the frame is no page any more, now or when its fetch ends.
    fn drop_frame(&self, frame: &Frame<'_>) {
        match frame.record.state() {
            FrameState::Page => self.free(frame),
            _ => self.void_fetch(&frame.record.key()),
        }
    }

    fn free(&self, frame: &Frame<'_>) {
        frame.record.set_state(FrameState::Free);
        self.note_cleaned();
        self.note_change();
    }
}
