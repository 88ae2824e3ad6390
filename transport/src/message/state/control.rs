//! Control packets of a link: those that come, and those that go out.

use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::message::link::{Departing, Hearers, Link, State};
use crate::message::ring::{Along, Peek};
use crate::message::wire::{CONTROL_PAYLOAD, Ended, Packet, Way};

impl State {
    pub(in crate::message) fn read_control(&mut self, link: &Link) -> Result<()> {
        loop {
            let found = match self.control.peek().map_err(|problem| link.context.wire(link.peer, problem))? {
                Peek::Nothing { missing } => {
                    link.signs.control.set(missing);
                    return Ok(());
                }
                Peek::Packet(found) => found,
            };
            let mut payload = [0; CONTROL_PAYLOAD];
            let length = found.length.min(payload.len());
            self.control.copy(found, &mut payload[..length]);
            // A payload that is too long is cut, and then of a wrong length all the same.
            let length = if found.length > payload.len() { 0 } else { length };
            let packet = Packet::decode(found.kind, &payload[..length])
                .map_err(|problem| link.context.wire(link.peer, problem))?;
            self.control.consume(found);
            self.consumed.control = self.control.consumed();
            self.handle(link, packet)?;
        }
    }

    /// Has a control packet go out, if the peer still reads them.
    pub(in crate::message) fn say(&mut self, packet: Packet) {
        // A shared transfer goes on here meanwhile, and the end of one concerns only those who wait for it.
        let is_urgent = match packet {
            Packet::Ready { way, .. } => !matches!(way, Way::Shared | Way::Stores),
            Packet::Withdraw { .. } | Packet::Taken { ended: Ended::Withdrawn, .. } => true,
            Packet::Closed | Packet::GivenUp => true,
            Packet::Part { transfer, .. } => {
                !self.sending.iter().any(|sending| sending.id == transfer && sending.way == Some(Way::Stores))
            }
            _ => false,
        };
        self.say_to(packet, if is_urgent { Hearers::Service } else { Hearers::Waiters });
    }

    /// The same, with who is to hear of it.
    pub(in crate::message) fn say_to(&mut self, packet: Packet, hearers: Hearers) {
        if !self.is_closed {
            self.departing.push_back(Departing { packet, hearers });
        }
    }

    /// Sends the control packets for which there is room.
    pub(in crate::message) fn put_control(&mut self, link: &Link) -> Result<()> {
        let context = &link.context;
        let mut all_hearers = None;
        while let Some(Departing { packet, hearers }) = self.departing.front().copied() {
            let (payload, length) = packet.encode();
            if !self.outbox(link)?.control.has_room(length) {
                self.take_credits(link);
            }
            let outbox = self.outbox(link)?;
            if !outbox.control.has_room(length) {
                // A peer whose program computes takes what is there, so that there is room again.
                if !std::mem::replace(&mut self.has_asked_for_room, true) {
                    all_hearers = Some(Hearers::Service);
                }
                break;
            }
            let along = Along { interrupt: outbox.interrupt_for(context, hearers), before: None };
            outbox.control.write(&context.fabric, link.peer, packet.kind(), &payload[..length], along)?;
            self.departing.pop_front();
            self.has_asked_for_room = false;
            all_hearers = all_hearers.max(Some(hearers.after(along.interrupt)));
        }
        match all_hearers {
            Some(hearers) => self.alert(link, hearers),
            None => Ok(()),
        }
    }

    /// Tells the peer that something came.
    pub(in crate::message) fn alert(&mut self, link: &Link, hearers: Hearers) -> Result<()> {
        let (context, peer) = (&link.context, link.peer);
        let outbox = self.outbox(link)?;
        if hearers == Hearers::Service && outbox.sizes.asynchronous {
            // The thread that wakes looks once: what it is to find must be there.
            if !context.reliable {
                outbox.messages.check(&context.fabric, peer)?;
                outbox.control.check(&context.fabric, peer)?;
            } else if !context.ordered {
                context.fabric.store_barrier(peer)?;
            }
            context.fabric.trigger(peer, context.interrupt)?;
        }
        if outbox.messages.is_unchecked() || outbox.control.is_unchecked() {
            // SeqCst: the service thread stops looking before it looks a last time; see `arm`.
            link.signs.unchecked.store(true, Ordering::SeqCst);
            context.arm();
        }
        if hearers == Hearers::Nobody { Ok(()) } else { context.fabric.ring(peer) }
    }
}
