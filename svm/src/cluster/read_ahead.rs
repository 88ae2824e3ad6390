//! Fetching pages before they are asked for.
//!
//! Who reads one range after the other, or ranges at one distance, will probably go on: the pages that come next are
//! fetched while he works with those that he has. The window doubles with each access that was foreseen, up to
//! [`MOST`], and closes with the first that was not. Where another node's segments begin it ends, but for [`NEAR`], until
//! the reader goes on there: many read just what one node wrote. Nothing is written home to make room for it.
//!
//! What was asked for ahead is taken by a thread of its own, so that the other processes of the node, who may wait for
//! the same pages, do not depend on when the one that asked calls again.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use svmio_transport::back_end::Service;

use crate::attachment::Home;
use crate::cache::{Fetch, FetchTicket, PageCache, PageNumber, warn_of_lost_frames};
use crate::error::{Error, Result};
use crate::units::FileOffset;

use super::client::Question;
use super::wire::{LONGEST_DATA, Reply};
use super::{Asked, Context, NodeIndex, SharedFile};

/// The most bytes that are fetched ahead of short accesses: what the fastest networks move in the time that a page
/// takes to come.
const MOST: u64 = 4 << 20;

/// The most that are fetched ahead of long ones, if all processes of the node can have as much in a quarter of the
/// cache. What is under way when one of them ends has to last until the next one asks for more.
const MOST_OF_LONG: u64 = 16 << 20;

/// The most that is fetched ahead from other homes than the next bytes': enough for what comes not to stop where the home
/// changes, and little to wait for where nobody wants it.
const NEAR: u64 = 1 << 20;

/// What one handle's reads tell of those to come.
#[derive(Debug, Default)]
pub(crate) struct Foresight(Mutex<Pattern>);

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Pattern {
    last: Range<u64>,
    /// From the beginning of one access to that of the next.
    stride: u64,
    /// How many accesses in a row were as foreseen.
    hits: u32,
    /// Up to where pages were fetched ahead.
    fetched: u64,
    stretch: Stretch,
}

/// Bytes of one home, from where the last access ended, as far as they were looked at.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Stretch {
    home: Option<NodeIndex>,
    end: u64,
    /// Behind them another home's bytes begin.
    is_whole: bool,
}

/// The home of a byte, if that is another node, and the end of its segment.
type HomeAt = (Option<NodeIndex>, u64);

impl Stretch {
    /// Up to where pages may be fetched ahead of an access that ends at `at`: at most `to`.
    fn reach(&mut self, at: u64, to: u64, home_at: impl Fn(u64) -> HomeAt) -> u64 {
        if self.end < at {
            let (home, end) = home_at(at);
            *self = Self { home, end, is_whole: false };
        }
        while !self.is_whole && self.end < to {
            let (home, end) = home_at(self.end);
            if home == self.home {
                self.end = end;
            } else {
                self.is_whole = true;
            }
        }
        to.min(self.end.max(at.saturating_add(NEAR)))
    }
}

/// The thread that takes pages that were asked for ahead, once there are any.
#[derive(Default)]
pub(super) struct Ahead(Mutex<Option<Thread>>);

struct Thread {
    sender: Sender<Coming>,
    service: Box<dyn Service>,
}

struct Coming {
    node: NodeIndex,
    question: Question,
    tickets: Vec<FetchTicket>,
}

impl Pattern {
    /// Takes note of an access; returns the ranges to be fetched ahead, of no more than `room` bytes where that is more
    /// than [`MOST`].
    fn next(
        &mut self,
        access: &Range<u64>,
        page: u64,
        room: u64,
        home_at: impl Fn(u64) -> HomeAt,
    ) -> Vec<Range<u64>> {
        let stride = access.start.wrapping_sub(self.last.start);
        let is_adjacent = access.start == self.last.end && !self.last.is_empty();
        let is_foreseen = is_adjacent || (stride == self.stride && stride > 0 && stride < u64::MAX / 2);
        self.hits = if is_foreseen { (self.hits + 1).min(16) } else { 0 };
        if !is_foreseen {
            self.fetched = access.end;
            self.stretch = Stretch::default();
        }
        (self.stride, self.last) = (stride, access.clone());
        if self.hits == 0 {
            return Vec::new();
        }
        let length = access.end - access.start;
        // Twice an access: as one ends, the next is on its way already, and the wire never falls silent between them.
        let most = length.saturating_mul(2).min(room.min(MOST_OF_LONG)).max(MOST);
        let window = (page << self.hits).max(length.saturating_mul(1 << (self.hits - 1))).min(most);
        let mut ranges = Vec::new();
        if is_adjacent {
            let wanted = access.end.saturating_add(window);
            let (from, to) = (self.fetched.max(access.end), self.stretch.reach(access.end, wanted, home_at));
            // In portions worth a message.
            let portion = if to == wanted { window / 2 } else { NEAR / 2 };
            if to.saturating_sub(from) >= portion {
                ranges.push(from..to);
                self.fetched = to;
            }
        } else {
            // As many accesses as fill the window, each at least a page.
            let count = (window / length.max(page)).clamp(1, 64);
            for number in 1..=count {
                let Some(start) = stride.checked_mul(number).and_then(|far| access.start.checked_add(far))
                else {
                    break;
                };
                if start >= self.fetched {
                    ranges.push(start..start.saturating_add(length));
                    self.fetched = start + 1;
                }
            }
        }
        ranges
    }
}

impl SharedFile {
    /// After a read of `access`: fetches what probably comes next. What keeps it from doing so, whoever reads there
    /// will hear.
    pub(crate) fn look_ahead(&self, foresight: &Foresight, access: Range<u64>, size: u64) {
        if !self.is_cached() || access.is_empty() {
            return;
        }
        let cache = self.cache();
        let room = cache.bytes() / 4 / u64::from(self.cluster().context().roster.processes_here());
        let mut pattern = foresight.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ranges = pattern.next(&access, cache.page().into(), room, |at| self.homed_at(at));
        drop(pattern);
        if let Err(e) = self.begin_ahead(ranges, size) {
            tracing::debug!("nothing is read ahead: {e}");
        }
    }

    fn begin_ahead(&self, ranges: Vec<Range<u64>>, size: u64) -> Result<()> {
        let mut batch = None;
        let begun = self.gather_ahead(ranges, size, &mut batch);
        match (begun, batch) {
            (Ok(()), Some((node, tickets))) => self.fetch_ahead(node, tickets),
            (Err(error), Some((_, tickets))) => {
                // Nobody was asked for these.
                tickets.into_iter().for_each(|ticket| self.abandon_one(ticket, false));
                Err(error)
            }
            (begun, None) => begun,
        }
    }

    /// Fetches pages ahead, node by node; those that are not asked for yet are in `batch` then.
    fn gather_ahead(
        &self,
        ranges: Vec<Range<u64>>,
        size: u64,
        batch: &mut Option<(NodeIndex, Vec<FetchTicket>)>,
    ) -> Result<()> {
        let page = u64::from(self.cache().page());
        let mut last = None;
        for range in ranges {
            for number in range.start / page..range.end.min(size).div_ceil(page) {
                if last == Some(number) {
                    continue;
                }
                last = Some(number);
                let Some(node) = self.node_of_page(number * page)? else { continue };
                // Where there is no room for it, or others are at it, there is nothing to do.
                let Fetch::Begun(ticket) = self.cache().begin_fetch(&self.key(PageNumber(number)))? else {
                    continue;
                };
                match &mut *batch {
                    Some((known, tickets))
                        if *known == node && tickets.len() < LONGEST_DATA / page as usize =>
                    {
                        tickets.push(ticket);
                    }
                    _ => {
                        if let Some((node, tickets)) = batch.replace((node, vec![ticket])) {
                            self.fetch_ahead(node, tickets)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The home of the byte at `offset`. Where that cannot be told, who reads there hears why.
    fn homed_at(&self, offset: u64) -> HomeAt {
        let segment_size = self.attachment().segment_size().bytes();
        let end = offset.saturating_add(1).checked_next_multiple_of(segment_size).unwrap_or(u64::MAX);
        (self.node_of_page(offset).ok().flatten(), end)
    }

    /// The node that is home of the page at `offset`, if it is another one.
    fn node_of_page(&self, offset: u64) -> Result<Option<NodeIndex>> {
        let Some((index, _)) = self.attachment().segment_size().locate(FileOffset(offset)) else {
            return Ok(None);
        };
        match self.attachment().home(index) {
            Home::There(home) => self.node_at(home).map(Some),
            Home::Here | Home::Hole => Ok(None),
        }
    }

    fn fetch_ahead(&self, node: NodeIndex, tickets: Vec<FetchTicket>) -> Result<()> {
        let asking = self.ask_for(node, tickets)?;
        match asking.asked {
            Asked::Elsewhere(node, question) => {
                let coming = Coming { node, question, tickets: asking.tickets };
                self.cluster().ahead.take(self.cluster().context(), self.cluster().shared_cache(), coming)
            }
            // Pages of this node's own segments are not cached.
            Asked::Answered(..) => Err(self.cluster().context().out_of_place(node)),
        }
    }
}

impl Ahead {
    fn take(&self, context: &Arc<Context>, own_cache: &Arc<PageCache>, coming: Coming) -> Result<()> {
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (sender, receiver) = channel();
            let (for_thread, cache) = (Arc::clone(context), Arc::clone(own_cache));
            let body = Box::new(move || take_all(&for_thread, &cache, &receiver));
            match context.fabric.back_end().spawn("read-ahead", body) {
                Ok(service) => *thread = Some(Thread { sender, service }),
                Err(source) => {
                    drop(thread);
                    take_one(context, own_cache, coming);
                    let subject = "starting the thread that reads ahead".into();
                    return Err(Error::Fabric { subject, source });
                }
            }
        }
        let unsent = thread.as_ref().and_then(|thread| thread.sender.send(coming).err());
        drop(thread);
        if let Some(SendError(coming)) = unsent {
            // The thread ends only when the sender goes, or by a panic.
            take_one(context, own_cache, coming);
        }
        Ok(())
    }

    /// Ends the thread, when it has taken what was asked for.
    pub(super) fn end(&self) {
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Thread { sender, service }) = thread {
            drop(sender);
            service.join();
        }
    }
}

fn take_all(context: &Context, cache: &PageCache, receiver: &Receiver<Coming>) {
    while let Ok(coming) = receiver.recv() {
        take_one(context, cache, coming);
    }
}

/// Waits for pages that were asked for, and has them be in the cache.
fn take_one(context: &Context, cache: &PageCache, coming: Coming) {
    let Coming { node, question, tickets } = coming;
    let answer = context.client.wait(question, context.roster.name(node), &mut |_, _| {});
    let versions = match &answer {
        Ok(Reply::Fetched { versions }) if versions.len() == tickets.len() => Some(versions.clone()),
        _ => None,
    };
    // A node that answers has ended writing. One that is cut off may go on when it is back.
    let still_written = matches!(answer, Err(Error::Fabric { .. }));
    if let (Err(error @ Error::Fabric { .. }), Some(ticket)) = (&answer, tickets.first()) {
        warn_of_lost_frames(context.store.node(), ticket.key.file, &error.to_string());
    }
    for (number, ticket) in tickets.into_iter().enumerate() {
        let ended = match &versions {
            Some(versions) => cache.finish_fetch(ticket, versions[number]).map(|_| ()),
            None => cache.abandon_fetch(ticket, still_written),
        };
        if let Err(e) = ended {
            tracing::warn!("a page of the cache is lost: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 1 << 16;
    const ROOM: u64 = 64 << 20;

    fn everywhere_one_home(_: u64) -> HomeAt {
        (Some(NodeIndex(1)), u64::MAX)
    }

    /// Accesses of `length` bytes from `start` on, of a file of which nodes have `bytes` by turns, in segments of a quarter of
    /// that; what is fetched ahead after each.
    fn fetched_by_turns(bytes: u64, start: u64, length: u64, accesses: u64) -> Vec<(u64, u64)> {
        let home_at =
            |at: u64| (Some(NodeIndex((at / bytes % 3) as u32)), (at + 1).next_multiple_of(bytes / 4));
        let mut pattern = Pattern::default();
        let mut fetched = start;
        let one = |access: u64| {
            let access = start + access * length..start + (access + 1) * length;
            for range in pattern.next(&access, PAGE, ROOM, home_at) {
                assert!(range.start == fetched.max(access.end) && range.end > range.start);
                fetched = range.end;
            }
            (access.end, fetched.max(access.end))
        };
        (0..accesses).map(one).collect()
    }

    #[test]
    fn of_another_home_little_is_fetched_before_the_reader_is_there() {
        let bytes = 32 << 20;
        for length in [4096, 60_000, 1 << 20, 4 << 20, 5 << 20] {
            for start in [0, bytes / 2 + 12_288] {
                for (end, fetched) in fetched_by_turns(bytes, start, length, (3 * bytes).div_ceil(length)) {
                    let next = end.next_multiple_of(bytes);
                    assert!(fetched <= next.max(end + NEAR), "{length}: {fetched} after {end}");
                    if end >= start + (8 << 20) {
                        assert!(fetched > end, "{length}: nothing after {end}");
                    }
                }
            }
        }
    }

    #[test]
    fn many_small_parts_of_several_homes_are_fetched_together() {
        let all = fetched_by_turns(256 << 10, 0, 4096, 4096);
        assert!(all.iter().skip(2048).all(|(end, fetched)| fetched - end >= NEAR / 2), "{all:?}");
    }

    #[test]
    fn the_window_of_a_sequential_reader_grows_and_closes() {
        let mut pattern = Pattern::default();
        let mut fetched = 0;
        for access in 0..200 {
            let ranges = pattern.next(&(access * 4096..(access + 1) * 4096), PAGE, ROOM, everywhere_one_home);
            for range in &ranges {
                assert!(range.start >= (access + 1) * 4096 && range.end > range.start);
                assert!(range.start >= fetched, "fetched twice");
                fetched = range.end;
            }
        }
        assert!((200 * 4096 + MOST / 2..=200 * 4096 + MOST).contains(&fetched));
        // Somewhere else: nothing can be foreseen.
        assert_eq!(pattern.next(&(1 << 40..(1 << 40) + 10), PAGE, ROOM, everywhere_one_home), []);
        assert_eq!(pattern.next(&(1 << 30..(1 << 30) + 10), PAGE, ROOM, everywhere_one_home), []);
    }

    #[test]
    fn as_a_long_access_ends_the_next_one_is_under_way() {
        let mebibytes = |count: u64| count << 20;
        for (length, room, ahead) in
            [(4, 64, 8), (1, 64, 4), (8, 64, 16), (100, 64, 16), (8, 12, 12), (8, 0, 4)]
        {
            let mut pattern = Pattern::default();
            let (length, ahead) = (mebibytes(length), mebibytes(ahead));
            let mut fetched = 0;
            for access in 0..50 {
                let access = access * length..(access + 1) * length;
                for range in pattern.next(&access, PAGE, mebibytes(room), everywhere_one_home) {
                    assert!(range.start == fetched.max(access.end), "fetched twice, or not at all");
                    fetched = range.end;
                }
                if access.start / length >= 6 {
                    assert!((access.end + ahead / 2..=access.end + ahead).contains(&fetched), "{fetched}");
                }
            }
        }
    }

    #[test]
    fn strides_are_foreseen_and_each_range_once() {
        let mut pattern = Pattern::default();
        let mut all = Vec::new();
        for access in 0..100u64 {
            all.extend(pattern.next(&(access << 20..(access << 20) + 100), PAGE, ROOM, everywhere_one_home));
        }
        assert!(all.len() > 60);
        assert!(all.windows(2).all(|pair| pair[0].start < pair[1].start));
        assert!(all.iter().all(|range| range.start % (1 << 20) == 0 && range.end - range.start == 100));
    }

    #[test]
    fn random_accesses_fetch_nothing() {
        let mut pattern = Pattern::default();
        for access in [5u64, 90, 12, 70, 33, 8, 61] {
            assert_eq!(
                pattern.next(&(access * PAGE..access * PAGE + 10), PAGE, ROOM, everywhere_one_home),
                []
            );
        }
    }
}
