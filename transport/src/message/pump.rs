//! The parts of messages that go through staging buffers, and DMA.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::context::Role;
use super::lease::Lease;
use super::link::{Link, State};
use super::outbox::staging_offset;
use super::outcome::Outcome;
use super::rendezvous::{Sending, bytes};
use super::wire::{Packet, Way};
use crate::back_end::{Place, Remote};
use crate::dma::{Completion, Direction, Transfer};
use crate::error::{Error, Result};
use crate::memory::{SharedMemory, UserMemory};

/// How often a chain that failed is posted again before the peer counts as unreachable.
const ATTEMPTS: u32 = 32;

/// DMA under way.
#[derive(Debug)]
pub(super) struct Flight {
    /// For which message.
    pub(super) transfer: u32,
    pub(super) done: Arc<Completion>,
    chain: Vec<Transfer>,
    attempts: u32,
    bytes: u64,
    /// The receiver's staging buffer that it fills, and the place in the message.
    part: Option<(u32, u64)>,
    /// What the chain reads.
    read: Read,
}

/// What a chain reads, which must not go before the chain has ended, even if the link or the messenger does.
#[derive(Debug, Clone)]
struct Read {
    /// The message, which may have its bytes.
    _message: Arc<Outcome>,
    /// The staging buffers, of which one becomes free with the chain.
    departing: Option<SharedMemory>,
}

impl State {
    /// Fills the staging buffers that are free.
    pub(super) fn pump(&mut self, link: &Link) -> Result<()> {
        let mut index = 0;
        while let Some(sending) = self.sending.get(index) {
            let id = sending.id;
            match sending.way {
                Some(Way::Stores) => self.pump_stores(link, index)?,
                Some(Way::Staged | Way::FromUser | Way::ToUser) => self.pump_dma(link, index)?,
                _ => {}
            }
            // A message that was sent has left its place to another one.
            if self.sending.get(index).is_some_and(|sending| sending.id == id) {
                index += 1;
            }
        }
        Ok(())
    }

    /// Whether a message still needs staging buffers of the peer.
    pub(super) fn wants_staging(&self) -> bool {
        self.sending.iter().any(|sending| {
            matches!(sending.way, Some(Way::Stores | Way::Staged | Way::FromUser))
                && sending.posted < sending.memory.length as u64
        })
    }

    fn pump_stores(&mut self, link: &Link, index: usize) -> Result<()> {
        let context = &link.context;
        let total = self.sending[index].memory.length as u64;
        // Buffers are announced in the order in which they are taken: those that DMA fills come first.
        while self.sending[index].posted < total && self.flights.iter().all(|flight| flight.part.is_none()) {
            let returned = self.credited.staging;
            // The connection is made here if there is none yet.
            let staging = self.outbox(link)?.staging(link)?;
            let Some(buffer) = staging.take(returned) else { break };
            let (place, size) = (staging.offset(buffer), staging.buffer);
            let sending = &self.sending[index];
            let (transfer, offset) = (sending.id, sending.posted);
            let length = size.min(total - offset).min(context.fabric.capabilities().largest_transfer);
            let part = bytes(sending, offset, length);
            if let Some(staging) = self.outbox.as_ref().and_then(|outbox| outbox.staging.as_ref()) {
                context.settle(&staging.segment.remote(), place, part)?;
            }
            self.say(Packet::Part { transfer, buffer, offset, length });
            self.sending[index].posted += length;
            self.sending[index].done += length;
            self.put_control(link)?;
            self.take_credits(link);
        }
        if self.sending[index].done == total {
            self.sent(link, index);
        }
        Ok(())
    }

    fn pump_dma(&mut self, link: &Link, index: usize) -> Result<()> {
        let (context, peer) = (&link.context, link.peer);
        let way = self.sending[index].way;
        let total = self.sending[index].memory.length as u64;
        let departing = if way == Some(Way::FromUser) { None } else { Some(link.stage(Role::Departing)?) };
        let largest = context.fabric.capabilities().largest_transfer;
        while self.sending[index].posted < total {
            let returned = self.credited.staging;
            let mut size = largest.min(total - self.sending[index].posted);
            // Both buffers must be free before either is taken.
            let local = match departing {
                Some(area) => {
                    let (used, freed) = self.departures;
                    let buffers = u64::from(area.sizes.staging_buffers);
                    if used - freed >= buffers {
                        break;
                    }
                    size = size.min(u64::from(area.sizes.staging_buffer));
                    // Less than the number of buffers, which has 32 bits.
                    Some((area, (used % buffers) as u32))
                }
                None => None,
            };
            let sending = &self.sending[index];
            let (remote, place, buffer) = if way == Some(Way::ToUser) {
                (Remote { owner: peer, place: Place::Registered(sending.key) }, sending.posted, None)
            } else {
                let staging = self.outbox(link)?.staging(link)?;
                let Some(buffer) = staging.take(returned) else { break };
                size = size.min(staging.buffer);
                (staging.segment.remote(), staging.offset(buffer), Some(buffer))
            };
            let sending = &self.sending[index];
            let offset = sending.posted;
            let mut from = sending.memory.part(offset as usize, size as usize);
            if let Some((area, buffer)) = local {
                let at = staging_offset(u64::from(area.sizes.staging_buffer), buffer);
                let to = area.memory().span(at, size as usize)?;
                // SAFETY: the message is not sent yet, so `from` is valid; the buffer is free.
                unsafe { context.back_end().copy(from.start.as_ptr(), to, size as usize) };
                from.start = std::ptr::NonNull::new(to).unwrap_or(from.start);
                self.departures.0 += 1;
            }
            let chain = vec![Transfer { direction: Direction::Write, local: from, remote, offset: place }];
            self.sending[index].posted += size;
            let part = buffer.map(|buffer| (buffer, offset));
            let departing = local.map(|(area, _)| area.memory().clone());
            self.fly(link, index, chain, size, part, departing)?;
        }
        Ok(())
    }

    /// Posts all of a message, from user memory to user memory.
    pub(super) fn post_direct(&mut self, link: &Link, index: usize) -> Result<()> {
        let sending = &mut self.sending[index];
        let remote = Remote { owner: link.peer, place: Place::Registered(sending.key) };
        let total = sending.memory.length;
        let largest = link.context.fabric.capabilities().largest_transfer.max(1);
        let step = usize::try_from(largest).unwrap_or(usize::MAX);
        let memory: UserMemory = sending.memory;
        let chain = (0..total)
            .step_by(step)
            .map(|offset| Transfer {
                direction: Direction::Write,
                local: memory.part(offset, step),
                remote,
                offset: offset as u64,
            })
            .collect();
        sending.posted = total as u64;
        self.fly(link, index, chain, total as u64, None, None)
    }

    fn fly(
        &mut self,
        link: &Link,
        index: usize,
        chain: Vec<Transfer>,
        bytes: u64,
        part: Option<(u32, u64)>,
        departing: Option<SharedMemory>,
    ) -> Result<()> {
        let Sending { id: transfer, outcome, .. } = &self.sending[index];
        let (transfer, read) = (*transfer, Read { _message: Arc::clone(outcome), departing });
        let lease = self.lease(link, &chain)?;
        let done = post(link, chain.clone(), lease, &read)?;
        self.flights.push_back(Flight { transfer, done, chain, attempts: 1, bytes, part, read });
        Ok(())
    }

    /// What a chain needs that goes to user memory of the peer.
    fn lease(&mut self, link: &Link, chain: &[Transfer]) -> Result<Option<Lease>> {
        let is_private = |transfer: &Transfer| matches!(transfer.remote.place, Place::Registered(_));
        if chain.iter().any(is_private) { link.context.lease(&self.outbox(link)?.segment) } else { Ok(None) }
    }

    /// Goes on with what DMA has finished.
    pub(super) fn land_flights(&mut self, link: &Link) -> Result<()> {
        while let Some(result) = self.flights.front().and_then(|flight| flight.done.test()) {
            let Some(mut flight) = self.flights.pop_front() else { break };
            match result {
                Ok(()) => {}
                Err(error @ (Error::PeerLost { .. } | Error::Ending { .. } | Error::OutOfBounds { .. })) => {
                    return Err(error);
                }
                Err(_) if flight.attempts < ATTEMPTS => {
                    link.context.fabric.counters().repeated_writes.add(1);
                    flight.attempts += 1;
                    let lease = self.lease(link, &flight.chain)?;
                    flight.done = post(link, flight.chain.clone(), lease, &flight.read)?;
                    self.flights.push_front(flight);
                    break;
                }
                Err(error) => return Err(error),
            }
            if flight.read.departing.is_some() {
                self.departures.1 += 1;
            }
            let Some(index) = self.sending.iter().position(|sending| sending.id == flight.transfer) else {
                continue;
            };
            if let Some((buffer, offset)) = flight.part {
                let (transfer, length) = (flight.transfer, flight.bytes);
                self.say(Packet::Part { transfer, buffer, offset, length });
            }
            let sending = &mut self.sending[index];
            sending.done += flight.bytes;
            if sending.done == sending.memory.length as u64 {
                self.sent(link, index);
            }
        }
        self.put_control(link)
    }
}

/// Hands a chain over; its end draws somebody's attention to the link, and ends its lease and its hold on what it
/// reads.
fn post(link: &Link, chain: Vec<Transfer>, lease: Option<Lease>, read: &Read) -> Result<Arc<Completion>> {
    let (context, attention) = (Arc::clone(&link.context), Arc::clone(&link.signs.attention));
    let read = read.clone();
    let done = Arc::new(Completion::calling(move |_| {
        drop((lease, read));
        // Release: who sees it sees the end of the chain.
        attention.store(true, Ordering::Release);
        context.stir();
    }));
    // SAFETY: the memory is a message's that is not sent before the chain has ended, or a local staging buffer that is
    // not used again before. Whoever drops the messenger before leaves both: the callback has them.
    unsafe { link.context.fabric.post(chain, &done) }?;
    Ok(done)
}
