//! Receiving: which message meets which receive, in the order of both.

use std::sync::Arc;

use super::link::{Link, State};
use super::outcome::Outcome;
use super::rendezvous::Requested;
use super::ring::{Found, Peek};
use super::user;
use super::wire::{Kind, Malformed, Packet};
use crate::error::{Error, Result};
use crate::memory::UserMemory;

/// A receive that waits for its message.
#[derive(Debug)]
pub(super) struct PostedReceive {
    pub(super) memory: UserMemory,
    pub(super) outcome: Arc<Outcome>,
}

/// What came of taking a message.
#[derive(Debug)]
pub(super) enum Arrival {
    /// It is there, or it was too long.
    Whole(Result<usize>),
    /// It is on its way; the outcome will be set.
    Begun(Arc<Outcome>),
}

impl State {
    /// Takes the next message, if there is one and nobody waits for it already.
    ///
    /// # Safety
    /// The memory must be valid and nobody else's until the message is there, or the outcome set.
    #[inline]
    pub(super) unsafe fn receive(&mut self, link: &Link, memory: UserMemory) -> Result<Option<Arrival>> {
        self.check_pair()?;
        if !self.posted.is_empty() && link.signs.messages.has_arrived() {
            // Who waits first is served first, and then perhaps this one at once.
            if let Err(error) = self.match_posted(link) {
                self.fail(link, error.clone());
                return Err(error);
            }
        }
        if !self.posted.is_empty() {
            // SAFETY: the caller's promise.
            return Ok(Some(Arrival::Begun(unsafe { self.post_receive(memory) })));
        }
        // SAFETY: the caller's promise.
        match unsafe { self.take(link, memory, None) } {
            Ok(None) if self.is_closed => Err(link.context.has_closed(link.peer)),
            Ok(arrival) => Ok(arrival),
            Err(error) => {
                self.fail(link, error.clone());
                Err(error)
            }
        }
    }

    /// Takes the next message that nobody waits for, or has it come to `memory` when it is there.
    ///
    /// # Safety
    /// The memory must be valid and nobody else's until the message is there, or the outcome set.
    pub(super) unsafe fn receive_or_post(&mut self, link: &Link, memory: UserMemory) -> Result<Arrival> {
        // SAFETY: the caller's promise.
        let arrival = unsafe { self.receive(link, memory) }?;
        // SAFETY: as above.
        Ok(arrival.unwrap_or_else(|| Arrival::Begun(unsafe { self.post_receive(memory) })))
    }

    /// Has the next message that nobody waits for come to `memory`.
    ///
    /// # Safety
    /// The memory must be valid and nobody else's until the outcome is set.
    pub(super) unsafe fn post_receive(&mut self, memory: UserMemory) -> Arc<Outcome> {
        let outcome = Arc::new(Outcome::default());
        self.posted.push_back(PostedReceive { memory, outcome: Arc::clone(&outcome) });
        outcome
    }

    /// Lets messages meet the receives that wait.
    ///
    /// # Errors
    /// Also those by which the pair has failed when a message was met: then the next message is not for the next
    /// receive, as those that waited between have ended without theirs.
    pub(super) fn match_posted(&mut self, link: &Link) -> Result<()> {
        while let Some(posted) = self.posted.pop_front() {
            // SAFETY: whoever posted it promised it until the outcome is set.
            match unsafe { self.take(link, posted.memory, Some(&posted.outcome)) } {
                Ok(Some(Arrival::Whole(result))) => self.end(&posted.outcome, result),
                Ok(Some(Arrival::Begun(_))) => {}
                Ok(None) if self.is_closed => {
                    self.end(&posted.outcome, Err(link.context.has_closed(link.peer)));
                }
                Ok(None) => {
                    self.posted.push_front(posted);
                    break;
                }
                Err(error) => {
                    self.end(&posted.outcome, Err(error.clone()));
                    return Err(error);
                }
            }
        }
        self.check_pair()
    }

    /// How long the next message is, if there is one that nobody waits for.
    pub(super) fn probe(&mut self, link: &Link) -> Result<Option<usize>> {
        self.check_pair()?;
        if !self.posted.is_empty() {
            return Ok(None);
        }
        let Some(found) = self.look(link)? else {
            return if self.is_closed { Err(link.context.has_closed(link.peer)) } else { Ok(None) };
        };
        if found.kind == Kind::Short {
            return Ok(Some(found.length));
        }
        match self.decode(link, found)? {
            Packet::Eager { length, .. } => Ok(Some(length as usize)),
            Packet::Request { length, .. } => Ok(Some(length as usize)),
            _ => Ok(None),
        }
    }

    /// The packet at the head of the ring of messages.
    #[inline]
    fn look(&mut self, link: &Link) -> Result<Option<Found>> {
        loop {
            match self.messages.peek().map_err(|problem| link.context.wire(link.peer, problem))? {
                Peek::Nothing { missing } => {
                    link.signs.messages.set(missing);
                    return Ok(None);
                }
                Peek::Packet(found) if self.withdrawn.is_empty() || found.kind != Kind::Request => {
                    return Ok(Some(found));
                }
                Peek::Packet(found) => {
                    let Packet::Request { transfer, .. } = self.decode(link, found)? else {
                        return Ok(Some(found));
                    };
                    let Some(index) = self.withdrawn.iter().position(|withdrawn| *withdrawn == transfer)
                    else {
                        return Ok(Some(found));
                    };
                    self.withdrawn.swap_remove(index);
                    self.consume(link, found);
                }
            }
        }
    }

    fn decode(&self, link: &Link, found: Found) -> Result<Packet> {
        let refuse = |problem| link.context.wire(link.peer, problem);
        if !found.kind.begins_message() || found.length > super::wire::CONTROL_PAYLOAD {
            return Err(refuse(Malformed::OutOfPlace { kind: found.kind }));
        }
        let mut payload = [0; super::wire::CONTROL_PAYLOAD];
        self.messages.copy(found, &mut payload[..found.length]);
        Packet::decode(found.kind, &payload[..found.length]).map_err(refuse)
    }

    fn consume(&mut self, link: &Link, found: Found) {
        if found.kind == Kind::Request {
            self.met = self.met.wrapping_add(1);
        }
        self.messages.consume(found);
        self.consumed.ring = self.messages.consumed();
        link.signs.messages.set(self.consumed.ring);
    }

    /// Takes the message at the head of the ring.
    ///
    /// # Safety
    /// As for [`receive`](Self::receive).
    #[inline]
    unsafe fn take(
        &mut self,
        link: &Link,
        memory: UserMemory,
        outcome: Option<&Arc<Outcome>>,
    ) -> Result<Option<Arrival>> {
        let Some(found) = self.look(link)? else { return Ok(None) };
        let capacity = memory.length;
        let too_long = |length: u64| Error::Truncated { from: link.peer, length, capacity: capacity as u64 };
        if found.kind == Kind::Short {
            let result = if found.length <= capacity {
                // SAFETY: the caller's promise.
                self.messages.copy(found, unsafe { user::bytes_mut(memory.part(0, found.length)) });
                Ok(found.length)
            } else {
                Err(too_long(found.length as u64))
            };
            self.consume(link, found);
            self.return_credits_or_fail(link);
            return Ok(Some(Arrival::Whole(result)));
        }
        let refuse = |field, value: u32| {
            link.context
                .wire(link.peer, Malformed::Field { kind: found.kind, field, value: u64::from(value) })
        };
        let packet = self.decode(link, found)?;
        self.consume(link, found);
        match packet {
            Packet::Eager { length, slot } => {
                if length > link.inbox.sizes.eager_buffer {
                    return Err(refuse("length", length));
                }
                if slot != self.eager_slot {
                    return Err(refuse("slot", slot));
                }
                let slots = link.layout.slots;
                self.eager_slot = slots.behind(slot, length);
                let taken = slots.taken_by(length);
                let length = length as usize;
                let result = if length <= capacity {
                    let from = link.inbox.memory().span(link.layout.eager(slot), length)?;
                    // SAFETY: `from` is within the inbox, `memory` the caller's promise; they are different memory.
                    unsafe { link.context.back_end().copy(from, memory.start.as_ptr(), length) };
                    Ok(length)
                } else {
                    Err(too_long(length as u64))
                };
                self.consumed.eager = self.consumed.eager.wrapping_add(taken);
                self.return_credits_or_fail(link);
                Ok(Some(Arrival::Whole(result)))
            }
            Packet::Request { transfer, length, offers, is_left, key } => {
                // Just consumed, so the count is one ahead.
                if transfer != self.met.wrapping_sub(1) {
                    return Err(refuse("transfer", transfer));
                }
                if self.is_closed {
                    return Ok(Some(Arrival::Whole(Err(link.context.has_closed(link.peer)))));
                }
                if length > capacity as u64 {
                    self.refuse(link, transfer, is_left)?;
                    return Ok(Some(Arrival::Whole(Err(too_long(length)))));
                }
                let outcome = outcome.cloned().unwrap_or_default();
                let memory = memory.part(0, length as usize);
                let requested = Requested { transfer, offers, is_left, key };
                // SAFETY: the caller's promise.
                let accepted = unsafe { self.accept(link, memory, requested, &outcome) };
                if let Err(error) = accepted.and_then(|()| self.return_credits(link)) {
                    // The peer may have been told where to write: the memory is given back as that of all that failed.
                    self.fail(link, error.clone());
                    if self.receiving.iter().all(|receiving| !Arc::ptr_eq(&receiving.outcome, &outcome)) {
                        self.end(&outcome, Err(error));
                    }
                }
                Ok(Some(Arrival::Begun(outcome)))
            }
            _ => Err(link.context.wire(link.peer, Malformed::OutOfPlace { kind: found.kind })),
        }
    }
}
