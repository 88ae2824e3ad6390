//! What is known of each peer: its address, what it was sent, what of that has arrived, what came from it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::endpoint::Address;
use crate::units::Rank;

/// A process of the job.
pub(super) struct Peer {
    /// Which.
    pub(super) rank: Rank,
    /// Its endpoint's name.
    pub(super) name: Vec<u8>,
    /// Whether this process has connected to a segment of it.
    pub(super) is_connected: AtomicBool,
    /// Whether a transfer has arrived there of which its waiters were not told.
    pub(super) has_landed: AtomicBool,
    outgoing: Mutex<Outgoing>,
    arrived: AtomicU64,
    refused: AtomicU64,
    failures: AtomicU64,
    answers: AtomicU64,
    incoming: Incoming,
}

/// What leaves for a peer. Whoever holds it posts to that peer, so numbers leave in order.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The provider's name for it, once it was needed.
    pub(super) address: Option<Address>,
    /// Whether the peer was given up: nothing is posted to it any more.
    pub(super) is_given_up: bool,
    /// The number of the last numbered message.
    pub(super) sent: u64,
    /// Answers that could not leave yet.
    pub(super) answers: VecDeque<Vec<u8>>,
}

impl Peer {
    /// One of whom only the address is known.
    pub(super) fn new(rank: Rank, name: Vec<u8>) -> Self {
        Self {
            rank,
            name,
            is_connected: AtomicBool::new(false),
            has_landed: AtomicBool::new(false),
            outgoing: Mutex::default(),
            arrived: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            answers: AtomicU64::new(0),
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
    is_broken: AtomicBool,
}

impl Incoming {
    /// Whether the message of this number is to be applied: it is the next one, and none was ever missing. After a
    /// gap nothing is applied any more: what follows may rely on what is missing.
    pub(super) fn admits(&self, number: u64) -> bool {
        let expected = self.latest.load(Ordering::Relaxed) + 1;
        self.latest.fetch_max(number, Ordering::Relaxed);
        if number != expected {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        !self.is_broken.load(Ordering::Relaxed)
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

    /// The sender asks; the last message it sent before was this one. Answers how many were refused or missed.
    pub(super) fn asked(&self, number: u64) -> u64 {
        let latest = self.latest.fetch_max(number, Ordering::Relaxed);
        if latest < number {
            self.is_broken.store(true, Ordering::Relaxed);
            self.refused.fetch_add(number - latest, Ordering::Relaxed);
        }
        self.refused.load(Ordering::Relaxed)
    }

    /// Up to which number all were applied.
    pub(super) fn applied(&self) -> u64 {
        // Acquire: pairs with `note`.
        self.clean.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::{Incoming, Peer};
    use crate::units::Rank;

    #[test]
    fn messages_in_order_are_admitted_and_told_of() {
        let incoming = Incoming::default();
        for number in 1..=3 {
            assert!(incoming.admits(number));
            incoming.note(number, true);
        }
        assert_eq!((incoming.applied(), incoming.asked(3)), (3, 0));
    }

    #[test]
    fn after_a_gap_nothing_is_applied_and_the_sender_learns_it() {
        let incoming = Incoming::default();
        assert!(incoming.admits(1));
        incoming.note(1, true);
        assert!(!incoming.admits(3));
        incoming.note(3, false);
        assert!(!incoming.admits(4));
        incoming.note(4, false);
        assert_eq!((incoming.applied(), incoming.asked(4)), (1, 2));
        // The last ones before the question are missing, too.
        assert_eq!(incoming.asked(6), 4);
    }

    #[test]
    fn a_refused_write_fails_the_check_once_for_each_question() {
        let peer = Peer::new(Rank(1), Vec::new());
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
