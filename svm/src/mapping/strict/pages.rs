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
//! Whenever the mutex of the records is free, page tables and records agree. Of two things that meet at a page:
//!
//! | | and | what holds |
//! |---|---|---|
//! | fault | fault | The first makes it Asking; who else comes waits for what the first gets, and faults again if that is not enough. |
//! | grant | order | Both come from the home, perhaps out of order. An order tells by which wish the copy was got that it means: if that is the one that is being asked, the grant is on its way and is waited for; otherwise the order is about what was here before. |
//! | upgrade | order | Who waits to store may have to give up its copy first, when another's store came before at the home; it is then granted with the bytes. |
//! | store | order | The kernel ends protecting when no processor can store any more without a fault: a store came before, and is in what goes home, or it faults. |
//! | order | evict, flush | What is on its way home arrives before the order is obeyed, so that nothing older comes home over something newer. |
//! | load | evict | A page that is leaving can be loaded from until it goes: the home has it given up before another one may store. |
//! | evict | order | A copy for loads goes without a word: the home may still order it given up, which is answered at once. |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use lru::LruCache;

use crate::cluster::NodeIndex;
use crate::mapping::twins::Twin;
use crate::units::SegmentIndex;

/// The states of a page; one that is missing has none.
#[derive(Debug)]
pub(super) enum State {
    /// Its home was asked.
    Asking { ticket: u64, is_exclusive: bool, has_copy: bool },
    /// In place, protected: a copy for loads.
    Shared,
    /// In place, open: nobody else has a copy. Where its bytes are not those of the twin, they were stored here.
    Exclusive {
        twin: Arc<Twin>,
        /// What was stored is on its way home.
        is_flushing: bool,
    },
    /// In place, protected: what was stored is on its way home, and then the page goes. To the home it is a copy for loads
    /// as soon as that has arrived.
    Leaving { twin: Arc<Twin> },
    /// Poisoned: nobody grants it.
    Lost,
}

impl State {
    /// How many pages' memory it takes.
    fn weight(&self) -> usize {
        match self {
            State::Asking { .. } | State::Shared => 1,
            State::Exclusive { .. } | State::Leaving { .. } => 2,
            State::Lost => 0,
        }
    }
}

#[derive(Debug)]
struct Record {
    state: State,
    /// When it was put in place, or opened, for a thread that waited.
    since: Option<Instant>,
}

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
    used: usize,
    tickets: u64,
}

impl Default for Pages {
    fn default() -> Pages {
        Pages { records: LruCache::unbounded(), homes: HashMap::new(), used: 0, tickets: 0 }
    }
}

impl Pages {
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

    /// Gives a page a state; it counts as used last.
    pub(super) fn set(&mut self, page: u64, state: State, since: Option<Instant>) {
        self.used += state.weight();
        if let Some(old) = self.records.put(page, Record { state, since }) {
            self.used -= old.state.weight();
        }
    }

    /// Gives a page another state, its place in the order kept.
    pub(super) fn change(&mut self, page: u64, state: State) -> Option<State> {
        let record = self.records.peek_mut(&page)?;
        self.used = self.used + state.weight() - record.state.weight();
        Some(std::mem::replace(&mut record.state, state))
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
