//! Memory of a peer that is not for this process any more.
//!
//! A provider that meets a key which it does not find closes the connection, and what else is under way by it is lost.
//! So a peer that takes memory back says so first: from then on nothing is begun there, and what was begun is before
//! the answer ([`drains`](super::drains)).

use std::collections::{HashSet, VecDeque};

use super::adapter::{Adapter, Token};
use super::endpoint::Endpoint;
use super::peers::Peer;
use super::wire::Message;

/// How many keys of a peer are known at most. Nobody uses those for long that are not there any more: whoever does has
/// the connection closed, which is an error as well.
const KEPT: usize = 4096;

/// The keys of memory that a peer has taken back, the latest of them.
#[derive(Debug, Default)]
pub(super) struct Withdrawn {
    keys: HashSet<u64>,
    in_order: VecDeque<u64>,
}

impl Withdrawn {
    /// Whether this is one of them.
    pub(super) fn contains(&self, key: u64) -> bool {
        self.keys.contains(&key)
    }

    fn add(&mut self, key: u64) {
        if self.keys.insert(key) {
            self.in_order.push_back(key);
        }
        if self.in_order.len() > KEPT
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.keys.remove(&oldest);
        }
    }
}

impl Adapter {
    /// Asks `peer` to begin nothing more with the memory of this key; returns whether the provider took the question.
    pub(super) fn post_stop(&self, endpoint: &Endpoint<Token>, peer: &Peer, key: u64) -> bool {
        self.post_repeated(endpoint, peer, &mut peer.outgoing(), &Message::Stop { key })
    }

    /// Begins nothing more with memory of `peer`, and says so, behind all that was begun: also to one that was given
    /// up here, and need not know it.
    pub(super) fn stop(&self, endpoint: &Endpoint<Token>, peer: &Peer, key: u64) {
        // Under the lock, as all is posted to this peer.
        let mut outgoing = peer.outgoing();
        outgoing.withdrawn.add(key);
        let message = Message::Stopped { key };
        if !self.post_repeated(endpoint, peer, &mut outgoing, &message) && !outgoing.is_given_up {
            self.answer_later(peer, &mut outgoing, &message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Withdrawn};

    #[test]
    fn the_latest_are_known_however_often_they_are_told() {
        let mut withdrawn = Withdrawn::default();
        for key in 0..=KEPT as u64 {
            withdrawn.add(key);
            withdrawn.add(key);
        }
        assert!(!withdrawn.contains(0) && withdrawn.contains(1) && withdrawn.contains(KEPT as u64));
        assert_eq!((withdrawn.keys.len(), withdrawn.in_order.len()), (KEPT, KEPT));
    }
}
