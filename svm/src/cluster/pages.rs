//! Bytes of other nodes' segments by way of the node's page cache: fetched when they are read, kept when they are
//! written, and brought home when it is time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::attachment::{self, Attachment, Home, How};
use crate::cache::{
    Fetch, FetchTicket, Fetched, Flush, FlushState, Overwrite, PageCache, PageKey, PageNumber, ReadOutcome,
    SetVersion, WriteOutcome,
};
use crate::error::{Error, Result};
use crate::units::{FileId, FileOffset, SegmentIndex};

use super::wire::{LONGEST_DATA, Part, Reply, Request};
use super::{Asked, NodeIndex, SharedFile};

/// How many messages of one access are under way at a time: enough that the wire never waits for a round trip, which
/// takes less than the data of one.
const UNDER_WAY: usize = 4;

/// The most parts in a message; each takes some ten bytes to describe.
const MOST_PARTS: usize = 1 << 16;

/// How many pages an access looks at before it turns to the next ones.
const PAGES_AT_ONCE: u64 = 256;

/// Pages that were asked for together.
pub(super) struct Asking {
    pub(super) asked: Asked,
    pub(super) tickets: Vec<FetchTicket>,
}

/// Dirty bytes that are on their way home together.
struct Sending {
    asked: Asked,
    flushes: Vec<Flush>,
}

/// What an access has to wait for, if anything.
#[derive(Default)]
struct Obstacles {
    crowded: Option<PageKey>,
    changing: Option<SetVersion>,
}

impl SharedFile {
    /// Reads `length` bytes from position `within` of segment `index`, whose home is `node`.
    ///
    /// # Safety
    /// `to` is valid for writes of `length` bytes.
    pub(super) unsafe fn read_cached(
        &self,
        node: NodeIndex,
        index: SegmentIndex,
        within: u64,
        to: *mut u8,
        length: usize,
    ) -> Result<()> {
        let start = self.attachment().segment_size().start_of(index).0 + within;
        let (end, step) = (start + length as u64, PAGES_AT_ONCE * u64::from(self.cache().page()));
        let mut at = start;
        while at < end {
            let until = (at / step + 1).saturating_mul(step).min(end);
            // SAFETY: the caller vouches for `to`; the part lies within.
            unsafe { self.read_pages(node, at..until, to.add((at - start) as usize)) }?;
            at = until;
        }
        Ok(())
    }

    /// # Safety
    /// `to` is valid for writes of as many bytes as `range` has.
    unsafe fn read_pages(&self, node: NodeIndex, range: Range<u64>, to: *mut u8) -> Result<()> {
        let cache = self.cache();
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
                            let asking = self.ask_for(node, std::mem::take(&mut tickets));
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
                let asking = self.ask_for(node, tickets);
                asking.map_or_else(|e| failed = Some(e), |asking| under_way.push_back(asking));
            }
            if let Some(error) = failed {
                under_way.into_iter().for_each(|asking| self.give_up(asking));
                return Err(error);
            }
            if let Some(asking) = under_way.pop_front() {
                // SAFETY: the caller vouches for `to`.
                let again = unsafe { self.take_answer(asking, &range, to) };
                match again {
                    Ok(again) => open.extend(again),
                    Err(error) => {
                        under_way.into_iter().for_each(|asking| self.give_up(asking));
                        return Err(error);
                    }
                }
            } else if open.is_empty() {
                return Ok(());
            } else {
                self.overcome(&obstacles)?;
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
        to: *mut u8,
        tickets: &mut Vec<FetchTicket>,
        obstacles: &mut Obstacles,
    ) -> Result<bool> {
        let (cache, key) = (self.cache(), self.key(page));
        let (within, at) = overlap(page, range, cache);
        // SAFETY: the caller vouches for `to`; `at` and the part's length lie within the range.
        match unsafe { cache.read(&key, within, to.add(at)) }? {
            ReadOutcome::Copied => return Ok(true),
            ReadOutcome::Coming(version) => obstacles.changing = Some(version),
            ReadOutcome::Missing => match cache.begin_fetch(&key)? {
                Fetch::Begun(ticket) => {
                    tickets.push(ticket);
                    return Ok(true);
                }
                Fetch::Present => {}
                Fetch::Coming(version) | Fetch::Busy(version) => obstacles.changing = Some(version),
                Fetch::Crowded(victim) => obstacles.crowded = Some(victim),
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
        let Asking { asked, tickets } = asking;
        let answer = match self.cluster().wait(asked, &mut |_, _| {}) {
            Ok(Reply::Fetched { versions }) if versions.len() == tickets.len() => Ok(versions),
            Ok(_) => Err(self.cluster().context().out_of_place(self.own_node())),
            Err(error) => Err(error),
        };
        let versions = match answer {
            Ok(versions) => versions,
            Err(error) => {
                self.abandon(tickets, &error);
                return Err(error);
            }
        };
        let cache = self.cache();
        let mut again = Vec::new();
        for (ticket, version) in tickets.into_iter().zip(versions) {
            let page = ticket.key.page;
            let (within, at) = overlap(page, range, cache);
            // SAFETY: the caller vouches for `to`; `at` and the part's length lie within the range.
            match unsafe { cache.finish_fetch_into(ticket, version, within, to.add(at)) }? {
                Fetched::Kept => {}
                Fetched::Discarded => again.push(page),
            }
        }
        Ok(again)
    }

    /// Has `node` write pages into the cache.
    pub(super) fn ask_for(&self, node: NodeIndex, tickets: Vec<FetchTicket>) -> Result<Asking> {
        let page = self.cache().page();
        let place = |ticket: &FetchTicket| {
            let part = self.part(ticket.key.page, &(0..page));
            (part, ticket.offset)
        };
        let request = Request::Fetch { file: self.file(), pages: tickets.iter().map(place).collect() };
        match self.cluster().begin(node, &request, &[]) {
            Ok(asked) => Ok(Asking { asked, tickets }),
            Err(error) => {
                self.abandon(tickets, &error);
                Err(error)
            }
        }
    }

    /// After a failure: the other pages that were asked for are not wanted any more.
    fn give_up(&self, asking: Asking) {
        let answer = self.cluster().wait(asking.asked, &mut |_, _| {});
        match answer {
            Ok(_) => asking.tickets.into_iter().for_each(|ticket| self.abandon_one(ticket, false)),
            Err(error) => self.abandon(asking.tickets, &error),
        }
    }

    fn abandon(&self, tickets: Vec<FetchTicket>, error: &Error) {
        // A node that answers has ended writing. One that is cut off may go on when it is back.
        let still_written = matches!(error, Error::Fabric { .. });
        tickets.into_iter().for_each(|ticket| self.abandon_one(ticket, still_written));
    }

    fn abandon_one(&self, ticket: FetchTicket, still_written: bool) {
        if let Err(e) = self.cache().abandon_fetch(ticket, still_written) {
            tracing::warn!("a page of the cache is lost: {e}");
        }
    }

    /// Writes bytes to position `within` of segment `index`, whose home is another node: they stay in the cache.
    pub(super) fn write_cached(&self, index: SegmentIndex, within: u64, data: &[u8]) -> Result<()> {
        let cache = self.cache();
        let start = self.attachment().segment_size().start_of(index).0 + within;
        let range = start..start + data.len() as u64;
        for page in pages(&range, cache) {
            let (within, at) = overlap(page, &range, cache);
            let bytes = &data[at..at + within.len()];
            loop {
                // SAFETY: the slice has as many bytes and lies in no cache.
                let written = unsafe { cache.write(&self.key(page), within.clone(), bytes.as_ptr()) }?;
                let mut obstacles = Obstacles::default();
                match written {
                    WriteOutcome::Cached => break,
                    WriteOutcome::Crowded(victim) => obstacles.crowded = Some(victim),
                    WriteOutcome::Busy(version) => obstacles.changing = Some(version),
                }
                self.overcome(&obstacles)?;
            }
        }
        Ok(())
    }

    /// Brings what is cached into agreement with bytes that go home past the cache; to be called before, and once they
    /// are home.
    pub(super) fn overwrite_cached(
        &self,
        index: SegmentIndex,
        within: u64,
        data: &[u8],
        are_home: bool,
    ) -> Result<()> {
        let cache = self.cache();
        let start = self.attachment().segment_size().start_of(index).0 + within;
        let range = start..start + data.len() as u64;
        for page in pages(&range, cache) {
            let (within, at) = overlap(page, &range, cache);
            let bytes = &data[at..at + within.len()];
            loop {
                let (key, within, from) = (self.key(page), within.clone(), bytes.as_ptr());
                let put = if are_home {
                    // SAFETY: the slice has as many bytes and lies in no cache.
                    unsafe { cache.overwrite(&key, within, from) }
                } else {
                    // SAFETY: likewise.
                    unsafe { cache.announce_overwrite(&key, within, from) }
                };
                match put? {
                    Overwrite::Done => break,
                    Overwrite::Busy(version) => cache.wait_for_change(version)?,
                }
            }
        }
        Ok(())
    }

    /// Brings home all dirty bytes of the file, whichever process of the node wrote them.
    pub(super) fn flush_cached(&self) -> Result<()> {
        loop {
            let dirty = self.cache().dirty_pages(self.file())?;
            if dirty.is_empty() {
                return Ok(());
            }
            let keys: Vec<_> = dirty.into_iter().map(|page| self.key(page)).collect();
            if let Some(elsewhere) = self.bring_home(self.attachment(), &keys)? {
                self.cache().wait_for_change(elsewhere)?;
            }
        }
    }

    /// Brings home the bytes in `range` that are dirty now, whichever process of the node wrote them.
    pub(super) fn flush_cached_in(&self, range: &Range<u64>) -> Result<()> {
        let page_size = u64::from(self.cache().page());
        let is_in =
            |page: &PageNumber| page.0 * page_size < range.end && (page.0 + 1) * page_size > range.start;
        loop {
            let dirty = self.cache().dirty_pages(self.file())?;
            let keys: Vec<_> = dirty.into_iter().filter(is_in).map(|page| self.key(page)).collect();
            match self.bring_home(self.attachment(), &keys)? {
                // Bytes that were dirtied since are outside of the range, or not under the lock that is given back.
                None => return Ok(()),
                Some(elsewhere) => self.cache().wait_for_change(elsewhere)?,
            }
        }
    }

    /// Brings the dirty bytes of pages of one file home; says where another one is at it.
    fn bring_home(&self, attachment: &Attachment, keys: &[PageKey]) -> Result<Option<SetVersion>> {
        let cache = self.cache();
        let mut by_node: BTreeMap<NodeIndex, Batch> = BTreeMap::new();
        let mut under_way: VecDeque<Sending> = VecDeque::new();
        let (mut elsewhere, mut failed) = (None, None);
        for key in keys {
            let flush = match cache.begin_flush(key) {
                Ok(FlushState::Begun(flush)) => flush,
                Ok(FlushState::Clean) => continue,
                Ok(FlushState::Elsewhere(version)) => {
                    elsewhere = Some(version);
                    continue;
                }
                Err(error) => {
                    failed.get_or_insert(error);
                    break;
                }
            };
            let node = match self.home_of(attachment, key) {
                Ok(node) => node,
                Err(error) => {
                    self.put_back(vec![flush]);
                    failed.get_or_insert(error);
                    break;
                }
            };
            let batch = by_node.entry(node).or_default();
            if !batch.has_room_for(&flush) {
                let full = std::mem::take(batch);
                self.send(attachment, node, full, &mut under_way, &mut failed);
            }
            batch.flushes.push(flush);
            while under_way.len() > UNDER_WAY {
                self.finish_one(&mut under_way, &mut failed);
            }
        }
        for (node, batch) in by_node {
            self.send(attachment, node, batch, &mut under_way, &mut failed);
        }
        while !under_way.is_empty() {
            self.finish_one(&mut under_way, &mut failed);
        }
        failed.map_or(Ok(elsewhere), Err)
    }

    fn send(
        &self,
        attachment: &Attachment,
        node: NodeIndex,
        batch: Batch,
        under_way: &mut VecDeque<Sending>,
        failed: &mut Option<Error>,
    ) {
        if batch.flushes.is_empty() {
            return;
        }
        let (mut parts, mut data) = (Vec::new(), Vec::new());
        for flush in &batch.flushes {
            let runs = flush.runs.iter().map(|&(at, length)| at..at + length);
            parts.extend(runs.map(|run| part_of(attachment, self.cache(), flush.key.page, &run)));
            data.extend_from_slice(&flush.bytes);
        }
        let request = Request::Write { file: attachment.id(), parts };
        match self.cluster().begin(node, &request, &data) {
            Ok(asked) => under_way.push_back(Sending { asked, flushes: batch.flushes }),
            Err(error) => {
                self.put_back(batch.flushes);
                failed.get_or_insert(error);
            }
        }
    }

    fn finish_one(&self, under_way: &mut VecDeque<Sending>, failed: &mut Option<Error>) {
        let Some(Sending { asked, flushes }) = under_way.pop_front() else { return };
        match self.cluster().wait(asked, &mut |_, _| {}) {
            Ok(_) => {
                for flush in flushes {
                    if let Err(error) = self.cache().finish_flush(flush) {
                        failed.get_or_insert(error);
                    }
                }
            }
            Err(error) => {
                self.put_back(flushes);
                failed.get_or_insert(error);
            }
        }
    }

    fn put_back(&self, flushes: Vec<Flush>) {
        for flush in flushes {
            if let Err(e) = self.cache().fail_flush(flush) {
                tracing::error!("bytes that could not be brought home are lost: {e}");
            }
        }
    }

    /// Makes room, or waits for it.
    fn overcome(&self, obstacles: &Obstacles) -> Result<()> {
        if let Some(victim) = &obstacles.crowded {
            let elsewhere = if victim.file == self.file() {
                self.bring_home(self.attachment(), &[*victim])?
            } else {
                self.bring_home(self.other(victim.file)?.as_ref(), &[*victim])?
            };
            return elsewhere.map_or(Ok(()), |version| self.cache().wait_for_change(version));
        }
        obstacles.changing.map_or(Ok(()), |version| self.cache().wait_for_change(version))
    }

    /// Another file, which some process of this node has open or had: its bytes are in the way.
    fn other(&self, file: FileId) -> Result<Arc<Attachment>> {
        let how = How { fresh: true, cluster: self.cluster().id() };
        let attached = attachment::attach(self.cluster().store(), file, &format!("file {file}"), how);
        attached.map_err(|error| error.into_error(file))
    }

    /// Drops cached pages in `range` whose segments others have changed since they were fetched.
    pub(super) fn drop_stale(&self, range: &Range<u64>) -> Result<()> {
        let (cache, segment_size) = (self.cache(), self.attachment().segment_size());
        let page_size = u64::from(cache.page());
        let segment_of =
            |page: PageNumber| segment_size.locate(FileOffset(page.0 * page_size)).map(|(i, _)| i);
        let is_in =
            |page: PageNumber| page.0 * page_size < range.end && (page.0 + 1) * page_size > range.start;
        let mut segments: BTreeMap<NodeIndex, Vec<SegmentIndex>> = BTreeMap::new();
        let mut cached = Vec::new();
        cache.retain(self.file(), |page, _| {
            cached.extend(segment_of(page).filter(|_| is_in(page)));
            true
        })?;
        cached.sort_unstable();
        cached.dedup();
        for index in cached {
            if let Home::There(home) = self.attachment().home(index) {
                segments.entry(self.node_at(home)?).or_default().push(index);
            }
        }
        let file = self.file();
        let ask = |(node, segments): (&NodeIndex, &Vec<SegmentIndex>)| {
            self.cluster().begin(*node, &Request::Versions { file, segments: segments.clone() }, &[])
        };
        let asked: Vec<_> = segments.iter().map(ask).collect();
        let mut current: BTreeMap<SegmentIndex, u64> = BTreeMap::new();
        for (asked, (node, segments)) in asked.into_iter().zip(&segments) {
            match self.cluster().wait(asked?, &mut |_, _| {})? {
                Reply::Versions(versions) => current.extend(segments.iter().copied().zip(versions)),
                _ => return Err(self.cluster().context().out_of_place(*node)),
            }
        }
        cache.retain(self.file(), |page, version| {
            let current = segment_of(page).and_then(|index| current.get(&index));
            // Fetched since they were asked: with a version that is as new.
            !is_in(page) || version.is_some_and(|version| current.is_some_and(|current| version >= *current))
        })
    }

    fn home_of(&self, attachment: &Attachment, key: &PageKey) -> Result<NodeIndex> {
        let offset = key.page.0 * u64::from(self.cache().page());
        let index = attachment.segment_size().locate(FileOffset(offset)).map(|(index, _)| index);
        match index.map(|index| attachment.home(index)) {
            Some(Home::There(home)) => self.node_called(attachment, home),
            _ => Err(self.cluster().context().out_of_place(self.own_node())),
        }
    }

    fn part(&self, page: PageNumber, within: &Range<u32>) -> Part {
        part_of(self.attachment(), self.cache(), page, within)
    }

    pub(super) fn key(&self, page: PageNumber) -> PageKey {
        PageKey { file: self.file(), page }
    }

    fn pages_per_message(&self) -> usize {
        (LONGEST_DATA / self.cache().page() as usize).max(1)
    }
}

/// Dirty bytes for one node.
#[derive(Default)]
struct Batch {
    flushes: Vec<Flush>,
}

impl Batch {
    fn has_room_for(&self, more: &Flush) -> bool {
        let all = || self.flushes.iter().chain([more]);
        self.flushes.is_empty()
            || all().map(|flush| flush.bytes.len()).sum::<usize>() <= LONGEST_DATA
                && all().map(|flush| flush.runs.len()).sum::<usize>() <= MOST_PARTS
    }
}

/// The pages that `range` touches.
fn pages(range: &Range<u64>, cache: &PageCache) -> impl Iterator<Item = PageNumber> + use<> {
    let size = u64::from(cache.page());
    (range.start / size..range.end.div_ceil(size)).map(PageNumber)
}

/// Which bytes of a page `range` has, and where they are in the range.
fn overlap(page: PageNumber, range: &Range<u64>, cache: &PageCache) -> (Range<u32>, usize) {
    let size = u64::from(cache.page());
    let begin = page.0 * size;
    let (from, to) = (range.start.max(begin), range.end.min(begin + size));
    ((from - begin) as u32..(to - begin) as u32, (from - range.start) as usize)
}

fn part_of(attachment: &Attachment, cache: &PageCache, page: PageNumber, within: &Range<u32>) -> Part {
    let size = attachment.segment_size().bytes();
    let offset = page.0 * u64::from(cache.page()) + u64::from(within.start);
    let segment = SegmentIndex((offset / size) as u32);
    Part { segment, within: offset % size, length: within.end - within.start }
}
