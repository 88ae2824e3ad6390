//! What each end knows of a message that is under way.

use std::sync::Arc;

use crate::back_end::{Drain, MemoryKey};
use crate::memory::UserMemory;
use crate::message::ends::End;
use crate::message::link::Link;
use crate::message::outcome::Outcome;
use crate::message::shares::{Share, is_copying};
use crate::message::wire::{Way, Ways};
use crate::segment::Registration;
use crate::units::Rank;

/// A message that this process sends.
#[derive(Debug)]
pub(in crate::message) struct Sending {
    pub(in crate::message) id: u32,
    pub(in crate::message) memory: UserMemory,
    pub(in crate::message) outcome: Arc<Outcome>,
    pub(in crate::message) registration: Option<Registration>,
    pub(super) offers: Ways,
    /// Once the receiver is ready.
    pub(in crate::message) way: Option<Way>,
    /// Where it goes at the receiver.
    pub(in crate::message) key: MemoryKey,
    /// Bytes that are on their way.
    pub(in crate::message) posted: u64,
    /// Bytes that have arrived at the receiver.
    pub(in crate::message) done: u64,
    pub(in crate::message) share: Option<Share>,
    /// Whether the receiver was asked to leave it.
    pub(super) is_given_up: bool,
}

/// A message that this process receives.
#[derive(Debug)]
pub(in crate::message) struct Receiving {
    /// The sender's number for it.
    pub(in crate::message) id: u32,
    pub(in crate::message) memory: UserMemory,
    pub(in crate::message) outcome: Arc<Outcome>,
    pub(in crate::message) registration: Option<Registration>,
    /// Once it has failed: whether something of it still comes.
    pub(super) drain: Option<Arc<Drain>>,
    pub(in crate::message) way: Way,
    /// Bytes that came in parts.
    pub(super) received: u64,
    pub(in crate::message) share: Option<Share>,
    /// Whether the sender's program has left it to its service thread.
    pub(in crate::message) is_left: bool,
}

/// What a peer has asked for.
pub(in crate::message) struct Requested {
    /// The peer's number for it.
    pub(in crate::message) transfer: u32,
    pub(in crate::message) offers: Ways,
    /// Whether the peer's program has left it to its service thread.
    pub(in crate::message) is_left: bool,
    /// Where it lies, if shared copying is offered.
    pub(in crate::message) key: MemoryKey,
}

impl Sending {
    /// Whether the peer itself may read from its memory.
    pub(in crate::message) fn is_lent(&self) -> bool {
        self.registration.is_some() && matches!(self.way, None | Some(Way::Shared))
    }

    /// Ends it where the peer has told so by a word, of which no packet may come any more.
    pub(in crate::message) fn end_if_told(&self, link: &Link) {
        if self.is_lent()
            && let Some(end) = End::of(link.inbox.memory(), self.id, self.memory.length)
            && end.is_told()
        {
            self.outcome.set_unless_lent(end.length);
        }
    }

    pub(in crate::message) fn is_being_copied(&self) -> bool {
        is_copying(self.share.as_ref())
    }
}

impl Receiving {
    /// Whether the peer itself writes into its memory.
    pub(in crate::message) fn is_lent(&self) -> bool {
        matches!(self.way, Way::Shared | Way::Direct | Way::ToUser)
    }

    pub(in crate::message) fn is_being_copied(&self) -> bool {
        is_copying(self.share.as_ref())
    }

    /// After a failure: whether something that `peer` has begun may still come into its memory.
    pub(in crate::message) fn is_draining(&mut self, peer: Rank) -> bool {
        if self.is_lent()
            && let Some(registration) = self.registration.take()
        {
            match registration.revoke(peer) {
                Ok(drain) => self.drain = Some(drain),
                Err(kept) => self.registration = Some(kept),
            }
        }
        self.drain.as_ref().is_some_and(|drain| !drain.is_over())
    }
}
