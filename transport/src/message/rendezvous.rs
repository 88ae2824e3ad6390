//! Messages that the receiver asks for: who wants what, and the ends.
//!
//! ```text
//!   sender                                        receiver
//!     │ ── Request: length, ways, where it lies ──►  │   a receive meets it
//!     │ ◄── Ready: the way, where it goes ────────── │
//!     │ ── Part, Part, … (Stores, Staged, FromUser)► │   copied out, the buffer given back
//!     │ ── Done (Direct, ToUser, Shared) ──────────► │
//!     │ ◄── Taken (Shared; too long; no way) ─────── │
//!     │ ── Withdraw ───────────────────────────────► │   instead, when the sender gives it up
//!     │ ◄── Taken, unless it was Ready ───────────── │
//! ```
//!
//! A shared message is ended by the end that finished its last chunk: the sender by Done, the receiver by Taken, which
//! the sender answers by Done, so that the claim words can be used again.

mod transfers;

use std::sync::Arc;

use super::ends;
use super::layout::SLOTS;
use super::link::{Departing, Hearers, Link, State};
use super::needs::Needs;
use super::outbox::{behind, staging_offset};
use super::outcome::Outcome;
use super::outgoing::{Send, Sender};
use super::shares::{Phase, Share};
use super::sharing::{Sharing, Words};
use super::user;
use super::wire::{Ended, Kind, Malformed, Packet, Way, Ways};
use crate::back_end::MemoryKey;
use crate::error::{Error, Result};
use crate::memory::UserMemory;
use crate::segment::Registration;

pub(super) use transfers::{Receiving, Requested, Sending};

impl State {
    /// Asks the peer whether it wants a message; there is room for the packet. Returns the number by which its end may
    /// be [told](ends).
    ///
    /// # Safety
    /// The memory must be valid and unchanged until the outcome is set.
    pub(super) unsafe fn request(
        &mut self,
        link: &Link,
        Send { memory, sender, .. }: Send,
        mut offers: Ways,
        outcome: &Arc<Outcome>,
    ) -> Result<Option<u32>> {
        let is_left = sender == Sender::HasLeft;
        let mut registration = None;
        if offers.contains(Way::Shared) {
            // SAFETY: the registration is dropped before the outcome is set; or the peer, which maps the inbox, has
            // told the end, and has no more use for the key.
            match unsafe { link.context.fabric.register(memory) } {
                Ok(done) => registration = Some(done),
                Err(error) if offers.without(Way::Shared).is_empty() => return Err(error),
                Err(_) => offers = offers.without(Way::Shared),
            }
        }
        let id = self.next_transfer;
        self.next_transfer = id.wrapping_add(1);
        let key = registration.as_ref().map_or(MemoryKey([0; 3]), Registration::key);
        let length = memory.length as u64;
        // Plain stores are for programs that are both in our calls.
        let wanted = if offers.without(Way::Stores).is_empty() { Hearers::Waiters } else { Hearers::Service };
        let request = Packet::Request { transfer: id, length, offers, is_left, key };
        let hearers = self.put_message(link, request, None, wanted)?;
        self.sending.push(Sending {
            id,
            memory,
            outcome: Arc::clone(outcome),
            registration,
            offers,
            way: None,
            key: MemoryKey([0; 3]),
            posted: 0,
            done: 0,
            share: None,
            is_given_up: false,
        });
        let is_for_waiters =
            hearers == Hearers::Service && !self.needs_of_peer(link)?.contains(Needs::MESSAGE);
        self.alert(link, if is_for_waiters { Hearers::Waiters } else { hearers })?;
        // The packets behind such ends are read when there are more, or there is no room for them in the end.
        let is_one_of_few = self.sending.len() <= ends::WORDS as usize;
        Ok((offers.contains(Way::Shared) && is_one_of_few).then_some(id))
    }

    /// Says that a message is not wanted.
    pub(super) fn refuse(&mut self, link: &Link, transfer: u32, is_left: bool) -> Result<()> {
        self.answer(Packet::Taken { transfer, ended: Ended::Received }, is_left);
        self.put_control(link)
    }

    /// Answers a request of the peer, whose program may have left it to its service thread.
    pub(super) fn answer(&mut self, packet: Packet, is_left: bool) {
        if is_left { self.say_to(packet, Hearers::Service) } else { self.say(packet) }
    }

    /// Ends an operation if no peer has to do with it yet: a receive that has met no message, a send that is queued. A
    /// message that the receiver was asked to take is asked for back.
    pub(super) fn give_up(&mut self, link: &Link, outcome: &Arc<Outcome>) -> Result<()> {
        let before = (self.posted.len(), self.queued.len());
        self.posted.retain(|posted| !Arc::ptr_eq(&posted.outcome, outcome));
        self.queued.retain(|queued| !Arc::ptr_eq(&queued.outcome, outcome));
        if before != (self.posted.len(), self.queued.len()) {
            self.end(outcome, Err(given_up()));
        }
        let asked = |sending: &&mut Sending| {
            Arc::ptr_eq(&sending.outcome, outcome) && sending.way.is_none() && !outcome.has_ended()
        };
        if let Some(sending) = self.sending.iter_mut().find(asked).filter(|sending| !sending.is_given_up) {
            sending.is_given_up = true;
            let transfer = sending.id;
            self.say(Packet::Withdraw { transfer });
        }
        self.put_control(link)
    }

    /// Lets a message come to `memory`, which is as long as the message.
    ///
    /// # Safety
    /// The memory must be valid and nobody else's until the outcome is set.
    pub(super) unsafe fn accept(
        &mut self,
        link: &Link,
        memory: UserMemory,
        Requested { transfer, offers, is_left, key }: Requested,
        outcome: &Arc<Outcome>,
    ) -> Result<()> {
        let context = &link.context;
        let mut open = offers.and(context.receives);
        let (way, registration) = loop {
            let Some(way) = open.best() else {
                self.answer(Packet::Taken { transfer, ended: Ended::NoWay }, is_left);
                let back_end = context.fabric.capabilities().back_end.clone();
                self.end(
                    outcome,
                    Err(Error::Unsupported { back_end, what: "way by which the message could come" }),
                );
                return self.put_control(link);
            };
            if !matches!(way, Way::Shared | Way::Direct | Way::ToUser) {
                break (way, None);
            }
            // SAFETY: the registration is dropped before the outcome is set.
            match unsafe { context.fabric.register(memory) } {
                Ok(registration) => break (way, Some(registration)),
                // Without it the receiver still can copy alone.
                Err(_) if way == Way::Shared => break (way, None),
                Err(_) => open = open.without(way),
            }
        };
        let own_key = registration.as_ref().map_or(MemoryKey([0; 3]), Registration::key);
        let mut share = None;
        let mut ready = Some(Packet::Ready { transfer, way, slot: 0, chunk: 0, key: own_key });
        if way == Way::Shared {
            let chunk = self.chunk(link, memory.length as u64);
            let free = (0..SLOTS).find(|slot| self.slots.iter().all(|(used, _)| used != slot));
            let words = match free {
                // The sender is not needed for a single chunk.
                Some(slot) if registration.is_some() && chunk < memory.length as u64 => {
                    let inbox = link.inbox.memory();
                    Sharing::reset(inbox, slot)?;
                    self.slots.push((slot, transfer));
                    ready = Some(Packet::Ready { transfer, way, slot, chunk, key: own_key });
                    Words::Own { inbox: inbox.clone(), slot }
                }
                _ => {
                    ready = None;
                    Words::Alone(Arc::default())
                }
            };
            let inbox = Arc::clone(&self.outbox(link)?.segment);
            share = Share::new(Sharing::new(words, memory, inbox, key, chunk));
        }
        let outcome = Arc::clone(outcome);
        self.receiving.push(Receiving {
            id: transfer,
            memory,
            outcome,
            registration,
            drain: None,
            way,
            received: 0,
            share,
            is_left,
        });
        if let Some(ready) = ready {
            self.answer(ready, is_left);
        }
        self.put_control(link)
    }

    /// Bytes of a chunk. Each costs some microseconds of system calls, so there are no more than it takes for both ends
    /// to have some, whichever comes later.
    fn chunk(&self, link: &Link, length: u64) -> u64 {
        const SMALLEST: u64 = 64 << 10;
        let largest = link.context.fabric.capabilities().largest_transfer;
        let setting = u64::from(link.context.settings.chunk).max(4096);
        length.div_ceil(4).next_multiple_of(4096).max(SMALLEST).min(setting).min(largest)
    }

    /// What a control packet of the peer brings about.
    pub(super) fn handle(&mut self, link: &Link, packet: Packet) -> Result<()> {
        let refuse = |field, value: u64| {
            link.context.wire(link.peer, Malformed::Field { kind: packet.kind(), field, value })
        };
        let sending = |state: &Self, transfer| {
            let found = state.sending.iter().position(|sending| sending.id == transfer);
            found.ok_or_else(|| refuse("transfer", u64::from(transfer)))
        };
        match packet {
            Packet::Ready { transfer, way, slot, chunk, key } => {
                let index = sending(self, transfer)?;
                let entry = &mut self.sending[index];
                if entry.way.is_some() || !entry.offers.contains(way) {
                    return Err(refuse("way", way as u64));
                }
                entry.way = Some(way);
                // What the peer has told to be over, it has copied alone: nobody here touches the memory any more.
                let is_lent = entry.outcome.lend();
                if !is_lent && way != Way::Shared {
                    return Err(refuse("way", way as u64));
                }
                entry.key = key;
                let memory = entry.memory;
                match way {
                    Way::Shared => {
                        let largest = link.context.fabric.capabilities().largest_transfer;
                        if slot >= SLOTS || chunk == 0 || chunk > largest {
                            return Err(refuse("chunk", chunk));
                        }
                        let inbox = Arc::clone(&self.outbox(link)?.segment);
                        let sharing = Sharing::new(Words::Peers { slot }, memory, inbox, key, chunk);
                        self.sending[index].share = Share::new(sharing).filter(|_| is_lent);
                        Ok(())
                    }
                    Way::Direct => self.post_direct(link, index),
                    // The pump does the rest.
                    _ => Ok(()),
                }
            }
            Packet::Part { transfer, buffer, offset, length } => {
                let found = self.receiving.iter().position(|receiving| receiving.id == transfer);
                let index = found.ok_or_else(|| refuse("transfer", u64::from(transfer)))?;
                self.take_part(link, index, buffer, offset, length)
            }
            Packet::Done { transfer } => {
                if let Some(index) = self.receiving.iter().position(|receiving| receiving.id == transfer) {
                    let receiving = &mut self.receiving[index];
                    if !matches!(receiving.way, Way::Shared | Way::Direct | Way::ToUser) {
                        return Err(refuse("transfer", u64::from(transfer)));
                    }
                    if let Some(share) = &mut receiving.share {
                        share.is_over = true;
                        if share.phase == Phase::Copying {
                            return Ok(());
                        }
                    }
                    self.received(index);
                } else if !self.slots.iter().any(|(_, used_by)| *used_by == transfer) {
                    return Err(refuse("transfer", u64::from(transfer)));
                }
                self.slots.retain(|(_, used_by)| *used_by != transfer);
                Ok(())
            }
            Packet::Withdraw { transfer } => {
                let ahead = transfer.wrapping_sub(self.met) as i32;
                // There are no more requests than parts, and each is withdrawn once.
                if ahead >= link.inbox.sizes.ring_parts as i32 || self.withdrawn.contains(&transfer) {
                    return Err(refuse("transfer", u64::from(transfer)));
                }
                // What a receive has met goes on.
                if ahead >= 0 {
                    self.withdrawn.push(transfer);
                    self.say(Packet::Taken { transfer, ended: Ended::Withdrawn });
                }
                self.put_control(link)
            }
            Packet::Taken { transfer, ended: Ended::Withdrawn } => {
                let index = sending(self, transfer)?;
                // What is ready is taken: its memory may be in use.
                let Sending { is_given_up, way, .. } = self.sending[index];
                if !is_given_up || way.is_some() {
                    return Err(refuse("transfer", u64::from(transfer)));
                }
                let entry = self.sending.swap_remove(index);
                drop(entry.registration);
                self.end(&entry.outcome, Err(given_up()));
                Ok(())
            }
            Packet::Taken { transfer, ended } => {
                let index = sending(self, transfer)?;
                let way = self.sending[index].way;
                // The others are under way until this end says so; and for what is ready, there is a way.
                if !matches!(way, None | Some(Way::Shared)) || (ended == Ended::NoWay && way.is_some()) {
                    return Err(refuse("transfer", u64::from(transfer)));
                }
                if ended == Ended::NoWay {
                    let back_end = link.context.fabric.capabilities().back_end.clone();
                    let what = "way by which the receiver could take the message";
                    let entry = self.sending.swap_remove(index);
                    drop(entry.registration);
                    self.end(&entry.outcome, Err(Error::Unsupported { back_end, what }));
                    return Ok(());
                }
                if let Some(share) = &mut self.sending[index].share {
                    share.is_over = true;
                    if share.phase == Phase::Copying {
                        return Ok(());
                    }
                }
                self.sent(link, index);
                self.put_control(link)
            }
            Packet::Closed => self.part(link),
            Packet::GivenUp => Err(self.give_in(link)),
            Packet::Eager { .. } | Packet::Request { .. } => {
                Err(link.context.wire(link.peer, Malformed::OutOfPlace { kind: packet.kind() }))
            }
        }
    }

    /// A message has been sent. The claim words of a shared one go back with that.
    pub(super) fn sent(&mut self, link: &Link, index: usize) {
        let sending = self.sending.swap_remove(index);
        if matches!(sending.way, Some(Way::Shared | Way::Direct | Way::ToUser)) {
            let packet = Packet::Done { transfer: sending.id };
            // To a receiver that has said itself that all is there, this only gives claim words back.
            let is_over = sending.way == Some(Way::Shared) && sending.share.is_none_or(|share| share.is_over);
            if is_over && !self.is_closed {
                self.departing.push_back(Departing { packet, hearers: Hearers::Nobody });
            } else {
                self.say(packet);
            }
        }
        drop(sending.registration);
        ends::forget(link.inbox.memory(), sending.id);
        self.end(&sending.outcome, Ok(sending.memory.length));
    }

    /// A message has been received.
    pub(super) fn received(&mut self, index: usize) {
        let receiving = self.receiving.swap_remove(index);
        drop(receiving.registration);
        self.end(&receiving.outcome, Ok(receiving.memory.length));
    }

    /// Copies out what a staging buffer holds.
    fn take_part(&mut self, link: &Link, index: usize, buffer: u32, offset: u64, length: u64) -> Result<()> {
        let refuse = |field, value: u64| {
            link.context.wire(link.peer, Malformed::Field { kind: Kind::Part, field, value })
        };
        let receiving = &mut self.receiving[index];
        // By another way the peer, or a thread of this process, writes into the memory: no part ends that.
        if !matches!(receiving.way, Way::Stores | Way::Staged | Way::FromUser) {
            return Err(refuse("transfer", u64::from(receiving.id)));
        }
        let Some(staging) = link.staging.get() else { return Err(refuse("buffer", u64::from(buffer))) };
        let (size, count) = (u64::from(staging.sizes.staging_buffer), staging.sizes.staging_buffers);
        if buffer != self.staging_buffer {
            return Err(refuse("buffer", u64::from(buffer)));
        }
        if offset != receiving.received {
            return Err(refuse("offset", offset));
        }
        if length == 0 || length > size || length > receiving.memory.length as u64 - offset {
            return Err(refuse("length", length));
        }
        let from = staging.memory().span(staging_offset(size, buffer), length as usize)?;
        let to = receiving.memory.part(offset as usize, length as usize);
        // SAFETY: `from` is within the staging buffers, `to` within memory that is ours until the outcome is set.
        unsafe { link.context.back_end().copy(from, to.start.as_ptr(), length as usize) };
        receiving.received += length;
        if receiving.received == receiving.memory.length as u64 {
            self.received(index);
        }
        self.staging_buffer = behind(buffer, count);
        self.consumed.staging = self.consumed.staging.wrapping_add(1);
        self.return_credits(link)
    }
}

/// The user's bytes that a message sends.
pub(super) fn bytes(sending: &Sending, offset: u64, length: u64) -> &[u8] {
    // SAFETY: the outcome of the operation is lent and not set, so the memory is valid and unchanged.
    unsafe { user::bytes(sending.memory.part(offset as usize, length as usize)) }
}

fn given_up() -> Error {
    Error::Ending { reason: "what began it has failed".into() }
}
