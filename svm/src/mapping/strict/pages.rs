//! What a page of a strict mapping can be.
//!
//! ```text
//!                  a load, or a store           granted for loads
//!   (no record) ────────────────────► Asking ─────────────────────► Shared ◄────────────────┐
//!     missing                         │  ▲ │                    in place, protected         │ others want to load
//!     ▲  ▲  ▲      nobody grants it   │  │ │ granted for stores    │    │                   │
//!     │  │  └── Lost ◄────────────────┘  │ └───────────────────────┼────┼──────────► Exclusive
//!     │  │    poisoned     a store, which needs the others' copies │    │       in place, open, with a twin
//!     │  └── refreshed                  └─────────────────────────┘    │              │    │
//!     ├─── others want to store, no room, refreshed ───────────────────┘              │    │ no room, refreshed
//!     ├─── others want to store ──────────────────────────────────────────────────────┘    ▼
//!     └─── home ────────────────────────────────────────────────────────────────────── Leaving: in place, protected
//! ```
//!
//! Neighbours of pages that are loaded from are asked for ahead, as copies for loads. The first of them is *Ready*
//! until it is touched: here like Shared, and not in place.
//!
//! Whenever the mutex of the records is free, page tables and records agree. Of two things that meet at a page:
//!
//! | | and | what holds |
//! |---|---|---|
//! | fault | fault | The first makes it Asking; who else comes waits for what the first gets, and faults again if that is not enough. |
//! | grant | order | Both come from the home, perhaps out of order. An order tells by which wish the copy was got that it means: if that is the one that is being asked, the grant is on its way and is waited for; otherwise the order is about what was here before. |
//! | ahead | order | As for a grant, which comes at once, or not at all: of a page that is another's to store into, or that is waited for, nothing is granted ahead. |
//! | ahead | fault | Who comes to a page that is asked for ahead is woken by its grant, or, where it is not granted, to fault again. |
//! | asked | refresh | What was asked for before a refresh may be older than it: it is waited for, and goes with the rest. |
//! | upgrade | refresh | A copy that may be stored into without coming anew is as old as it was: it is waited for, and goes, too. |
//! | upgrade | order | Who waits to store may have to give up its copy first, when another's store came before at the home; it is then granted with the bytes. |
//! | store | order | The kernel ends protecting when no processor can store any more without a fault: a store came before, and is in what goes home, or it faults. |
//! | order | evict, flush | What is on its way home arrives before the order is obeyed, so that nothing older comes home over something newer. |
//! | flush | order | What was stored into a page that has been given up is on its way home, which is waited for. |
//! | load | evict | A page that is leaving can be loaded from until it goes: the home has it given up before another one may store. |
//! | evict | order | A copy for loads goes at once, and its home is told later: it may still order it given up, which is answered at once. What is told names the wish, so that it is not about a copy that was got since. |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use lru::LruCache;

use crate::cluster::{Gone, NodeIndex, PagePlace};
use crate::mapping::streams::Streams;
use crate::mapping::twins::Twin;
use crate::units::SegmentIndex;

use super::returning::Returning;

/// The states of a page; one that is missing has none.
#[derive(Debug)]
pub(super) enum State {
    /// Its home was asked.
    Asking {
        ticket: u64,
        is_exclusive: bool,
        has_copy: bool,
        /// A thread waits for it.
        is_wanted: bool,
    },
    /// A copy for loads, fetched ahead: its bytes are here, and are put in place when somebody touches the page, which
    /// tells that more is worth being fetched ahead.
    Ready(Box<[u8]>),
    /// In place, protected: a copy for loads.
    Shared,
    /// In place, open: nobody else has a copy. Where its bytes are not those of the twin, they were stored here.
    Exclusive {
        twin: Arc<Twin>,
        /// What was stored is on its way home.
        is_flushing: bool,
    },
    /// In place, protected: what was stored is on its way home, and then the page goes. To the home it is a copy for
    /// loads as soon as that has arrived.
    Leaving { twin: Arc<Twin> },
    /// Poisoned: nobody grants it.
    Lost,
}

impl State {
    /// Whether it is a copy for loads, which goes without a word.
    pub(super) fn is_copy(&self) -> bool {
        matches!(self, State::Ready(_) | State::Shared)
    }

    /// By which wish bytes are to come.
    fn brings(&self) -> Option<u64> {
        match self {
            State::Asking { ticket, has_copy: false, .. } => Some(*ticket),
            _ => None,
        }
    }

    /// How many pages' memory it takes.
    fn weight(&self) -> usize {
        match self {
            State::Asking { is_exclusive: false, .. } | State::Ready(_) | State::Shared => 1,
            // With its twin, or room for it.
            State::Asking { .. } | State::Exclusive { .. } | State::Leaving { .. } => 2,
            State::Lost => 0,
        }
    }
}

#[derive(Debug)]
struct Record {
    state: State,
    /// By which wish it was asked for last.
    ticket: u64,
    /// By which wish its bytes came, or are to come.
    bytes: u64,
    /// When it was put in place, or opened, for a thread that waited.
    since: Option<Instant>,
}

/// About the memory that what is known of a page takes, bytes: its record, and its places in a list and in a table that
/// has up to four times as many as are taken.
pub(super) const RECORD: u64 = 168;

/// The most copies that went that a home is told of at a time. Of so many it is told by themselves, of fewer with what it
/// is asked next.
const MOST_GONE: usize = 256;

/// From where a segment's pages come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// There are no other nodes: the segment is mapped in place.
    Direct,
    Node(NodeIndex),
}

/// All that is known.
pub(super) struct Pages {
    /// In the order of their last faults.
    records: LruCache<u64, Record>,
    pub(super) homes: HashMap<SegmentIndex, Home>,
    pub(super) streams: Streams,
    /// Copies for loads that went, of which their homes are not told yet.
    gone: HashMap<NodeIndex, Vec<Gone>>,
    pub(super) returning: Returning,
    used: usize,
    tickets: u64,
}

impl Pages {
    pub(super) fn new(streams: Streams) -> Pages {
        let (records, homes, gone) = (LruCache::unbounded(), HashMap::new(), HashMap::new());
        let returning = Returning::default();
        Pages { records, homes, streams, gone, returning, used: 0, tickets: 0 }
    }

    /// Pages' memory in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn state(&self, page: u64) -> Option<&State> {
        self.records.peek(&page).map(|record| &record.state)
    }

    /// Since when a thread that waited may use it.
    pub(super) fn since(&self, page: u64) -> Option<Instant> {
        self.records.peek(&page)?.since
    }

    /// A thread waits for a page that is asked for.
    pub(super) fn want(&mut self, page: u64) {
        if let Some(Record { state: State::Asking { is_wanted, .. }, .. }) = self.records.peek_mut(&page) {
            *is_wanted = true;
        }
    }

    /// Whether the bytes of a page that is here, or is being asked for, may be older than that ticket.
    pub(super) fn is_older(&self, page: u64, than: u64) -> bool {
        let record = self.records.peek(&page).filter(|record| !matches!(record.state, State::Lost));
        record.is_some_and(|record| record.bytes < than)
    }

    /// Gives a page a state; it counts as used last.
    pub(super) fn set(&mut self, page: u64, state: State, since: Option<Instant>) {
        self.used += state.weight();
        let (asked, bytes) = self.records.peek(&page).map_or((0, 0), |record| (record.ticket, record.bytes));
        let ticket = if let State::Asking { ticket, .. } = state { ticket } else { asked };
        let bytes = state.brings().unwrap_or(bytes);
        if let Some(old) = self.records.put(page, Record { state, ticket, bytes, since }) {
            self.used -= old.state.weight();
        }
    }

    /// Gives a page another state, its place in the order kept.
    pub(super) fn change(&mut self, page: u64, state: State) -> Option<State> {
        let record = self.records.peek_mut(&page)?;
        self.used = self.used + state.weight() - record.state.weight();
        record.bytes = state.brings().unwrap_or(record.bytes);
        Some(std::mem::replace(&mut record.state, state))
    }

    /// Has the home told that a copy for loads goes, which would otherwise be known there for ever: with what it is asked
    /// next, or, of [many](Pages::many_gone), by themselves.
    pub(super) fn note_gone(&mut self, page: u64, place: PagePlace) {
        let ticket = self.records.peek(&page).map(|record| record.ticket);
        if let (Some(ticket), Some(Home::Node(home))) = (ticket, self.homes.get(&place.segment)) {
            self.gone.entry(*home).or_default().push((place, ticket));
        }
    }

    /// What a home is to be told with what it is asked.
    pub(super) fn gone_from(&mut self, home: NodeIndex) -> Vec<Gone> {
        match self.gone.get_mut(&home) {
            Some(gone) if gone.len() > MOST_GONE => gone.split_off(gone.len() - MOST_GONE),
            Some(gone) => std::mem::take(gone),
            None => Vec::new(),
        }
    }

    /// What one of the homes that `may_be_told` is to be told by itself.
    pub(super) fn many_gone(
        &mut self,
        may_be_told: impl Fn(NodeIndex) -> bool,
    ) -> Option<(NodeIndex, Vec<Gone>)> {
        let is_meant =
            |(home, gone): &(&NodeIndex, &Vec<Gone>)| gone.len() >= MOST_GONE && may_be_told(**home);
        let home = *self.gone.iter().find(is_meant)?.0;
        Some((home, self.gone_from(home)))
    }

    /// The page is missing.
    pub(super) fn remove(&mut self, page: u64) -> Option<State> {
        let removed = self.records.pop(&page)?;
        self.used -= removed.state.weight();
        Some(removed.state)
    }

    /// Pages that are not missing, those first that have had no fault for longest.
    pub(super) fn oldest(&self) -> impl Iterator<Item = (u64, &State)> {
        self.records.iter().rev().map(|(page, record)| (*page, &record.state))
    }
}
