//! Transfers that were cut off: is the peer dead, or did it refuse them?
//!
//! Providers over TCP close the connection over a transfer to memory that is not exported any more, and say of all
//! that was under way that it was canceled, or that there is no connection. They say the same when the peer has died;
//! and adapters say of the one as of the other that there was an error ([`failures`](super::failures)).
//! So the peer is asked something: if it answers, it is alive and the transfer was refused, or cut off by chance, and
//! may be repeated; if no new connection comes about, it is lost, unless it is this process that lacks what one takes.
//! The same is asked where a message may be missing: where one could not be received, and nobody knows whose, or one
//! that left went down with a connection. The answer, or what comes next, tells.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::adapter::{Adapter, Token};
use super::endpoint::Endpoint;
use super::wire::Message;
use crate::stopwatch::Stopwatch;
use crate::units::Rank;

/// How long a peer has to answer over a new connection. That takes some ms, on a busy machine more; a false alarm would
/// be worse than a late one, and the watchdog is quicker about the dead.
const LIMIT: Duration = Duration::from_secs(5);

/// How often it is asked: a question may go down with the old connection.
const INTERVAL: Duration = Duration::from_millis(50);

/// Transfers of which it is not clear yet why they ended.
#[derive(Default)]
pub(super) struct Doubts {
    all: Mutex<Vec<Doubt>>,
    count: AtomicUsize,
}

struct Doubt {
    rank: Rank,
    /// The transfer, with the provider's code; none where it is only to be seen whether the peer answers.
    failed: Option<(Token, i32)>,
    /// How many answers had come from the peer by then.
    answers: u64,
    waited: Stopwatch,
    /// For how long the questions have not left because this process lacks what that takes, which says nothing of the
    /// peer.
    lacked: Stopwatch,
    asked: Instant,
}

impl Doubts {
    /// Whether there are any.
    pub(super) fn are_open(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
}

impl Adapter {
    /// Leaves a transfer that was cut off to the attendant, or only the question whether the peer still answers.
    pub(super) fn doubt(&self, endpoint: &Endpoint<Token>, rank: Rank, failed: Option<(Token, i32)>) {
        let Some(peer) = self.peers.get(rank.index()) else { return };
        let now = Instant::now();
        let (waited, lacked) = (Stopwatch::new(now), Stopwatch::new(now));
        let doubt = Doubt { rank, failed, answers: peer.answers(), waited, lacked, asked: now };
        let mut all = self.doubts.all.lock().unwrap_or_else(PoisonError::into_inner);
        if doubt.failed.is_none()
            && all.iter().any(|other| (other.rank, other.answers) == (rank, doubt.answers))
        {
            return;
        }
        all.push(doubt);
        self.doubts.count.store(all.len(), Ordering::Relaxed);
        drop(all);
        self.answer(endpoint, peer, &Message::Barrier);
        self.wake_attendant();
    }

    /// Passes on those that have become clear.
    pub(super) fn clear_doubts(&self, now: Instant) {
        if !self.doubts.are_open() {
            return;
        }
        // Closed meanwhile, everything ends otherwise.
        let _ = self.with_endpoint(|endpoint| {
            for (token, code) in self.take_clear(endpoint, now).into_iter().filter_map(|doubt| doubt.failed) {
                self.fail(endpoint, token, code);
            }
            self.waiters.look_again();
            Ok(())
        });
    }

    fn take_clear(&self, endpoint: &Endpoint<Token>, now: Instant) -> Vec<Doubt> {
        let mut all = self.doubts.all.lock().unwrap_or_else(PoisonError::into_inner);
        let is_clear = |doubt: &mut Doubt| {
            let peer = self.peers.get(doubt.rank.index());
            let is_short = peer.is_some_and(|peer| peer.outgoing().is_short);
            let waited = doubt.waited.look_if(now, !is_short);
            // Whoever repeats the transfer is told of the shortage.
            let is_hopeless = doubt.lacked.look_if(now, is_short) >= LIMIT;
            let is_alive = peer.is_some_and(|peer| peer.answers() > doubt.answers);
            if !is_alive && waited >= LIMIT {
                let reason = "its connection broke, and no new one comes about";
                self.membership.declare_lost(doubt.rank, reason);
            }
            is_alive || is_hopeless || self.membership.check(doubt.rank).is_err()
        };
        let clear = all.extract_if(.., is_clear).collect();
        for doubt in all.iter_mut().filter(|doubt| now.saturating_duration_since(doubt.asked) >= INTERVAL) {
            doubt.asked = now;
            if let Some(peer) = self.peers.get(doubt.rank.index()) {
                self.answer(endpoint, peer, &Message::Barrier);
            }
        }
        self.doubts.count.store(all.len(), Ordering::Relaxed);
        clear
    }
}
