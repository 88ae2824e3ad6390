//! Fetching pages before they are asked for, as far as a reader's [`Foresight`] reaches, while he works with those that
//! he has; and those of a long access that are needed next, while it waits for others. Nothing is written home to make
//! room for them.
//!
//! What was asked for ahead is taken by a thread of its own, so that the other processes of the node, who may wait for
//! the same pages, do not depend on when the one that asked calls again. Before a file is closed it is waited for what
//! is still on its way: a home that is asked after all have closed the file would open it once more, for nobody.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use svmio_transport::back_end::Service;

use crate::attachment::Home;
use crate::blocks::Blocks;
use crate::cache::{Fetch, FetchTicket, PageCache, PageNumber, warn_of_lost_frames};
use crate::error::{Error, Result};
use crate::units::FileOffset;

use super::client::Question;
use super::foresight::{self, Foresight, HomeAt};
use super::pages::{Asking, Coming};
use super::wire::LONGEST_DATA;
use super::{Asked, Context, NodeIndex, SharedFile};

/// How many pages an access may have on their way at least, if any.
const LEAST_PAGES: u64 = 4;

/// The thread that takes pages that were asked for ahead, once there are any.
#[derive(Default)]
pub(super) struct Ahead(Mutex<Option<Thread>>);

struct Thread {
    sender: Sender<Awaited>,
    service: Box<dyn Service>,
}

struct Awaited {
    node: NodeIndex,
    question: Question,
    tickets: Vec<FetchTicket>,
    coming: Coming,
    under_way: UnderWay,
}

/// How many requests of one file handle are under way that ask for pages ahead.
#[derive(Default)]
pub(super) struct Requests {
    number: Mutex<usize>,
    one_ended: Condvar,
}

/// As long as this is there, one more is.
struct UnderWay(Arc<Requests>);

impl UnderWay {
    fn of(requests: &Arc<Requests>) -> UnderWay {
        *requests.number() += 1;
        UnderWay(Arc::clone(requests))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        *self.0.number() -= 1;
        self.0.one_ended.notify_all();
    }
}

impl Requests {
    fn wait(&self) {
        let number = self.number();
        drop(self.one_ended.wait_while(number, |number| *number > 0).unwrap_or_else(PoisonError::into_inner));
    }

    fn number(&self) -> MutexGuard<'_, usize> {
        // Changed by single assignments.
        self.number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedFile {
    /// After a read of `access`: fetches what probably comes next. What keeps it from doing so, whoever reads there
    /// will hear.
    pub(crate) fn look_ahead(&self, foresight: &Foresight, access: Range<u64>, size: u64) {
        let ranges = self.foreseen(foresight, &access, false, size);
        self.fetch_soon(ranges, size);
    }

    /// The same where only a `row` of blocks was read: of the next ones, the same blocks are fetched.
    pub(crate) fn look_ahead_of(&self, foresight: &Foresight, row: &Blocks, size: u64) {
        let ranges = self.foreseen(foresight, &(row.start..row.end()), true, size);
        let within = |range: Range<u64>| {
            let starts = (0..row.count)
                .map_while(move |number| range.start.checked_add(row.stride.checked_mul(number)?));
            let block = |start: u64| start..start.saturating_add(row.length).min(range.end);
            starts.map(block).take_while(|block| !block.is_empty()).collect::<Vec<_>>()
        };
        self.fetch_soon(ranges.into_iter().flat_map(within).collect(), size);
    }

    /// What is to be fetched ahead after a read of `access`, or of a row of blocks in it.
    fn foreseen(
        &self,
        foresight: &Foresight,
        access: &Range<u64>,
        is_row: bool,
        size: u64,
    ) -> Vec<Range<u64>> {
        if !self.is_cached() || access.is_empty() || self.node_names().len() < 2 {
            return Vec::new();
        }
        let (page, room) = (self.cache().page().into(), self.room_ahead());
        let is_kept = |at| at >= size || self.is_kept(at);
        foresight.after(access, is_row, page, room, |at| self.homed_at(at), is_kept)
    }

    /// How many bytes a reader may have fetched ahead.
    fn room_ahead(&self) -> u64 {
        let (cache, roster) = (self.cache(), &self.cluster().context().roster);
        foresight::room(cache.capacity(), cache.page().into(), u64::from(roster.processes_here()))
    }

    /// How many bytes of one access may be on their way while it waits for those before them. None where the cache has
    /// little room, or where this process may read pages from their homes by itself: then none is waited for.
    pub(crate) fn window_of_access(&self) -> u64 {
        if !self.is_cached() || !self.homes_are_asked() {
            return 0;
        }
        // Its share, even where others do not read: what makes way before it is read would be fetched again for as long as
        // the access takes.
        let readers = u64::from(self.cluster().context().roster.processes_here()).max(1);
        let window = (self.cache().capacity() / 4 / readers).min(foresight::MOST);
        if window < LEAST_PAGES * u64::from(self.cache().page()) { 0 } else { window }
    }

    /// Begins to fetch what is read soon, of the first `size` bytes of the file; ranges in a row that are worth a
    /// message, or several. What keeps it from doing so, whoever reads there will hear.
    pub(crate) fn fetch_soon(&self, ranges: Vec<Range<u64>>, size: u64) {
        if let Err(e) = self.begin_ahead(ranges, size) {
            tracing::debug!("nothing is read ahead: {e}");
        }
    }

    /// Waits until all that this handle has asked for ahead has come, or will not come.
    pub(crate) fn end_ahead(&self) {
        self.requests_ahead().wait();
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

    /// Whether the page at `offset` is here or on its way, if its bytes are on another node. Where that cannot be told,
    /// nothing is to change.
    pub(super) fn is_kept(&self, offset: u64) -> bool {
        let page = PageNumber(offset / u64::from(self.cache().page()));
        let is_elsewhere = self.node_of_page(offset).is_ok_and(|node| node.is_some());
        !is_elsewhere || self.cache().has(&self.key(page)).unwrap_or(true)
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
                let under_way = UnderWay::of(self.requests_ahead());
                let Asking { tickets, coming, .. } = asking;
                let awaited = Awaited { node, question, tickets, coming, under_way };
                self.cluster().ahead.take(self.cluster().context(), self.cluster().shared_cache(), awaited)
            }
            // Pages of this node's own segments are not cached.
            Asked::Answered(..) => Err(self.cluster().context().out_of_place(node)),
        }
    }
}

impl Ahead {
    fn take(&self, context: &Arc<Context>, own_cache: &Arc<PageCache>, awaited: Awaited) -> Result<()> {
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (sender, receiver) = channel();
            let (for_thread, cache) = (Arc::clone(context), Arc::clone(own_cache));
            let body = Box::new(move || take_all(&for_thread, &cache, &receiver));
            match context.fabric.back_end().spawn("read-ahead", body) {
                Ok(service) => *thread = Some(Thread { sender, service }),
                Err(source) => {
                    drop(thread);
                    take_one(context, own_cache, awaited);
                    let subject = "starting the thread that reads ahead".into();
                    return Err(Error::Fabric { subject, source });
                }
            }
        }
        let unsent = thread.as_ref().and_then(|thread| thread.sender.send(awaited).err());
        drop(thread);
        if let Some(SendError(awaited)) = unsent {
            // The thread ends only when the sender goes, or by a panic.
            take_one(context, own_cache, awaited);
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

fn take_all(context: &Context, cache: &PageCache, receiver: &Receiver<Awaited>) {
    while let Ok(awaited) = receiver.recv() {
        take_one(context, cache, awaited);
    }
}

/// Waits for pages that were asked for, and has them be in the cache.
fn take_one(context: &Context, cache: &PageCache, awaited: Awaited) {
    let Awaited { node, question, tickets, coming, under_way: _under_way } = awaited;
    let mut versions = None;
    let answer = context.client.wait(question, context.roster.name(node), &mut |reply, data| {
        versions = coming.take(cache, &tickets, reply, data);
    });
    // A node that answers has ended writing. One that is cut off may go on when it is back.
    let cut_off = answer.err().filter(|error| coming.is_written_after(error));
    if let (Some(error), Some(ticket)) = (&cut_off, tickets.first()) {
        warn_of_lost_frames(context.store.node(), ticket.key.file, &error.to_string());
    }
    for (number, ticket) in tickets.into_iter().enumerate() {
        let ended = match &versions {
            Some(versions) => cache.finish_fetch(ticket, versions[number]).map(|_| ()),
            None => cache.abandon_fetch(ticket, cut_off.is_some()),
        };
        if let Err(e) = ended {
            tracing::warn!("a page of the cache is lost: {e}");
        }
    }
}
