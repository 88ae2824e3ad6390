//! Sending: which protocol, and putting a message on its way.

use std::sync::Arc;

use super::ends;
use super::link::{Hearers, Link, State};
use super::needs::Needs;
use super::outcome::Outcome;
use super::ring::Along;
use super::settings::Mode;
use super::user;
use super::wire::{Kind, Packet, Way, Ways};
use crate::back_end::Piece;
use crate::error::{Error, Result};
use crate::memory::UserMemory;

/// A send as it was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Send {
    pub(super) memory: UserMemory,
    pub(super) mode: Mode,
    pub(super) sender: Sender,
}

/// What the program does until a send has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// Nothing else.
    Waits,
    /// It goes on, and asks for the end.
    GoesOn,
    /// It goes on, and never asks: the bytes are the outcome's own.
    HasLeft,
}

/// A send that cannot go yet: there is no credit, or others are before it.
#[derive(Debug)]
pub(super) struct QueuedSend {
    send: Send,
    pub(super) outcome: Arc<Outcome>,
}

/// What came of a send.
#[derive(Debug)]
pub(super) enum Sent {
    /// It is over.
    Complete,
    /// It waits for credit, or for those before it. Its outcome will be set.
    Queued(Arc<Outcome>),
    /// The peer was asked to take it. Its outcome will be set.
    Asked {
        outcome: Arc<Outcome>,
        /// Its number, where the peer may copy it alone, and tells its [end](super::ends) by a word.
        told_as: Option<u32>,
    },
}

enum Protocol {
    Short,
    Eager,
    Rendezvous(Ways),
}

impl State {
    /// Sends, or queues what cannot go yet; with `outcome`, or one that is made when it is needed.
    ///
    /// # Safety
    /// The memory must be valid and unchanged until the send is complete, or its outcome set.
    pub(super) unsafe fn send(
        &mut self,
        link: &Link,
        send: Send,
        outcome: Option<Arc<Outcome>>,
    ) -> Result<Sent> {
        // What has ended without being waited for in earnest is forgotten now, while it is little.
        if self.sending.len() >= ends::WORDS as usize && link.has_work() {
            self.process(link);
        }
        self.check_pair()?;
        if self.queued.is_empty() {
            // SAFETY: the caller's promise.
            match unsafe { self.put(link, send, outcome.as_ref()) } {
                Ok(Some(sent)) => return Ok(sent),
                Ok(None) => {}
                // Nothing has begun: another send may be possible, or later, and what has come can be received.
                Err(error @ (Error::Unsupported { .. } | Error::NoMessenger { .. })) => return Err(error),
                Err(error) => {
                    self.fail(link, error.clone());
                    return Err(error);
                }
            }
        }
        // What is not possible at all is told now.
        self.protocol(link, send)?;
        let outcome = outcome.unwrap_or_default();
        let is_first = self.queued.is_empty();
        self.queued.push_back(QueuedSend { send, outcome: Arc::clone(&outcome) });
        if is_first && let Err(error) = self.ask_for_credit(link) {
            self.fail(link, error.clone());
            return Err(error);
        }
        Ok(Sent::Queued(outcome))
    }

    /// Has a peer whose program computes take what has come, so that there is credit again. What waits for no receive
    /// would only lie there all the same.
    fn ask_for_credit(&mut self, link: &Link) -> Result<()> {
        if self.needs_of_peer(link)?.contains(Needs::MESSAGE) {
            self.alert(link, Hearers::Service)?;
        }
        Ok(())
    }

    /// Sends what is queued, as far as there is credit.
    pub(super) fn put_queued(&mut self, link: &Link) -> Result<()> {
        let before = self.queued.len();
        while let Some(queued) = self.queued.pop_front() {
            // SAFETY: whoever queued it promised it until the outcome is set.
            match unsafe { self.put(link, queued.send, Some(&queued.outcome)) } {
                Ok(Some(Sent::Complete)) => self.end(&queued.outcome, Ok(queued.send.memory.length)),
                Ok(Some(Sent::Queued(_) | Sent::Asked { .. })) => {}
                Ok(None) => {
                    self.queued.push_front(queued);
                    if self.queued.len() < before {
                        self.ask_for_credit(link)?;
                    }
                    break;
                }
                Err(error) => {
                    self.end(&queued.outcome, Err(error.clone()));
                    if !matches!(error, Error::Unsupported { .. }) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts a message on its way, if there is credit.
    ///
    /// # Safety
    /// As for [`send`](Self::send).
    #[inline]
    unsafe fn put(
        &mut self,
        link: &Link,
        send: Send,
        outcome: Option<&Arc<Outcome>>,
    ) -> Result<Option<Sent>> {
        let protocol = self.protocol(link, send)?;
        let length = send.memory.length;
        let payload = match protocol {
            Protocol::Short => length,
            Protocol::Eager => 8,
            Protocol::Rendezvous(_) => super::wire::CONTROL_PAYLOAD,
        };
        if !self.outbox(link)?.messages.has_room(payload) {
            self.take_credits(link);
            if !self.outbox(link)?.messages.has_room(payload) {
                return Ok(None);
            }
        }
        let (fabric, peer) = (&link.context.fabric, link.peer);
        match protocol {
            Protocol::Short => {
                // SAFETY: the caller's promise.
                let bytes = unsafe { user::bytes(send.memory) };
                self.outbox(link)?.messages.write(fabric, peer, Kind::Short, bytes, Along::default())?;
                fabric.counters().short_messages.add(1);
                self.alert(link, Hearers::Waiters)?;
            }
            Protocol::Eager => {
                // SAFETY: the caller's promise.
                let has_gone = unsafe { self.put_eager(link, send.memory) }?;
                if !has_gone {
                    return Ok(None);
                }
            }
            Protocol::Rendezvous(offers) => {
                let outcome = outcome.cloned().unwrap_or_default();
                // SAFETY: the caller's promise.
                let told_as = unsafe { self.request(link, send, offers, &outcome) }?;
                fabric.counters().rendezvous_messages.add(1);
                return Ok(Some(Sent::Asked { outcome, told_as }));
            }
        }
        Ok(Some(Sent::Complete))
    }

    /// Puts an eager message on its way, unless its slots are taken; there is room for its packet.
    ///
    /// # Safety
    /// As for [`send`](Self::send).
    unsafe fn put_eager(&mut self, link: &Link, from: UserMemory) -> Result<bool> {
        let length = from.length as u32;
        let returned = self.credited.eager;
        if !self.outbox(link)?.has_room_for_eager(length, returned) {
            self.take_credits(link);
            let returned = self.credited.eager;
            if !self.outbox(link)?.has_room_for_eager(length, returned) {
                return Ok(false);
            }
        }
        let outbox = self.outbox(link)?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { user::bytes(from) };
        let slot = outbox.eager_slot;
        let place = outbox.layout.eager(slot);
        let mut before = None;
        match outbox.segment.mapping() {
            Some(memory) if link.context.reliable && link.context.ordered => {
                let to = memory.span(place, bytes.len())?;
                // SAFETY: `to` is within the inbox, where nobody else writes to the slots, and nobody reads them before
                // they are announced.
                unsafe { link.context.back_end().copy(bytes.as_ptr(), to, bytes.len()) };
                link.context.fabric.counters().stored_bytes.add(u64::from(length));
            }
            _ if outbox.messages.takes_along() => before = Some(Piece { offset: place, bytes }),
            _ => link.context.settle(&outbox.segment.remote(), place, bytes)?,
        }
        outbox.took_eager(length);
        let hearers = self.put_message(link, Packet::Eager { length, slot }, before, Hearers::Waiters)?;
        link.context.fabric.counters().eager_messages.add(1);
        self.alert(link, hearers)?;
        Ok(true)
    }

    /// Puts a packet into the order of messages; there is room. What is to be there `before` goes along, where the ring
    /// [takes it](super::ring::Writer::takes_along). Returns whom the packet has not told by itself.
    pub(super) fn put_message(
        &mut self,
        link: &Link,
        packet: Packet,
        before: Option<Piece<'_>>,
        hearers: Hearers,
    ) -> Result<Hearers> {
        let context = &link.context;
        let outbox = self.outbox(link)?;
        let along = Along { before, interrupt: outbox.interrupt_for(context, hearers) };
        let (payload, length) = packet.encode();
        let payload = &payload[..length];
        outbox.messages.write(&context.fabric, link.peer, packet.kind(), payload, along)?;
        Ok(hearers.after(along.interrupt))
    }

    #[inline]
    fn protocol(&mut self, link: &Link, send: Send) -> Result<Protocol> {
        let length = send.memory.length;
        let sizes = &self.outbox(link)?.sizes;
        let threshold = link.context.settings.rendezvous_threshold as usize;
        // Only a program that keeps its bytes and goes on is spared a copy by a transfer that goes on by itself.
        let is_below = send.sender != Sender::GoesOn || length < threshold;
        if length == 0 || (send.mode == Mode::Automatic && length <= sizes.longest_short() && is_below) {
            return Ok(Protocol::Short);
        }
        let (fits_short, fits_eager) =
            (length <= sizes.longest_short(), length <= sizes.eager_buffer as usize);
        Ok(match send.mode {
            Mode::Short if fits_short => Protocol::Short,
            Mode::Short | Mode::Eager if fits_eager => Protocol::Eager,
            Mode::Automatic if fits_eager && is_below => Protocol::Eager,
            _ => Protocol::Rendezvous(offers(link, send, sizes.receives)?),
        })
    }
}

/// The ways by which a message may go to a peer that `receives` by those.
fn offers(link: &Link, send: Send, receives: Ways) -> Result<Ways> {
    let context = &link.context;
    let possible = context.sends.and(receives);
    let ways = |ways: &[Way]| ways.iter().fold(Ways::default(), |set, way| set.with(*way)).and(possible);
    let (offers, what) = match send.mode {
        Mode::RendezvousStores => (ways(&[Way::Stores]), ""),
        Mode::RendezvousStaged => (ways(&[Way::Staged]), "DMA"),
        Mode::RendezvousHalfStaged => {
            (ways(&[Way::FromUser, Way::ToUser]), "DMA with registered user memory")
        }
        Mode::RendezvousDirect => (ways(&[Way::Shared, Way::Direct]), "DMA with registered user memory"),
        // DMA by way of staging buffers is slower than stores, but leaves the processor to a program that goes on.
        _ if send.sender != Sender::Waits && context.settings.asynchronous => (possible, ""),
        _ => (ways(&[Way::Shared, Way::Direct, Way::Stores]), ""),
    };
    if offers.is_empty() {
        let back_end = context.fabric.capabilities().back_end.clone();
        return Err(Error::Unsupported { back_end, what });
    }
    Ok(offers)
}
