//! Messages of which a peer has not told for long that it applied them, and peers that have to hear of a loss.
//!
//! A provider over TCP says that a message has left when the kernel has its bytes. If the connection breaks then, they
//! are gone, and neither side hears of it: who sent goes on, and who should have received waits. What comes next shows
//! it by its number; where both wait for each other, nothing does. So the attendant asks: the question carries the
//! number of the last message, and whoever misses one takes the sender for lost, as after any gap. It says so, also
//! where it lost a message of its own, since the other one, which is alive, may wait for what comes no more.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::adapter::{Adapter, Token};
use super::endpoint::Endpoint;
use super::peers::Peer;
use super::wire::Message;
use crate::units::Rank;

/// How long between two looks at the least. Peers that talk tell within it what they have applied.
const INTERVAL: Duration = Duration::from_secs(1);

/// At how many looks a peer is told of a loss that may be dead: what goes down with a connection is said again.
const TELLS: u32 = 32;

/// What the attendant remembers of its looks.
pub(super) struct Unheard {
    next_look: Instant,
    waiting: HashMap<Rank, Waiting>,
    /// At how many looks a peer was lost here.
    parted: HashMap<Rank, u32>,
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
        Unheard { next_look: now + INTERVAL, waiting: HashMap::new(), parted: HashMap::new() }
    }

    /// Asks peers that have told nothing since the look before last, and tells those of a loss that know nothing of it.
    pub(super) fn look(&mut self, adapter: &Adapter, now: Instant) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + INTERVAL;
        for peer in adapter.peers.iter().filter(|peer| peer.rank != adapter.rank()) {
            let message = match peer.has_parted.load(Ordering::Relaxed) {
                true if self.take_note_of_parted(peer) => Message::Parted,
                false if self.take_note(peer) && adapter.membership.check(peer.rank).is_ok() => {
                    Message::Barrier
                }
                _ => continue,
            };
            // Closed meanwhile, there is nobody to tell.
            let _ = adapter.with_endpoint(|endpoint| {
                // What finds no room, or goes down with a connection, is said again.
                adapter.post_repeated(endpoint, peer, &mut peer.outgoing(), &message);
                Ok(())
            });
        }
    }

    /// Takes note of what a peer has told; says whether it is to be asked now: again after twice as long each time, for
    /// one that stands still has to read all of it when it goes on.
    fn take_note(&mut self, peer: &Peer) -> bool {
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

    /// Likewise of one that is lost here: whether it is to be told now.
    fn take_note_of_parted(&mut self, peer: &Peer) -> bool {
        let looks = self.parted.entry(peer.rank).or_default();
        *looks = looks.saturating_add(1);
        *looks <= TELLS && looks.is_power_of_two()
    }
}

impl Adapter {
    /// Tells a peer at once that it is lost here, over a message that did not arrive.
    pub(super) fn tell_parted(&self, endpoint: &Endpoint<Token>, peer: &Peer) {
        self.post_repeated(endpoint, peer, &mut peer.outgoing(), &Message::Parted);
    }
}
