//! What is known of each peer: its address, what it was sent, what of that has arrived, what came from it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::endpoint::Address;
use super::withdrawn::Withdrawn;
use crate::units::Rank;

/// A process of the job.
pub(super) struct Peer {
    /// Which.
    pub(super) rank: Rank,
    /// Its endpoint's name.
    pub(super) name: Vec<u8>,
    /// The longest message, in bytes, that can be sent to it.
    pub(super) message_bytes: usize,
    /// Its memory that anybody may write zeros to: key, and where it begins.
    pub(super) anchor: (u64, u64),
    /// Whether this process has connected to a segment of it.
    pub(super) is_connected: AtomicBool,
    /// Whether a transfer has arrived there of which its waiters were not told.
    pub(super) has_landed: AtomicBool,
    /// Whether it was taken for lost over a message that did not arrive, of which it may know nothing.
    pub(super) has_parted: AtomicBool,
    outgoing: Mutex<Outgoing>,
    arrived: AtomicU64,
    refused: AtomicU64,
    failures: AtomicU64,
    answers: AtomicU64,
    signs: AtomicU64,
    incoming: Incoming,
}

/// What leaves for a peer. Whoever holds it posts to that peer, so numbers leave in order.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The provider's name for it, once it was needed.
    pub(super) address: Option<Address>,
    /// Whether the peer was given up: nothing is posted to it any more.
    pub(super) is_given_up: bool,
    /// Whether the last question or answer did not leave because this process lacks what that takes.
    pub(super) is_short: bool,
    /// The number of the last numbered message.
    pub(super) sent: u64,
    /// Answers that could not leave yet.
    pub(super) answers: VecDeque<Vec<u8>>,
    /// Since when the first of them waits.
    pub(super) waits_since: Option<Instant>,
    /// Memory of it where nothing is begun any more.
    pub(super) withdrawn: Withdrawn,
}

impl Peer {
    /// One of whom only the address is known.
    pub(super) fn new(rank: Rank, name: Vec<u8>, message_bytes: usize, anchor: (u64, u64)) -> Self {
        Self {
            rank,
            name,
            message_bytes,
            anchor,
            is_connected: AtomicBool::new(false),
            has_landed: AtomicBool::new(false),
            has_parted: AtomicBool::new(false),
            outgoing: Mutex::default(),
            arrived: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            signs: AtomicU64::new(0),
            incoming: Incoming::default(),
        }
    }

    /// What leaves for it. Never held while waiting.
    pub(super) fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has told that it applied, or refused, all messages up to `number`.
    pub(super) fn has_applied(&self, number: u64) -> bool {
        // Acquire: whoever sees the answer sees the failures that it told of.
        self.arrived.load(Ordering::Acquire) >= number
    }

    /// How many messages up to `number` it has not told of.
    pub(super) fn unapplied(&self, number: u64) -> u64 {
        // Relaxed: only a number.
        number.saturating_sub(self.arrived.load(Ordering::Relaxed))
    }

    /// It told that it has applied all messages up to `number`.
    pub(super) fn note_applied(&self, number: u64) {
        // Release: pairs with `has_applied`.
        self.arrived.fetch_max(number, Ordering::Release);
    }

    /// It told that it refused or missed so many messages in all.
    pub(super) fn note_refused(&self, refused: u64) {
        if self.refused.fetch_max(refused, Ordering::Relaxed) < refused {
            self.note_failure();
        }
    }

    /// A transfer to it failed.
    pub(super) fn note_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// How many transfers to it failed.
    pub(super) fn failures(&self) -> u64 {
        // Whoever compares two of these has waited for the transfers in between, which orders it after them.
        self.failures.load(Ordering::Relaxed)
    }

    /// It has answered a question.
    pub(super) fn note_answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it has.
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// It gave a sign of life: a message came, or a transfer with it has arrived.
    pub(super) fn note_sign(&self) {
        // Relaxed: it is only counted.
        self.signs.fetch_add(1, Ordering::Relaxed);
    }

    /// How many it has given.
    pub(super) fn signs(&self) -> u64 {
        self.signs.load(Ordering::Relaxed)
    }

    /// What came from it.
    pub(super) fn incoming(&self) -> &Incoming {
        &self.incoming
    }
}

/// What came from a peer. Changed only by whoever reads completions, which is one thread at a time.
#[derive(Default)]
pub(super) struct Incoming {
    latest: AtomicU64,
    clean: AtomicU64,
    refused: AtomicU64,
    told: AtomicU64,
    is_broken: AtomicBool,
}

/// What the number of a message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Heard {
    /// All messages before it have come.
    InOrder,
    /// Not all, as this one shows: that of number `expected` did not come before it.
    OutOfOrder { expected: u64 },
    /// Some are missing since long.
    AfterGap,
}

impl Incoming {
    /// A message came: a numbered one, or one with the number of the last numbered one before. After a gap none is to
    /// be applied any more: what follows may rely on what is missing.
    pub(super) fn hear(&self, number: u64, is_numbered: bool) -> Heard {
        let latest = self.latest.fetch_max(number, Ordering::Relaxed);
        let expected = latest.saturating_add(u64::from(is_numbered));
        let missing = number.saturating_sub(expected);
        if missing > 0 {
            self.refused.fetch_add(missing, Ordering::Relaxed);
        }
        // An answer may have waited for room while numbered ones went before it.
        let is_in_order = number == expected || (!is_numbered && missing == 0);
        match (is_in_order, self.is_broken.load(Ordering::Relaxed)) {
            (_, true) => Heard::AfterGap,
            (true, false) => Heard::InOrder,
            (false, false) => {
                self.is_broken.store(true, Ordering::Relaxed);
                Heard::OutOfOrder { expected: latest.saturating_add(1) }
            }
        }
    }

    /// Whether any numbered message has come.
    pub(super) fn has_heard(&self) -> bool {
        self.latest.load(Ordering::Relaxed) > 0
    }

    /// The message of this number has been applied, or not.
    pub(super) fn note(&self, number: u64, is_applied: bool) {
        if !is_applied {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        // From the first refusal on, the sender learns by asking only: that way it learns of all.
        if self.refused.load(Ordering::Relaxed) == 0 {
            // Release: whoever tells the sender has applied what it tells of.
            self.clean.store(number, Ordering::Release);
        }
    }

    /// How many messages were refused or missed.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Up to which number all were applied.
    pub(super) fn applied(&self) -> u64 {
        // Acquire: pairs with `note`.
        self.clean.load(Ordering::Acquire)
    }

    /// The same, to be told to the sender.
    pub(super) fn tell_applied(&self) -> u64 {
        let applied = self.applied();
        // Relaxed, here and below: whoever tells it once too often, or of none, does no harm.
        self.told.fetch_max(applied, Ordering::Relaxed);
        applied
    }

    /// Whether the sender was told of all of them.
    pub(super) fn has_told_all(&self) -> bool {
        self.told.load(Ordering::Relaxed) >= self.applied()
    }
}

#[cfg(test)]
mod tests {
    use super::{Heard, Incoming, Peer};
    use crate::units::Rank;

    #[test]
    fn messages_in_order_are_admitted_and_told_of() {
        let incoming = Incoming::default();
        assert_eq!(incoming.hear(0, false), Heard::InOrder);
        assert!(!incoming.has_heard());
        for number in 1..=3 {
            assert_eq!(incoming.hear(number, true), Heard::InOrder);
            incoming.note(number, true);
            assert_eq!(incoming.hear(number, false), Heard::InOrder);
        }
        // An answer that had to wait.
        assert_eq!(incoming.hear(1, false), Heard::InOrder);
        assert_eq!((incoming.applied(), incoming.refused()), (3, 0));
        assert!(!incoming.has_told_all() && incoming.tell_applied() == 3 && incoming.has_told_all());
    }

    #[test]
    fn after_a_gap_nothing_is_applied_and_the_sender_learns_it() {
        let incoming = Incoming::default();
        assert_eq!(incoming.hear(1, true), Heard::InOrder);
        incoming.note(1, true);
        assert_eq!(incoming.hear(3, true), Heard::OutOfOrder { expected: 2 });
        incoming.note(3, false);
        assert_eq!(incoming.hear(4, true), Heard::AfterGap);
        incoming.note(4, false);
        assert_eq!((incoming.applied(), incoming.refused()), (1, 3));
        // The last ones before a question are missing, too.
        assert_eq!(incoming.hear(6, false), Heard::AfterGap);
        assert_eq!(incoming.refused(), 5);
    }

    #[test]
    fn any_message_shows_a_gap_and_so_does_a_number_that_came_before() {
        let incoming = Incoming::default();
        assert_eq!(incoming.hear(2, false), Heard::OutOfOrder { expected: 1 });
        assert_eq!(incoming.refused(), 2);
        let incoming = Incoming::default();
        assert_eq!(incoming.hear(1, true), Heard::InOrder);
        assert_eq!(incoming.hear(1, true), Heard::OutOfOrder { expected: 2 });
    }

    #[test]
    fn a_refused_write_fails_the_check_once_for_each_question() {
        let peer = Peer::new(Rank(1), Vec::new(), 512, (0, 0));
        peer.note_refused(0);
        assert_eq!(peer.failures(), 0);
        peer.note_refused(2);
        peer.note_applied(7);
        assert!(peer.has_applied(7) && !peer.has_applied(8));
        assert_eq!(peer.failures(), 1);
        peer.note_refused(2);
        assert_eq!(peer.failures(), 1);
    }
}
