//! Peers that have not told for long that they applied a message, that give no sign of life, or have to hear of a loss.
//!
//! A provider over TCP says that a message has left when the kernel has its bytes. If the connection breaks then, they
//! are gone, and neither side hears of it: who sent goes on, and who should have received waits. What comes next shows
//! it by its number; where both wait for each other, nothing does. So the attendant asks: the question carries the
//! number of the last message, and whoever misses one takes the sender for lost, as after any gap. It says so, also
//! where it lost a message of its own, since the other one, which is alive, may wait for what comes no more.
//!
//! Where the way to a peer swallows everything, the watchdog may hear of it by another one, and the kernel goes on
//! trying for a quarter of an hour. So a peer that has not told of a message, or from or to which a chain is under way,
//! and gives no sign of life, though it is asked, is lost after the time that any answer may take; with a chain under
//! way also where its connection takes no question, unless it is this process that lacks what that takes.

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

/// The most that counts of the time between two looks: longer ones mean that this process stood still itself.
const LONGEST_STEP: Duration = Duration::from_secs(3);

/// At how many looks a peer is told of a loss that may be dead: what goes down with a connection is said again.
const TELLS: u32 = 32;

/// What the attendant remembers of its looks.
pub(super) struct Unheard {
    looked: Instant,
    waiting: HashMap<Rank, Waiting>,
    silences: HashMap<Rank, Silence>,
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

/// A peer that owes something, and has given no sign of life since.
struct Silence {
    /// How many it had given by then.
    signs: u64,
    /// At how many looks after that there was no more.
    looks: u32,
    /// Whether the provider has taken the last question, once there was one.
    is_taken: Option<bool>,
    /// For how long that counts, since it was asked first.
    waited: Duration,
}

impl Silence {
    /// Why the peer is lost over it.
    fn reason(&self) -> String {
        let what = match self.is_taken {
            Some(true) => "it was asked, and told nothing",
            Some(false) | None => "its connection took no question",
        };
        format!("{what} for {:?}", self.waited)
    }
}

impl Unheard {
    pub(super) fn new(now: Instant) -> Unheard {
        Unheard { looked: now, waiting: HashMap::new(), silences: HashMap::new(), parted: HashMap::new() }
    }

    /// Asks peers that have told nothing since the look before last, and tells those of a loss that know nothing of it.
    pub(super) fn look(&mut self, adapter: &Adapter, now: Instant) {
        let passed = now.saturating_duration_since(self.looked);
        if passed < INTERVAL {
            return;
        }
        self.looked = now;
        let expected = adapter.chains.expected();
        for peer in adapter.peers.iter().filter(|peer| peer.rank != adapter.rank()) {
            let message = match peer.has_parted.load(Ordering::Relaxed) {
                true if self.take_note_of_parted(peer) => Message::Parted,
                false if adapter.membership.check(peer.rank).is_ok() => {
                    let is_unsure = self.take_note(peer);
                    let is_expected = expected.contains(&peer.rank);
                    let is_silent = self.take_note_of_silence(peer, is_expected, passed.min(LONGEST_STEP));
                    if let Some(silence) = self.silences.get(&peer.rank)
                        && silence.waited >= adapter.settings.answer_limit()
                    {
                        // What has come by now, while this process stood still itself, is only to be read. Where
                        // another thread is about that, the next look decides.
                        let is_read = matches!(adapter.process(), Ok(Some(_)));
                        if is_read && peer.signs() == silence.signs {
                            adapter.membership.declare_lost(peer.rank, silence.reason());
                        }
                        continue;
                    }
                    if !is_unsure && !is_silent {
                        continue;
                    }
                    Message::Barrier
                }
                _ => continue,
            };
            // Closed meanwhile, there is nobody to tell.
            let is_taken = adapter.with_endpoint(|endpoint| {
                // What finds no room, or goes down with a connection, is said again.
                Ok(adapter.post_repeated(endpoint, peer, &mut peer.outgoing(), &message))
            });
            if let Some(silence) = self.silences.get_mut(&peer.rank) {
                silence.is_taken = Some(matches!(is_taken, Ok(true)));
            }
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

    /// Takes note of the silence of a peer that owes something; says whether it is to be asked now, likewise, or until
    /// the provider takes the question where a chain is under way.
    fn take_note_of_silence(&mut self, peer: &Peer, is_expected: bool, passed: Duration) -> bool {
        let outgoing = peer.outgoing();
        let (sent, is_short) = (outgoing.sent, outgoing.is_short);
        drop(outgoing);
        let owes = !peer.has_applied(sent) || is_expected;
        let signs = peer.signs();
        match self.silences.get_mut(&peer.rank) {
            Some(silence) if owes && silence.signs == signs => {
                // Where the provider takes no question there is no connection. The peer may have left, which matters
                // to nobody but those who wait for it.
                let counts = match silence.is_taken {
                    None => false,
                    Some(is_taken) => is_taken || (is_expected && !is_short),
                };
                silence.waited = if counts { silence.waited + passed } else { Duration::ZERO };
                silence.looks = silence.looks.saturating_add(1);
                silence.looks.is_power_of_two() || (is_expected && silence.is_taken == Some(false))
            }
            _ if owes => {
                let silence = Silence { signs, looks: 0, is_taken: None, waited: Duration::ZERO };
                self.silences.insert(peer.rank, silence);
                false
            }
            _ => {
                self.silences.remove(&peer.rank);
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
