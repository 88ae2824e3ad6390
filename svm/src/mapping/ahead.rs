//! Pages that nobody waits for yet: fetched by a thread of their own, several requests at a time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::units::SegmentIndex;

use super::bytes::Coming;
use super::memory::Protection;
use super::page::{PageState, Ticket};
use super::service::{Counters, Service};
use super::streams::Window;
use super::table::{Place, Table, runs};

/// Bytes of a request: as many as an answer has that goes into a buffer which is kept ready for it
/// ([`MessageSettings::eager_buffer`](svmio_transport::message::MessageSettings)). Longer ones are asked for first, one
/// after the other, and the network rests meanwhile.
const PIECE: usize = 60 << 10;
/// Requests that are under way at a time: about a mebibyte, which takes a network of a gigabit 8 ms, many times a round
/// trip.
const UNDER_WAY: usize = 16;

/// What is to be fetched.
#[derive(Default)]
pub(super) struct Ahead {
    wanted: Mutex<VecDeque<Wanted>>,
    changed: Condvar,
}

struct Wanted {
    pages: VecDeque<u64>,
    /// The page that is to be kept ready and not in place.
    marker: Option<u64>,
    done: Option<Arc<Done>>,
}

/// A request that is under way.
struct Piece {
    pages: Vec<u64>,
    ticket: Ticket,
    marker: Option<u64>,
    coming: Result<Coming>,
    done: Option<Arc<Done>>,
}

/// The outcome of an explicit fetch. It is told when all who have a part in it have dropped theirs.
#[derive(Default)]
struct Outcome {
    is_done: bool,
    failed: Option<Error>,
}

/// A part in an explicit fetch.
struct Done(Arc<Awaited>);

#[derive(Default)]
struct Awaited {
    outcome: Mutex<Outcome>,
    changed: Condvar,
}

impl Awaited {
    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.0.outcome().is_done = true;
        self.0.changed.notify_all();
    }
}

/// Pages that were asked for by [`Mapping::fetch`](super::Mapping::fetch). It goes on if this is dropped.
#[must_use = "wait for it, or advise WillNeed"]
pub struct Fetch(Arc<Awaited>);

impl Fetch {
    /// Whether all has come, or failed to.
    pub fn is_done(&self) -> bool {
        self.0.outcome().is_done
    }

    /// Waits until all pages are here, as far as there was room for them.
    ///
    /// # Errors
    /// Why a part of them could not be had.
    pub fn wait(self) -> Result<()> {
        let outcome = self.0.changed.wait_while(self.0.outcome(), |outcome| !outcome.is_done);
        outcome.unwrap_or_else(PoisonError::into_inner).failed.take().map_or(Ok(()), Err)
    }
}

impl Ahead {
    /// Has a window fetched.
    pub(super) fn want(&self, window: Window) {
        let wanted = Wanted { pages: window.pages().collect(), marker: Some(window.first), done: None };
        self.wanted().push_back(wanted);
        self.changed.notify_one();
    }

    /// Has pages fetched that the program asks for.
    pub(super) fn want_all(&self, pages: impl Iterator<Item = u64>) -> Fetch {
        let awaited = Arc::new(Awaited::default());
        let done = Some(Arc::new(Done(Arc::clone(&awaited))));
        self.wanted().push_back(Wanted { pages: pages.collect(), marker: None, done });
        self.changed.notify_one();
        Fetch(awaited)
    }

    /// Has the thread look whether it is to stop.
    pub(super) fn stop(&self) {
        drop(self.wanted());
        self.changed.notify_all();
    }

    fn wanted(&self) -> MutexGuard<'_, VecDeque<Wanted>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Fetches ahead until the mapping ends.
    pub(super) fn fetch_ahead(&self) {
        let mut under_way: VecDeque<Piece> = VecDeque::new();
        loop {
            let piece =
                if under_way.len() < UNDER_WAY { self.next_piece(under_way.is_empty()) } else { None };
            match piece {
                Some(piece) => under_way.push_back(piece),
                None => match under_way.pop_front() {
                    Some(piece) => self.finish_piece(piece),
                    // Nothing is wanted but the end.
                    None => return,
                },
            }
        }
    }

    /// Begins to fetch the next pages that are wanted; `None` where none are, which is waited for if `waits`, or where
    /// the mapping ends.
    fn next_piece(&self, waits: bool) -> Option<Piece> {
        let most = (PIECE / self.memory.page()).max(1);
        let mut all = self.ahead.wanted();
        loop {
            // Acquire: with the Release of who ends it.
            if self.is_stopping.load(Ordering::Acquire) {
                all.clear();
                return None;
            }
            let Some(first) = all.front_mut() else {
                if !waits {
                    return None;
                }
                all = self.ahead.changed.wait(all).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let is_mapped = |page: &u64| self.memory.pages().contains(page);
            let mut pages: Vec<u64> = Vec::new();
            let mut index = None;
            while let Some(page) = first.pages.front().copied() {
                let its = is_mapped(&page).then(|| self.segment_of(page));
                if pages.len() >= most || its.is_some() && index.is_some() && its != index {
                    break;
                }
                first.pages.pop_front();
                if its.is_some() {
                    index = its;
                    pages.push(page);
                }
            }
            let (marker, done) = (first.marker, first.done.clone());
            if first.pages.is_empty() {
                all.pop_front();
            }
            let Some(index) = index else { continue };
            drop(all);
            if let Some(piece) = self.begin_piece(index, pages, marker, done) {
                return Some(piece);
            }
            all = self.ahead.wanted();
        }
    }

    /// `None` where nothing of it is to be fetched.
    fn begin_piece(
        &self,
        index: SegmentIndex,
        mut pages: Vec<u64>,
        marker: Option<u64>,
        done: Option<Arc<Done>>,
    ) -> Option<Piece> {
        if let Err(error) = self.settle(index) {
            return failed(done, error);
        }
        pages.sort_unstable();
        let mut table = self.table();
        let segment = table.segments.get(&index)?;
        let (place, known) = (segment.place, segment.known);
        if !matches!(place, Place::Here | Place::There(_)) {
            return None;
        }
        pages.retain(|page| table.state(*page).is_none());
        if pages.is_empty() || !self.make_room_at_once(&mut table, pages.len()) {
            return None;
        }
        let ticket = table.ticket();
        for page in &pages {
            let fetching = PageState::Fetching { ticket, is_void: false, is_wanted: false, is_store: false };
            table.set(*page, fetching, known);
        }
        drop(table);
        let coming = self.begin_fetch(index, place, &runs(pages.iter().copied()));
        Some(Piece { pages, ticket, marker, coming, done })
    }

    fn finish_piece(&self, piece: Piece) {
        let Piece { pages, ticket, marker, coming, done } = piece;
        let taken = coming.and_then(|coming| {
            self.finish_fetch(coming, |bytes| {
                let mut table = self.table();
                self.arrive_ahead(&mut table, &pages, ticket, marker, bytes)
            })
        });
        if let Err(error) = taken {
            // Whoever waits for one of them comes again, and hears of it.
            let mut table = self.table();
            for page in &pages {
                if let Some((_, true)) = fetch_of(&table, *page, ticket) {
                    let _ = self.memory.wake(&(*page..*page + 1));
                }
                if fetch_of(&table, *page, ticket).is_some() {
                    table.remove(*page);
                }
            }
            drop(table);
            let _: Option<()> = failed(done, error);
        }
        self.notify();
    }

    /// Takes pages that were fetched.
    fn arrive_ahead(
        &self,
        table: &mut Table,
        pages: &[u64],
        ticket: Ticket,
        marker: Option<u64>,
        bytes: &[u8],
    ) {
        let size = self.memory.page();
        // Neighbours that are put in place together: the first, and where their bytes begin and end.
        let mut together: Option<(u64, Range<usize>)> = None;
        let put = |table: &mut Table, run: Option<(u64, Range<usize>)>| {
            let Some((first, at)) = run else { return };
            let run = first..first + (at.len() / size) as u64;
            if let Err(e) = self.memory.install(first, &bytes[at], Protection::Protected) {
                tracing::error!("pages {run:?} of {} cannot be put in place: {e}", self.file.name());
                run.clone().for_each(|page| drop(table.remove(page)));
                // Whoever waits for one of them comes again.
                let _ = self.memory.wake(&run);
            }
        };
        for (number, page) in pages.iter().copied().enumerate() {
            let at = number * size..(number + 1) * size;
            let Some((is_void, is_wanted)) = fetch_of(table, page, ticket) else { continue };
            if is_void {
                table.remove(page);
                let _ = self.memory.wake(&(page..page + 1));
                continue;
            }
            Counters::add(&self.counters.ahead, 1);
            if marker == Some(page) && !is_wanted {
                table.change(page, |_| PageState::Ready(bytes[at].into()));
                continue;
            }
            table.change(page, |_| PageState::Clean);
            match &mut together {
                Some((first, run)) if *first + (run.len() / size) as u64 == page && run.end == at.start => {
                    run.end = at.end;
                }
                _ => put(table, together.replace((page, at))),
            }
        }
        put(table, together);
    }
}

/// Of a page that is being fetched so: whether its bytes may be old, and whether a thread waits for them.
fn fetch_of(table: &Table, page: u64, ticket: Ticket) -> Option<(bool, bool)> {
    match table.state(page) {
        Some(PageState::Fetching { ticket: other, is_void, is_wanted, .. }) if *other == ticket => {
            Some((*is_void, *is_wanted))
        }
        _ => None,
    }
}

/// Tells whoever asked.
fn failed<T>(done: Option<Arc<Done>>, error: Error) -> Option<T> {
    match done {
        Some(done) => {
            done.0.outcome().failed.get_or_insert(error);
        }
        None => tracing::debug!("nothing is fetched ahead: {error}"),
    }
    None
}
