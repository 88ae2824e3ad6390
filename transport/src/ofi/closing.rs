//! The end of an adapter.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::adapter::Adapter;
use super::attendant::Task;
use super::wire::Message;

/// How long closing waits for what has been sent to arrive.
const FAREWELL: Duration = Duration::from_millis(200);

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

    /// Gives what has been sent a moment to arrive: closing a socket may drop it.
    fn say_farewell(&self) {
        let began = Instant::now();
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
        while began.elapsed() < FAREWELL {
            expected
                .retain(|(peer, sent)| !peer.has_applied(*sent) && self.membership.check(peer.rank).is_ok());
            let leaving = self.with_endpoint(|endpoint| Ok(endpoint.leaving())).unwrap_or(0);
            if expected.is_empty() && leaving == 0 && !self.has_leftovers() {
                return;
            }
            if self.process().is_err() {
                return;
            }
            thread::sleep(Duration::from_micros(100));
        }
    }
}
