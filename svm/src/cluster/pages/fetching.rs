//! Reading by way of the cache: pages that are not there are asked for, several messages at a time.

use std::collections::VecDeque;
use std::ops::Range;

use crate::cache::{Fetch, FetchTicket, Fetched, PageCache, PageNumber, ReadOutcome, warn_of_lost_frames};
use crate::cluster::natively::Fetching;
use crate::cluster::wire::{Reply, Request};
use crate::cluster::{Asked, NodeIndex, SharedFile};
use crate::copying::Course;
use crate::error::{Error, Result};
use crate::units::SegmentIndex;

use super::{Obstacles, Overcome, UNDER_WAY, overlap, pages};

/// How many pages an access looks at before it turns to the next ones.
const PAGES_AT_ONCE: u64 = 256;

/// Pages that were asked for together.
pub(in crate::cluster) struct Asking {
    pub(in crate::cluster) asked: Asked,
    pub(in crate::cluster) tickets: Vec<FetchTicket>,
    pub(in crate::cluster) coming: Coming,
}

/// How pages come that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) enum Coming {
    /// They are in their frames by the answer.
    IntoCache,
    /// They are behind the answer, since nobody can write into the cache.
    WithAnswer,
}

impl Coming {
    /// Has pages be in their frames, of which the answer is `reply`, followed by `data`; their versions, where it is
    /// one to the question.
    pub(in crate::cluster) fn take(
        self,
        cache: &PageCache,
        tickets: &[FetchTicket],
        reply: &Reply,
        data: &[u8],
    ) -> Option<Vec<u64>> {
        let Reply::Fetched { versions } = reply else { return None };
        let page = cache.page() as usize;
        let expected = if self == Coming::WithAnswer { tickets.len() * page } else { 0 };
        if versions.len() != tickets.len() || data.len() != expected {
            return None;
        }
        tickets.iter().zip(data.chunks_exact(page)).for_each(|(ticket, page)| cache.put(ticket, page));
        Some(versions.clone())
    }

    /// Whether a home that was asked, and is cut off, may write to the frames when it is back.
    pub(in crate::cluster) fn is_written_after(self, error: &Error) -> bool {
        self == Coming::IntoCache && matches!(error, Error::Fabric { .. })
    }
}

/// Where the bytes of a range go, and how those that are in the cache do.
#[derive(Clone, Copy)]
struct Destination {
    start: *mut u8,
    course: Course,
}

impl SharedFile {
    /// Reads `length` bytes from position `within` of segment `index`, whose home is `node`.
    ///
    /// # Safety
    /// `to` is valid for writes of `length` bytes.
    pub(in crate::cluster) unsafe fn read_cached(
        &self,
        node: NodeIndex,
        index: SegmentIndex,
        within: u64,
        to: *mut u8,
        length: usize,
    ) -> Result<()> {
        let start = self.attachment().segment_size().start_of(index).0 + within;
        let (end, step) = (start + length as u64, PAGES_AT_ONCE * u64::from(self.cache().page()));
        let course = Course::out_of_file(length as u64, length as u64);
        let mut at = start;
        while at < end {
            let until = (at / step + 1).saturating_mul(step).min(end);
            // SAFETY: the caller vouches for `to`; the part lies within.
            let to = Destination { start: unsafe { to.add((at - start) as usize) }, course };
            // SAFETY: likewise.
            unsafe { self.read_pages(node, at..until, to) }?;
            at = until;
        }
        Ok(())
    }

    /// # Safety
    /// `to` is valid for writes of as many bytes as `range` has.
    unsafe fn read_pages(&self, node: NodeIndex, range: Range<u64>, to: Destination) -> Result<()> {
        let (cache, mut fetching) = (self.cache(), Fetching::from(node));
        let mut open: Vec<PageNumber> = pages(&range, cache).collect();
        let mut under_way: VecDeque<Asking> = VecDeque::new();
        loop {
            let mut obstacles = Obstacles::default();
            let mut tickets = Vec::new();
            let mut failed = None;
            open.retain(|page| {
                if failed.is_some() || under_way.len() >= UNDER_WAY {
                    return true;
                }
                // SAFETY: the caller vouches for `to`.
                let taken = unsafe { self.take_or_begin(*page, &range, to, &mut tickets, &mut obstacles) };
                match taken {
                    Ok(is_dealt_with) => {
                        if tickets.len() >= self.pages_per_message() {
                            let asking = self.begin_pages(&mut fetching, std::mem::take(&mut tickets));
                            asking.map_or_else(|e| failed = Some(e), |asking| under_way.push_back(asking));
                        }
                        !is_dealt_with
                    }
                    Err(error) => {
                        failed = Some(error);
                        true
                    }
                }
            });
            if !tickets.is_empty() {
                let asking = self.begin_pages(&mut fetching, tickets);
                asking.map_or_else(|e| failed = Some(e), |asking| under_way.push_back(asking));
            }
            if obstacles.are_any() {
                fetching.hold_up();
            }
            if let Some(error) = failed {
                under_way.into_iter().for_each(|asking| self.give_up(asking));
                return Err(error);
            }
            if let Some(asking) = under_way.pop_front() {
                // SAFETY: the caller vouches for `to`.
                let again = unsafe { self.take_answer(asking, &range, to.start) };
                match again {
                    Ok(again) if again.is_empty() => {}
                    Ok(again) => {
                        fetching.hold_up();
                        open.extend(again);
                    }
                    Err(error) => {
                        under_way.into_iter().for_each(|asking| self.give_up(asking));
                        return Err(error);
                    }
                }
            } else if open.is_empty() {
                self.end_pages(&fetching);
                return Ok(());
            } else if let Overcome::NoRoomFor(page) = self.overcome(&obstacles)? {
                // SAFETY: the caller vouches for `to`.
                unsafe { self.read_past(node, page, &range, to.start) }?;
                open.retain(|other| *other != page);
            }
        }
    }

    /// Copies a page's part of `range` if it is here, or begins to fetch the page. Says whether either was done.
    ///
    /// # Safety
    /// `to` is valid for writes of as many bytes as `range` has.
    unsafe fn take_or_begin(
        &self,
        page: PageNumber,
        range: &Range<u64>,
        to: Destination,
        tickets: &mut Vec<FetchTicket>,
        obstacles: &mut Obstacles,
    ) -> Result<bool> {
        let (cache, key) = (self.cache(), self.key(page));
        let (within, at) = overlap(page, range, cache);
        // SAFETY: the caller vouches for `to`; `at` and the part's length lie within the range.
        match unsafe { cache.read(&key, within, to.start.add(at), to.course) }? {
            ReadOutcome::Copied => return Ok(true),
            ReadOutcome::Coming(version) => obstacles.changing = Some(version),
            ReadOutcome::Missing => match cache.begin_fetch(&key)? {
                Fetch::Begun(ticket) => {
                    tickets.push(ticket);
                    return Ok(true);
                }
                Fetch::Present => {}
                Fetch::Coming(version) | Fetch::Busy(version) => obstacles.changing = Some(version),
                Fetch::Crowded(victim) => obstacles.no_room(page, Some(victim)),
                Fetch::NoRoom => obstacles.no_room(page, None),
            },
        }
        Ok(false)
    }

    /// Waits for pages that were asked for and copies what `range` has of them; returns those that have to be asked
    /// for again.
    ///
    /// # Safety
    /// `to` is valid for writes of as many bytes as `range` has.
    unsafe fn take_answer(&self, asking: Asking, range: &Range<u64>, to: *mut u8) -> Result<Vec<PageNumber>> {
        let Asking { asked, tickets, coming } = asking;
        let mut versions = None;
        let answer = self.cluster().wait(asked, &mut |reply, data| {
            versions = coming.take(self.cache(), &tickets, reply, data);
        });
        let out_of_place = || self.cluster().context().out_of_place(self.own_node());
        let answer = answer.and_then(|_| versions.ok_or_else(out_of_place));
        let versions = match answer {
            Ok(versions) => versions,
            Err(error) => {
                self.abandon(tickets, coming, &error);
                return Err(error);
            }
        };
        let cache = self.cache();
        let mut again = Vec::new();
        let mut fetched = tickets.into_iter().zip(versions);
        while let Some((ticket, version)) = fetched.next() {
            let page = ticket.key.page;
            let (within, at) = overlap(page, range, cache);
            // SAFETY: the caller vouches for `to`; `at` and the part's length lie within the range.
            match unsafe { cache.finish_fetch_into(ticket, version, within, to.add(at)) } {
                Ok(Fetched::Kept) => {}
                Ok(Fetched::Discarded) => again.push(page),
                Err(error) => {
                    fetched.for_each(|(ticket, _)| self.abandon_one(ticket, false));
                    return Err(error);
                }
            }
        }
        Ok(again)
    }

    /// Has `node` write pages into the cache, or send them.
    pub(in crate::cluster) fn ask_for(&self, node: NodeIndex, tickets: Vec<FetchTicket>) -> Result<Asking> {
        if let Err(error) = self.cluster().check_home(node) {
            // It is asked for nothing, so it writes nothing: no frame is lost to it by those who try again and again.
            tickets.into_iter().for_each(|ticket| self.abandon_one(ticket, false));
            return Err(error);
        }
        let (file, page, coming) = (self.file(), self.cache().page(), self.cluster().coming());
        let part = |ticket: &FetchTicket| self.part(ticket.key.page, &(0..page));
        let place = |ticket: &FetchTicket| (part(ticket), ticket.offset);
        let request = match coming {
            Coming::IntoCache => Request::Fetch { file, pages: tickets.iter().map(place).collect() },
            Coming::WithAnswer => Request::Pages { file, pages: tickets.iter().map(part).collect() },
        };
        match self.cluster().begin(node, &request, &[]) {
            Ok(asked) => Ok(Asking { asked, tickets, coming }),
            Err(error) => {
                self.abandon(tickets, coming, &error);
                Err(error)
            }
        }
    }

    /// After a failure: the other pages that were asked for are not wanted any more.
    fn give_up(&self, asking: Asking) {
        let answer = self.cluster().wait(asking.asked, &mut |_, _| {});
        match answer {
            Ok(_) => asking.tickets.into_iter().for_each(|ticket| self.abandon_one(ticket, false)),
            Err(error) => self.abandon(asking.tickets, asking.coming, &error),
        }
    }

    /// Gives up pages that could not be had because of `error`.
    pub(in crate::cluster) fn abandon(&self, tickets: Vec<FetchTicket>, coming: Coming, error: &Error) {
        // A node that answers has ended writing. One that is cut off may go on when it is back.
        let still_written = coming.is_written_after(error);
        if still_written && !tickets.is_empty() {
            warn_of_lost_frames(self.cluster().store().node(), self.file(), &error.to_string());
        }
        tickets.into_iter().for_each(|ticket| self.abandon_one(ticket, still_written));
    }

    pub(in crate::cluster) fn abandon_one(&self, ticket: FetchTicket, still_written: bool) {
        if let Err(e) = self.cache().abandon_fetch(ticket, still_written) {
            tracing::warn!("a page of the cache is lost: {e}");
        }
    }
}
