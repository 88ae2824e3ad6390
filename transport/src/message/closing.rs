//! The end of a messenger, and of a peer's.
//!
//! Whoever closes its messenger lets go what it still owes others, and then tells all that have to do with it. They can
//! still receive what it sent before; what they send, or wait for beyond that, fails. Who waits for a first word of it
//! has [told so](super::inquiry), and hears of it in another way; so does who has no room for that word.
//!
//! Whoever fails with one peer alone tells that one: there, too, all fails that is between both.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::engine::Engine;
use super::layout::NEEDS_AT;
use super::link::{Link, State};
use super::needs::Needs;
use super::outcome::Outcome;
use super::rendezvous::Sending;
use super::shares::Share;
use super::wire::Packet;
use crate::back_end::Waited;
use crate::error::{Error, Result};
use crate::ports::Notice;
use crate::units::Rank;

/// How long the end of a messenger waits for peers to take what was sent to them: they may have ended, too.
const REST: Duration = Duration::from_secs(10);

impl Engine {
    /// Makes sure that what was sent has arrived, and ends the service thread. Only the first time. Where one that is
    /// watched is lost, all others are left to hear of that.
    pub(super) fn close(&self) {
        self.close_to(|peer| self.check(peer).is_ok());
    }

    /// The same where peers are told that it ends also if one that is watched is lost: they may not watch that one.
    pub(super) fn close_to_all(&self) {
        self.close_to(|peer| self.context.fabric.membership().check(peer).is_ok());
    }

    fn close_to(&self, is_told: impl Fn(Rank) -> bool) {
        // Acquire: who comes second finds all done by the same thread, or by one that it was handed on by.
        if self.is_stopping.load(Ordering::Acquire) {
            return;
        }
        self.send_the_rest();
        self.check_links(|_| true);
        // Release: pairs with the loads in `serve` and where links are made.
        self.is_stopping.store(true, Ordering::Release);
        self.links.settle();
        if let Some(service) = self.service.end() {
            let _ = self.context.fabric.trigger(self.context.fabric.rank(), self.context.interrupt);
            service.join();
        }
        // Release: pairs with the load in `is_ending_service`.
        self.is_unserved.store(true, Ordering::Release);
        self.links.iter().for_each(|link| link.take_turn().leave_kept());
        // The last thing that is written: nobody else writes any more.
        self.take_leave(is_told);
        self.notify_waiting();
        self.remove_provider();
    }

    /// Tells those who were not told as others are: they wait for a first word of this messenger, or have no room for
    /// its last ones, and would wait for those for ever.
    fn notify_waiting(&self) {
        let (context, number) = (&self.context, self.context.number());
        let mut waiting = context.fabric.ports().close(context.space, number);
        waiting.retain(|&peer| {
            let Some(link) = self.links.get(peer) else { return true };
            let state = link.take_turn();
            state.outbox.is_none() && !state.is_closed
        });
        let own = context.fabric.rank();
        let has_more_to_hear = |link: &&Arc<Link>| link.peer != own && !link.take_turn().departing.is_empty();
        waiting.extend(self.links.iter().filter(has_more_to_hear).map(|link| link.peer));
        context.fabric.notify(Notice::HasClosed { space: context.space, number }, waiting);
    }

    /// Tells those peers that nothing more comes, and nothing is wanted any more.
    fn take_leave(&self, is_told: impl Fn(Rank) -> bool) {
        let own = self.context.fabric.rank();
        for link in self.links.iter().filter(|link| link.peer != own && is_told(link.peer)) {
            let mut state = link.take_turn();
            if let Err(error) = state.take_leave(link) {
                tracing::debug!(rank = %own, peer = %link.peer, %error, "it is not told that its messages end");
            }
            state.publish(link);
        }
    }

    /// Lets go what waits for room at a peer: who has all that it wants may still owe others the news of it.
    fn send_the_rest(&self) {
        let context = &self.context;
        let deadline = context.fabric.now().after(REST);
        loop {
            // Acquire: what was declared until now, the links are told of below.
            let seen = context.disturbances.load(Ordering::Acquire);
            // Work on all links, as it would end the pause below.
            self.advance(&|| false);
            let mut waits = false;
            for link in self.links.iter() {
                let mut state = link.take_turn();
                let owes = |state: &State| !state.is_idle() || state.kept().next().is_some();
                if state.error.is_none() && owes(&state) {
                    state.process(link);
                    waits |= state.error.is_none() && owes(&state);
                }
            }
            if !waits {
                return;
            }
            if context.fabric.now() >= deadline {
                tracing::warn!(rank = %context.fabric.rank(), "a peer did not take what was sent to it");
                return;
            }
            if self.pause(&|| false, seen, Some(deadline)) == Waited::TimedOut {
                self.check_links(|link| link.signs.unchecked.load(Ordering::Relaxed));
            }
        }
    }
}

impl State {
    /// The peer has closed its messenger. What it sent before can still be received.
    pub(super) fn part(&mut self, link: &Link) -> Result<()> {
        let error = link.context.has_closed(link.peer);
        self.is_closed = true;
        let is_over = |share: &Option<Share>| share.as_ref().is_some_and(|share| share.is_over);
        self.sending.iter().for_each(|sending| sending.end_if_told(link));
        let has_ended = |sending: &Sending| sending.outcome.has_ended() && !sending.is_being_copied();
        // It has failed before it could say of these that they are over.
        if self.receiving.iter().any(|receiving| !is_over(&receiving.share))
            || self
                .sending
                .iter()
                .any(|sending| sending.way.is_some() && !is_over(&sending.share) && !has_ended(sending))
        {
            return Err(error);
        }
        self.outbox = None;
        self.departing.clear();
        for queued in std::mem::take(&mut self.queued) {
            self.end(&queued.outcome, Err(error.clone()));
        }
        let (kept, asked): (Vec<_>, Vec<_>) = std::mem::take(&mut self.sending)
            .into_iter()
            .partition(|sending| sending.way.is_some() && !has_ended(sending));
        self.sending = kept;
        for sending in asked {
            drop(sending.registration);
            self.end(&sending.outcome, Err(error.clone()));
        }
        Ok(())
    }

    /// The peer has given the pair up. Returns why nothing goes any more.
    pub(super) fn give_in(&mut self, link: &Link) -> Error {
        self.is_closed = true;
        link.context.has_given_up(link.peer)
    }

    /// Messages on their way whose bytes nobody else keeps.
    fn kept(&self) -> impl Iterator<Item = &Arc<Outcome>> {
        self.sending.iter().map(|sending| &sending.outcome).filter(|outcome| !outcome.kept().is_empty())
    }

    /// Leaves the memory of those that did not end as it is, for good: DMA may be reading it.
    fn leave_kept(&self) {
        self.kept().for_each(|outcome| std::mem::forget(Arc::clone(outcome)));
    }

    /// Tells the peer that nothing more comes, and nothing is wanted any more.
    fn take_leave(&mut self, link: &Link) -> Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let is_mapped = link.context.fabric.capabilities().direct_mapping;
        // Also where the pair has failed: it may be of a loss that the peer does not hear of.
        if !is_mapped && self.outbox.is_none() && link.was_heard(self.consumed) {
            self.outbox(link)?;
        }
        self.say_last(link, Needs::CLOSED, Packet::Closed)?;
        if self.outbox.is_some() { self.check(link) } else { Ok(()) }
    }

    /// Tells the peer that this process has failed with `error`, and exchanges nothing more with it.
    pub(super) fn tell_giving_up(&mut self, link: &Link, error: &Error) {
        // Of what is told here, everything else that fails before the peer's inbox is connected fails because it cannot
        // be. What fails with the loss of somebody else is told when the messenger ends.
        let is_to_be_connected =
            matches!(error, Error::Wire { .. }) && !link.context.fabric.capabilities().direct_mapping;
        let connected = match is_to_be_connected && self.outbox.is_none() && link.was_heard(self.consumed) {
            true => self.outbox(link).map(|_| ()),
            false => Ok(()),
        };
        let told = connected.and_then(|()| self.say_last(link, Needs::GIVEN_UP, Packet::GivenUp));
        self.note_last(link, told);
    }

    /// Says the last that the peer hears. Where inboxes are mapped, it sees `need` in its connection to this process's;
    /// if its own is connected, it is told by `packet`.
    fn say_last(&mut self, link: &Link, need: Needs, packet: Packet) -> Result<()> {
        let context = &link.context;
        let is_mapped = context.fabric.capabilities().direct_mapping;
        if is_mapped {
            self.needs = self.needs.that_stay().with_if(true, need);
            let word = link.inbox.memory().word64(NEEDS_AT)?;
            // Release: what was written before is seen by whoever sees that this was the last.
            self.needs.tell(|needs| word.store(needs, Ordering::Release));
        }
        if self.outbox.is_some() {
            self.say(packet);
            self.put_control(link)?;
        }
        if is_mapped && (self.outbox.is_none() || !self.departing.is_empty()) && link.was_heard(self.consumed)
        {
            context.fabric.trigger(link.peer, context.interrupt)?;
            context.fabric.ring(link.peer)?;
        }
        Ok(())
    }

    /// After a failure: goes on telling the peer of it, where there was no room for that.
    pub(super) fn put_last(&mut self, link: &Link) {
        if self.departing.is_empty() {
            return;
        }
        self.take_credits(link);
        self.heeded = self.credited;
        let put = self.put_control(link);
        self.note_last(link, put);
    }

    /// What came of telling the peer of a failure: makes sure that it arrives, and what is before it, or leaves it.
    fn note_last(&mut self, link: &Link, told: Result<()>) {
        let is_certain = link.context.reliable;
        if let Err(error) = told.and_then(|()| if is_certain { Ok(()) } else { self.check(link) }) {
            tracing::debug!(peer = %link.peer, %error, "it is not told that its messages have failed here");
            self.departing.clear();
        }
    }
}
