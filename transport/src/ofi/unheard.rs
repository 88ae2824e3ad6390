//! Messages of which a peer has not told for long that it applied them.
//!
//! A provider over TCP says that a message has left when the kernel has its bytes. If the connection breaks then, they
//! are gone, and neither side hears of it: who sent goes on, and who should have received waits. What comes next shows
//! it by its number; where both wait for each other, nothing does. So the attendant asks: the question carries the
//! number of the last message, and whoever misses one takes the sender for lost, as after any gap.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::adapter::Adapter;
use super::peers::Peer;
use super::wire::Message;
use crate::units::Rank;

/// How long between two looks at the least. Peers that talk tell within it what they have applied.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the attendant remembers of its looks.
pub(super) struct Unheard {
    next_look: Instant,
    waiting: HashMap<Rank, Waiting>,
}

/// A message that a peer has not told of.
struct Waiting {
    /// The last one that had left at the first look.
    number: u64,
    /// At how many looks after that it had not told of it.
    looks: u32,
}

impl Unheard {
    pub(super) fn new(now: Instant) -> Unheard {
        Unheard { next_look: now + INTERVAL, waiting: HashMap::new() }
    }

    /// Asks peers that have told nothing since the look before last.
    pub(super) fn look(&mut self, adapter: &Adapter, now: Instant) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + INTERVAL;
        let others = adapter.peers.iter().filter(|peer| peer.rank != adapter.rank());
        let silent: Vec<&Peer> = others.filter(|peer| self.is_due(peer)).collect();
        if silent.is_empty() {
            return;
        }
        // Closed meanwhile, there is nobody to ask.
        let _ = adapter.with_endpoint(|endpoint| {
            silent.iter().for_each(|peer| adapter.answer(endpoint, peer, &Message::Barrier));
            Ok(())
        });
    }

    /// Whether a peer is to be asked now: again after twice as long each time, for one that stands still has to read
    /// all of it when it goes on.
    fn is_due(&mut self, peer: &Peer) -> bool {
        let sent = peer.outgoing().sent;
        if peer.has_applied(sent) {
            self.waiting.remove(&peer.rank);
            return false;
        }
        match self.waiting.get_mut(&peer.rank) {
            Some(waiting) if !peer.has_applied(waiting.number) => {
                waiting.looks = waiting.looks.saturating_add(1);
                waiting.looks.is_power_of_two()
            }
            _ => {
                self.waiting.insert(peer.rank, Waiting { number: sent, looks: 0 });
                false
            }
        }
    }
}
