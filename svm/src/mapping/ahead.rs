//! Pages that nobody waits for yet: fetched by a thread of their own, several requests at a time.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;

use super::bytes::Coming;
use super::memory::Protection;
use super::page::{PageState, Ticket};
use super::service::{Counters, Service};
use super::table::{Place, Table, runs};
use super::wanted::{Done, Next, keep_under_way, tell_failure};

/// Bytes of a request: as many as an answer has that goes into a buffer which is kept ready for it
/// ([`MessageSettings::eager_buffer`](svmio_transport::message::MessageSettings)). Longer ones are asked for first, one
/// after the other, and the network rests meanwhile.
pub(super) const PIECE: usize = 60 << 10;

/// A request that is under way.
struct Piece {
    pages: Vec<u64>,
    ticket: Ticket,
    marker: Option<u64>,
    coming: Result<Coming>,
    done: Option<Arc<Done>>,
}

impl Service {
    /// Fetches ahead until the mapping ends.
    pub(super) fn fetch_ahead(&self) {
        keep_under_way(|waits| self.next_piece(waits), |piece| self.finish_piece(piece));
    }

    /// Begins to fetch the next pages that are wanted; `None` where none are, which is waited for if `waits`, or where
    /// the mapping ends.
    fn next_piece(&self, waits: bool) -> Option<Piece> {
        let most = (PIECE / self.memory.page()).max(1);
        let segment_of = |page| self.memory.pages().contains(&page).then(|| self.segment_of(page));
        loop {
            let next = self.ahead.next(waits, most, &self.is_stopping, segment_of)?;
            if let Some(piece) = self.begin_piece(next) {
                return Some(piece);
            }
        }
    }

    /// `None` where nothing of it is to be fetched.
    fn begin_piece(&self, next: Next) -> Option<Piece> {
        let Next { segment: index, mut pages, marker, done } = next;
        // In place it would be told of as changed, while nobody has asked for it.
        if done.is_none() && self.leave_untouched_here(index) {
            return None;
        }
        if let Err(error) = self.settle(index) {
            tell_failure(done, error);
            return None;
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
            tell_failure(done, error);
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
