//! What a page of a mapping can be.
//!
//! ```text
//!                    fault, prefetch                     the bytes are there
//!   (no record) ─────────────────────► Fetching ──────────────────────────────► Clean ◄──────────┐
//!    missing    ◄───────────────────────┤  │ ▲ void: they may be old           in place,        │ home, and nobody
//!      ▲  ▲  ▲        void, or no bytes │  │ └─ refresh                         protected        │ wants to store
//!      │  │  │                          │  └──► Ready ──── fault ────────────────► │  │           │
//!      │  │  │                          │       bytes at hand, to be in place      │  │ store     │
//!      │  │  └── evicted, refreshed ────┼───────────┘  when they are touched       │  ▼           │
//!      │  └───── evicted, refreshed ────┼──────────────────────────────────────────┘ Dirty ───► WritingBack
//!      │                                │                                  in place, open       in place,
//!      │                                ▼ no home                          with a twin   ◄───── protected
//!      │                              Lost: poisoned                                       not home, or a store waits
//!      └── evicted, refreshed: home ──────────────────────────────────────────────────────────────┘
//! ```
//!
//! *In place* is a page that the page tables show; *protected*, where a store to it is a fault. Of a page that is not
//! *in place* a load, too, is a fault. A fetch that a store waits for ends in Dirty at once, by way of Clean.

use std::sync::Arc;

use super::twins::Twin;

/// How often a segment was changed at its home, by whomever, when a page was known to have all of these changes.
pub(super) type Version = u64;

/// Tells a fetch from others of the same page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(pub(super) u64);

/// What is known of a page that is not missing.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) state: PageState,
    /// All changes by others up to this one are in the page; `None` where that is not known.
    pub(super) version: Option<Version>,
}

/// The states of a page; one that is missing has none.
#[derive(Debug)]
pub(super) enum PageState {
    /// Its bytes are on their way.
    Fetching {
        ticket: Ticket,
        /// They may be older than what a refresh has promised since: they are not taken.
        is_void: bool,
        /// A thread waits for them.
        is_wanted: bool,
        /// It was a store for which the fetch was begun: the page is Dirty when they are there.
        is_store: bool,
    },
    /// Its bytes are here, fetched ahead, and are put in place when somebody touches the page: who does so goes on, and
    /// more is worth being fetched ahead.
    Ready(Box<[u8]>),
    /// In place, protected; its bytes are those of home.
    Clean,
    /// In place, open. Where its bytes are not those of the twin, they were stored here.
    Dirty { twin: Arc<Twin> },
    /// In place, protected. What is not in the twin is on its way home.
    WritingBack {
        twin: Arc<Twin>,
        /// A thread waits to store into it.
        is_wanted: bool,
    },
    /// Poisoned: its home was lost.
    Lost,
}

impl PageState {
    /// How many pages' memory it takes.
    pub(super) fn weight(&self) -> usize {
        match self {
            PageState::Fetching { is_store: false, .. } | PageState::Ready(_) | PageState::Clean => 1,
            // With its twin, or room for it.
            PageState::Fetching { .. } | PageState::Dirty { .. } | PageState::WritingBack { .. } => 2,
            PageState::Lost => 0,
        }
    }

    /// Whether some of its bytes may have to go home.
    pub(super) fn is_changed(&self) -> bool {
        matches!(self, PageState::Dirty { .. } | PageState::WritingBack { .. })
    }
}
