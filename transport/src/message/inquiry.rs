//! Asking peers of whom nothing was heard whether they have closed.
//!
//! A peer that has begun to talk tells of its end itself. One that has not does not know who waits for it: so it is asked
//! once, after a while, and tells of its end from then on, as [`ports`](crate::ports) says.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::engine::Engine;
use super::link::Link;
use crate::error::Error;
use crate::ports::{IS_CLOSED, Listener, Notice};
use crate::units::{Rank, Time};

/// How long a peer may say nothing before it is asked: longer than processes that start together take to talk.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long an answer is waited for. It needs nothing of the peer's program, and who asks does nothing else meanwhile.
const ANSWER: Duration = Duration::from_millis(200);

/// How long it takes at most until a peer that does not answer is asked again. Each time it is twice as long.
const LONGEST: Duration = Duration::from_secs(30);

/// After how long one that seems to be gone is asked again: for as long, what tells why is waited for.
const GONE: Duration = Duration::from_secs(1);

/// Nobody has waited for it yet.
const IDLE: u64 = 0;

/// Somebody is about it.
const BUSY: u64 = u64::MAX - 1;

/// There is nothing more to ask.
const SETTLED: u64 = u64::MAX;

/// When a peer is to be asked.
#[derive(Debug, Default)]
pub(super) struct Inquiry {
    /// When, or one of the three above.
    next: AtomicU64,
    /// How often it was asked, by whoever is about it.
    asked: AtomicU32,
    /// How often it seemed to be gone.
    gone: AtomicU32,
}

impl Inquiry {
    /// When it is to be asked, if it is.
    fn due(&self) -> Option<Time> {
        // Relaxed, here and below: only a number, and what it says of the peer stands elsewhere.
        let next = self.next.load(Ordering::Relaxed);
        (next != IDLE && next < BUSY).then_some(Time(next))
    }

    /// How long until it is asked again, when it has not answered.
    fn pause(&self) -> Duration {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        PATIENCE.saturating_mul(1 << asked.min(10)).min(LONGEST)
    }
}

impl Link {
    /// To be called when somebody waits for a message of the peer by name.
    #[inline]
    pub(super) fn expect(&self) {
        if self.inquiry.next.load(Ordering::Relaxed) == IDLE {
            self.begin_inquiry();
        }
    }

    #[cold]
    fn begin_inquiry(&self) {
        let context = &self.context;
        let is_settled = self.peer == context.fabric.rank() || self.has_heard();
        let next =
            if is_settled { SETTLED } else { context.fabric.now().after(PATIENCE).0.clamp(1, BUSY - 1) };
        let begun = self.inquiry.next.compare_exchange(IDLE, next, Ordering::Relaxed, Ordering::Relaxed);
        if begun.is_ok() && !is_settled {
            context.inquiries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether there is nothing to be asked: the peer talks, or nothing more is expected of it.
    fn needs_no_inquiry(&self) -> bool {
        let signs = &self.signs;
        self.has_heard() || signs.failed.load(Ordering::Relaxed) || signs.closed.load(Ordering::Relaxed)
    }

    /// There is nothing more to ask, if that was still so at `then`.
    fn settle_inquiry(&self, then: u64) {
        let settled = self.inquiry.next.compare_exchange(then, SETTLED, Ordering::Relaxed, Ordering::Relaxed);
        if settled.is_ok() {
            self.context.inquiries.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Notes that the peer has closed, for whoever next has the turn.
    fn note_closing(&self) {
        // Release: pairs with the load in a step, which is made because of the second.
        self.signs.left.store(true, Ordering::Release);
        self.signs.attention.store(true, Ordering::Release);
        self.context.stir();
    }
}

impl Engine {
    /// When the next peer is to be asked, if one is.
    pub(super) fn next_inquiry(&self) -> Option<Time> {
        if self.context.inquiries.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let due = |link: &std::sync::Arc<Link>| {
            let due = link.inquiry.due()?;
            if link.needs_no_inquiry() {
                link.settle_inquiry(due.0);
                return None;
            }
            Some(due)
        };
        self.links.iter().filter_map(due).min()
    }

    /// Whether it is time to ask one.
    pub(super) fn is_inquiry_due(&self) -> bool {
        self.next_inquiry().is_some_and(|due| self.context.fabric.now() >= due)
    }

    /// Asks those for whom it is time, until `stop` holds. Must not be called by who has a turn.
    pub(super) fn inquire(&self, stop: impl Fn() -> bool) {
        if !self.is_inquiry_due() {
            return;
        }
        let now = self.context.fabric.now();
        for link in self.links.iter() {
            if stop() {
                return;
            }
            if let Some(due) = link.inquiry.due().filter(|due| *due <= now) {
                let next = &link.inquiry.next;
                if next.compare_exchange(due.0, BUSY, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    self.inquire_of(link);
                }
            }
        }
    }

    fn inquire_of(&self, link: &Link) {
        let (context, peer) = (&self.context, link.peer);
        let notice = Notice::Awaits { space: context.space, number: context.number() };
        let pause = match context.back_end().inquire(peer, notice.encode(), ANSWER) {
            Ok(Some(IS_CLOSED)) => None,
            Ok(Some(_)) => return link.settle_inquiry(BUSY),
            // What was declared lost has ended by that.
            Err(_) if self.check(peer).is_err() => return link.settle_inquiry(BUSY),
            // It is gone. Where it was killed, that is soon declared.
            Err(Error::PeerLost { .. }) => {
                let is_first = link.inquiry.gone.fetch_add(1, Ordering::Relaxed) == 0;
                is_first.then_some(GONE)
            }
            // It has not come so far, or does not answer.
            Ok(None) | Err(_) => Some(link.inquiry.pause()),
        };
        match pause {
            Some(pause) => {
                let next = context.fabric.now().after(pause).0.clamp(1, BUSY - 1);
                link.inquiry.next.store(next, Ordering::Relaxed);
            }
            None => {
                link.settle_inquiry(BUSY);
                link.note_closing();
            }
        }
    }
}

impl Listener for Engine {
    fn peer_has_closed(&self, peer: Rank) {
        if let Some(link) = self.links.get(peer) {
            link.note_closing();
        }
    }
}
