//! Fetching pages: a home writes a page into a frame of its own, which then becomes the page.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use super::access::{begin_page, copy_out};
use super::layout::FrameState;
use super::locked::{Frame, LockedSet, Room};
use super::{PageCache, PageKey, SetVersion};
use crate::copying::Course;
use crate::error::Result;

/// What became of the wish to fetch a page.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Fetch {
    /// It is up to the caller now to have the page written to the frame.
    Begun(FetchTicket),
    /// A living process is fetching the page.
    Coming(SetVersion),
    /// All of the page is here.
    Present,
    /// There is room once this page has been flushed. It may be the very page that is to be fetched.
    Crowded(PageKey),
    /// There may be room once a fetch or flush of another has ended.
    Busy(SetVersion),
    /// There will not be room: all frames of the set are lost to fetches whose processes died.
    NoRoom,
}

/// A fetch under way: to be given to [`PageCache::finish_fetch`] or [`PageCache::abandon_fetch`]. Who drops it
/// instead keeps all others waiting for as long as the process has the cache open.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "others wait for the fetch to end"]
pub(crate) struct FetchTicket {
    /// The page.
    pub(crate) key: PageKey,
    /// Where the page is to be written, in bytes from the beginning of the cache's file.
    pub(crate) offset: u64,
    frame: u64,
    number: u64,
}

/// What became of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Fetched {
    /// The page is here, all of it.
    Kept,
    /// Something happened meanwhile that may have made what was fetched too old: it has been thrown away.
    Discarded,
}

impl PageCache {
    /// Begins to fetch a page, unless it is here or on its way.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked, or there is no memory.
    pub(crate) fn begin_fetch(&self, key: &PageKey) -> Result<Fetch> {
        let begin = || -> io::Result<_> {
            let set = self.lock(key)?;
            let page = set.page(key);
            if page.as_ref().is_some_and(Frame::is_whole) {
                return Ok(Fetch::Present);
            }
            if set.is_coming(key)? {
                return Ok(Fetch::Coming(set.version()));
            }
            // What there is of the page, if all of it is at the home, is not needed.
            Ok(match set.make_room(page)? {
                Room::Made(frame) => {
                    let number = set.next_number();
                    frame.record.set_key(key);
                    frame.record.fetcher.store(self.own.pack(), Relaxed);
                    frame.record.fetch_number.store(number, Relaxed);
                    frame.record.set_state(FrameState::Fetching);
                    set.count_miss();
                    let offset = self.memory.frame_offset(frame.number);
                    Fetch::Begun(FetchTicket { key: *key, offset, frame: frame.number, number })
                }
                Room::Crowded(victim) => Fetch::Crowded(victim),
                Room::Busy(version) => Fetch::Busy(version),
                Room::None => Fetch::NoRoom,
            })
        };
        begin().map_err(|source| self.error("beginning to fetch a page", source))
    }

    /// Whether a page is here, if only in part, or on its way.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked.
    pub(crate) fn has(&self, key: &PageKey) -> Result<bool> {
        let look = || -> io::Result<_> {
            let set = self.lock(key)?;
            Ok(set.page(key).is_some() || set.is_coming(key)?)
        };
        look().map_err(|source| self.error("looking for a cached page", source))
    }

    /// Writes the page to the frame of a fetch that this process has begun: bytes of `file` from `at` on.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the file cannot be read, or ends too early.
    pub(crate) fn fill(&self, ticket: &FetchTicket, file: &File, at: u64) -> Result<()> {
        let filled = self.memory.fill(ticket.frame, file, at);
        filled.map_err(|source| self.error("filling a page", source))
    }

    /// Writes the page to the frame of a fetch that this process has begun.
    ///
    /// # Panics
    /// Where it is no whole page.
    pub(crate) fn put(&self, ticket: &FetchTicket, page: &[u8]) {
        self.memory.put(ticket.frame, page);
    }

    /// The page has been written to the frame, all of it, and nothing writes there any more. `version` is that
    /// of the segment when the home read the page.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked, or there is no memory.
    pub(crate) fn finish_fetch(&self, ticket: FetchTicket, version: u64) -> Result<Fetched> {
        self.finish(&ticket, version, |_| ())
    }

    /// As [`PageCache::finish_fetch`], and if the page has been kept, copies bytes `within` of it to `to` before
    /// anybody can take the frame for another page: in a cache of few frames readers would else not get on.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// `to` is valid for writes of as many bytes as `within` has, none of which lie in the cache.
    pub(crate) unsafe fn finish_fetch_into(
        &self,
        ticket: FetchTicket,
        version: u64,
        within: Range<u32>,
        to: *mut u8,
    ) -> Result<Fetched> {
        self.check(&within);
        self.finish(&ticket, version, |set| {
            // SAFETY: the caller vouches for `to`.
            let copied = unsafe { copy_out(set, &ticket.key, &within, to, Course::ThroughCaches) };
            debug_assert!(copied, "a fetched page is whole");
        })
    }

    /// The fetch has failed. `still_written` says that the home may nevertheless write to the frame at some later
    /// time: then it is not used again.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where the set cannot be locked.
    pub(crate) fn abandon_fetch(&self, ticket: FetchTicket, still_written: bool) -> Result<()> {
        let abandon = || -> io::Result<_> {
            let set = self.lock(&ticket.key)?;
            if let Some(frame) = fetched(&set, &ticket) {
                let state = if still_written { FrameState::Quarantined } else { FrameState::Free };
                frame.record.set_state(state);
                set.note_change();
            }
            Ok(())
        };
        abandon().map_err(|source| self.error("abandoning the fetch of a page", source))
    }

    fn finish(
        &self,
        ticket: &FetchTicket,
        version: u64,
        kept: impl FnOnce(&LockedSet<'_>),
    ) -> Result<Fetched> {
        let finish = || -> io::Result<_> {
            let set = self.lock(&ticket.key)?;
            let Some(frame) = fetched(&set, ticket) else {
                return Ok(Fetched::Discarded);
            };
            set.note_change();
            if frame.record.state() == FrameState::Void {
                frame.record.set_state(FrameState::Free);
                return Ok(Fetched::Discarded);
            }
            let whole = 0..self.page();
            match set.page(&ticket.key) {
                None => {
                    begin_page(&frame, &ticket.key, &whole);
                    frame.record.set_version(Some(version));
                    set.touch(&frame);
                    frame.record.set_state(FrameState::Page);
                }
                Some(page) => {
                    set.copying(&page, &whole, || {
                        for run in page.unprotected(whole.clone()) {
                            self.memory.copy_across(frame.number, page.number, &run);
                        }
                        // Before the page becomes valid, so that a death leaves no frame to be quarantined.
                        frame.record.set_state(FrameState::Free);
                        // Bytes on their way home are kept, and may have come there before changes by others that
                        // the version counts: then the page is not as new as that.
                        let is_as_new = page.flushing().is_empty();
                        page.record.set_version(is_as_new.then_some(version));
                        page.valid().set(&whole);
                        Ok(())
                    })?;
                    set.touch(&page);
                }
            }
            kept(&set);
            Ok(Fetched::Kept)
        };
        finish().map_err(|source| self.error("finishing the fetch of a page", source))
    }
}

/// The frame of a fetch, if it is still one.
fn fetched<'c>(set: &LockedSet<'c>, ticket: &FetchTicket) -> Option<Frame<'c>> {
    set.frames().find(|frame| {
        frame.number == ticket.frame
            && matches!(frame.record.state(), FrameState::Fetching | FrameState::Void)
            && frame.record.fetch_number.load(Relaxed) == ticket.number
    })
}
