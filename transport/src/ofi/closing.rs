//! The end of an adapter.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::adapter::Adapter;
use super::attendant::Task;
use super::wire::Message;
use crate::stopwatch::Stopwatch;

/// How long closing waits for what has been sent to arrive while no sign comes that any of it does. What a network has
/// taken already shows none until all of it is there, nor does a peer whose turn on the processor does not come.
const QUIET: Duration = Duration::from_secs(1);

/// How long it waits for what is no message: transfers that were handed over, and are ended by closing.
const FAREWELL: Duration = Duration::from_millis(200);

/// How long is waited: until nothing is left, or no sign of progress comes, or the limit has passed.
struct Leaving<const KINDS: usize> {
    waited: Stopwatch,
    quiet: Stopwatch,
    limit: Duration,
    least: [u64; KINDS],
}

impl<const KINDS: usize> Leaving<KINDS> {
    fn new(now: Instant, limit: Duration) -> Self {
        Self { waited: Stopwatch::new(now), quiet: Stopwatch::new(now), limit, least: [u64::MAX; KINDS] }
    }

    /// Whether to go on, where so much is left of each kind.
    fn goes_on(&mut self, now: Instant, left: [u64; KINDS]) -> bool {
        let mut is_less = false;
        for (least, left) in self.least.iter_mut().zip(left) {
            is_less |= left < *least;
            *least = left.min(*least);
        }
        if is_less {
            self.quiet = Stopwatch::new(now);
        }
        let (quiet, waited) = (self.quiet.look(now), self.waited.look(now));
        left != [0; KINDS] && quiet < QUIET && waited < self.limit
    }
}

impl Adapter {
    /// Ends all, once.
    pub(super) fn close(&self) {
        self.say_farewell();
        self.stop_attendant();
        self.interrupts.close();
        // Only after the farewell: whoever is sent something is not given up before.
        self.membership.declare_ending("the fabric was closed");
        // Registrations first, then the endpoint, which lets go of all buffers, then the memory. Whoever finds the
        // endpoint gone can rely on the provider's having let go of everything.
        let segments = self.exports.clear();
        self.anchor.withdraw();
        self.withdraw_drains();
        let mut endpoint = self.endpoint.write().unwrap_or_else(PoisonError::into_inner);
        drop(endpoint.take());
        drop(endpoint);
        self.end_drains();
        self.end_all_chains();
        for task in self.attendant.take_tasks() {
            if let Task::Finish { done, result } = task {
                done.finish(result);
            }
        }
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).clear();
        drop(segments);
        // Release: whoever sees it sees how the chains ended.
        self.is_over.store(true, Ordering::Release);
        self.waiters.look_again();
    }

    /// Waits for what has been sent to arrive, as long as it does: closing a socket may drop it. Tells the others what
    /// has arrived of theirs, so that they need not wait for who is gone.
    fn say_farewell(&self) {
        let began = Instant::now();
        self.tell_applied();
        let mut expected = Vec::new();
        for peer in self.peers.iter().filter(|peer| peer.rank != self.rank()) {
            let sent = peer.outgoing().sent;
            if peer.has_applied(sent) || self.membership.check(peer.rank).is_err() {
                continue;
            }
            // Queued where there is no room; closed already, there is nobody to ask.
            let asked = self.with_endpoint(|endpoint| {
                self.answer(endpoint, peer, &Message::Barrier);
                Ok(())
            });
            if asked.is_ok() {
                expected.push((peer, sent));
            }
        }
        let mut leaving = Leaving::new(began, self.settings.answer_limit());
        loop {
            expected
                .retain(|(peer, sent)| !peer.has_applied(*sent) && self.membership.check(peer.rank).is_ok());
            let unapplied = expected.iter().map(|(peer, sent)| peer.unapplied(*sent)).sum();
            let under_way = self.with_endpoint(|endpoint| Ok(endpoint.leaving() as u64)).unwrap_or(0);
            let answers = self.waiting_answers.load(Ordering::Relaxed);
            let now = Instant::now();
            let goes_on = leaving.goes_on(now, [unapplied, under_way, answers])
                || (self.has_leftovers() && now.saturating_duration_since(began) < FAREWELL);
            if !goes_on {
                break;
            }
            if self.process().is_err() {
                return;
            }
            thread::sleep(Duration::from_micros(100));
        }
        for (peer, sent) in expected {
            let messages = peer.unapplied(sent);
            tracing::info!(peer = %peer.rank, messages, "closed before it told that it has all it was sent");
        }
        self.tell_applied();
    }

    /// Tells those who do not know how many of their messages were applied. Who has left already need not hear it.
    fn tell_applied(&self) {
        for peer in self.peers.iter().filter(|peer| peer.rank != self.rank()) {
            let incoming = peer.incoming();
            if incoming.has_told_all() || self.membership.check(peer.rank).is_err() {
                continue;
            }
            let message = Message::Applied { number: incoming.applied(), refused: incoming.refused() };
            // Closed already, there is nobody to tell.
            let _ = self.with_endpoint(|endpoint| {
                self.post_repeated(endpoint, peer, &mut peer.outgoing(), &message);
                Ok(())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Leaving, QUIET};

    const STEP: Duration = Duration::from_millis(50);

    /// For how long is waited where so much is left of two kinds after each step.
    fn waited(limit: Duration, left: impl Fn(u32) -> [u64; 2]) -> Duration {
        let began = Instant::now();
        let mut leaving = Leaving::new(began, limit);
        let steps = (0..).find(|step| !leaving.goes_on(began + STEP * *step, left(*step)));
        STEP * steps.unwrap_or(u32::MAX)
    }

    #[test]
    fn closing_waits_as_long_as_what_was_sent_goes_on_arriving() {
        let limit = Duration::from_secs(30);
        assert_eq!(waited(limit, |_| [0, 0]), Duration::ZERO);
        // Nothing arrives, or no more than that.
        assert_eq!(waited(limit, |_| [7, 0]), QUIET);
        assert_eq!(waited(limit, |step| [100 - u64::from(step.min(20)), 0]), STEP * 20 + QUIET);
        // One after the other, for a long time.
        assert_eq!(waited(limit, |step| [u64::from(500_u32.saturating_sub(step)), 0]), STEP * 500);
        // Of one kind, while the other grows.
        let turns = |step: u32| [u64::from(90_u32.saturating_sub(step)), u64::from(step % 90)];
        assert_eq!(waited(limit, turns), STEP * 90);
        // For ever.
        assert_eq!(waited(limit, |step| [1_000_000 - u64::from(step), 1]), limit);
    }
}
