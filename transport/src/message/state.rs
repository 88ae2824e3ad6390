//! One step of work on a link, and its end.

mod control;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::credits::Counts;
use super::layout::NEEDS_AT;
use super::lease;
use super::link::{Hearers, Lent, Link, Remedy, State};
use super::needs::{self, Needs};
use super::outbox::Outbox;
use super::outcome::Outcome;
use super::rendezvous::{Receiving, Sending};
use crate::error::{Error, Result};

/// After how long a peer that does not end its writes into this process's memory is made to go on: some times as long
/// as the longest copy takes.
const ROUSE_AFTER: Duration = Duration::from_millis(300);

/// After how long the log names it.
const TELL_AFTER: Duration = Duration::from_secs(5);

impl State {
    /// Does all that can be done without waiting for the peer's program.
    pub(super) fn process(&mut self, link: &Link) {
        // Acquire: what was done before it was set is seen.
        link.signs.attention.swap(false, Ordering::Acquire);
        self.try_step(link);
        self.settle_needs(link);
    }

    /// After something was posted or queued: tells the peer what is needed, and looks whether it has come meanwhile;
    /// then shows it to the threads here, and looks once more: the thread that the peer has interrupted may have found
    /// nothing shown.
    pub(super) fn settle_needs(&mut self, link: &Link) {
        loop {
            let mut is_news = false;
            // A step may need something else than it was done for.
            while self.tell_needs(link) {
                is_news = true;
                self.try_step(link);
            }
            self.publish(link);
            if !is_news || !needs::look_after_showing(|| self.error.is_none() && link.has_what_it_needs()) {
                return;
            }
            self.try_step(link);
        }
    }

    fn try_step(&mut self, link: &Link) {
        if self.error.is_none()
            && let Err(error) = self.step(link)
        {
            self.fail(link, error);
        }
        if self.error.is_some() {
            self.put_last(link);
            self.reap(link);
        }
    }

    /// Whether there is something that the peer was not told before.
    fn tell_needs(&mut self, link: &Link) -> bool {
        let needs = self
            .needs
            .that_stay()
            .with_if(!self.posted.is_empty(), Needs::MESSAGE)
            .with_if(self.lacks_credit(), Needs::CREDIT);
        let before = std::mem::replace(&mut self.needs, needs);
        // The word is within every inbox.
        if needs != before
            && let Ok(word) = link.inbox.memory().word64(NEEDS_AT)
        {
            // Relaxed, here and below: the fences order it.
            needs.tell(|needs| word.store(needs, Ordering::Relaxed));
        }
        needs.are_more_than(before)
    }

    /// What the peer needs an interrupt for; all, where that cannot be looked up, or what was written may come later
    /// than the look.
    pub(super) fn needs_of_peer(&mut self, link: &Link) -> Result<Needs> {
        let context = &link.context;
        let outbox = self.outbox(link)?;
        match outbox.segment.mapping() {
            _ if !outbox.sizes.asynchronous => Ok(Needs::default()),
            Some(memory) if context.reliable && context.ordered => {
                let word = memory.word64(NEEDS_AT)?;
                Ok(Needs::of(|| word.load(Ordering::Relaxed)))
            }
            _ => Ok(Needs::MESSAGE.with_if(true, Needs::CREDIT)),
        }
    }

    fn lacks_credit(&self) -> bool {
        // After a failure, it is the word of that which departs.
        !self.departing.is_empty()
            || (self.error.is_none() && (!self.queued.is_empty() || self.wants_staging()))
    }

    fn step(&mut self, link: &Link) -> Result<()> {
        self.take_credits(link);
        self.heeded = self.credited;
        let last = link.needs_of_peer();
        // Acquire: as there.
        let has_left = link.signs.left.load(Ordering::Acquire);
        self.read_control(link)?;
        // Looked at before: what the peer wrote until it left was read in between.
        if (last.contains(Needs::LEFT) || has_left) && !self.is_closed {
            if last.contains(Needs::GIVEN_UP) {
                return Err(self.give_in(link));
            }
            self.part(link)?;
        }
        self.match_posted(link)?;
        self.land_flights(link)?;
        self.pump(link)?;
        self.put_queued(link)?;
        self.put_control(link)?;
        self.return_credits(link)
    }

    /// Whether messages go on. To be asked after whatever may have [failed](Self::fail) the pair on its way: nothing is
    /// met, posted or queued afterwards, since nobody would end it.
    ///
    /// # Errors
    /// Why they do not.
    #[inline]
    pub(super) fn check_pair(&self) -> Result<()> {
        match &self.error {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Ends everything that nobody works on with `error`; the rest follows by [`reap`](Self::reap). The first error
    /// stays. The peer is told, unless it hears of the reason by itself: it may wait for what does not come any more.
    pub(super) fn fail(&mut self, link: &Link, error: Error) {
        if self.error.is_some() {
            return;
        }
        tracing::debug!(peer = %link.peer, %error, "a pair's messages end");
        for posted in std::mem::take(&mut self.posted) {
            self.end(&posted.outcome, Err(error.clone()));
        }
        for queued in std::mem::take(&mut self.queued) {
            self.end(&queued.outcome, Err(error.clone()));
        }
        self.departing.clear();
        if !self.is_closed && error.lost_peer().is_none() && !matches!(error, Error::Ending { .. }) {
            // Before the leases are closed: who finds them closed looks for the reason.
            self.tell_giving_up(link, &error);
        }
        self.lent.get_or_insert_with(|| Lent {
            begun: lease::close(link.inbox.memory()),
            since: link.context.fabric.now(),
            remedy: Remedy::None,
        });
        self.error = Some(error);
        self.has_news = true;
        // Room for what tells the peer may have come meanwhile.
        if self.tell_needs(link) {
            self.put_last(link);
        }
        self.reap(link);
    }

    /// Whether nothing waits to be written.
    pub(super) fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.departing.is_empty()
    }

    /// After a failure: ends the transfers whose memory nobody uses any more.
    fn reap(&mut self, link: &Link) {
        let Some(error) = self.error.clone() else { return };
        self.flights.retain(|flight| flight.done.test().is_none());
        let flying: Vec<u32> = self.flights.iter().map(|flight| flight.transfer).collect();
        self.sending.iter().for_each(|sending| sending.end_if_told(link));
        let has_lent =
            self.receiving.iter().any(Receiving::is_lent) || self.sending.iter().any(Sending::is_lent);
        let is_lent = has_lent && self.may_be_used(link);
        let (kept, ended): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.sending).into_iter().partition(|sending| {
                sending.is_being_copied() || flying.contains(&sending.id) || (is_lent && sending.is_lent())
            });
        self.sending = kept;
        for sending in ended {
            drop(sending.registration);
            self.end(&sending.outcome, Err(error.clone()));
        }
        for mut receiving in std::mem::take(&mut self.receiving) {
            if receiving.is_being_copied()
                || (is_lent && receiving.is_lent())
                || receiving.is_draining(link.peer)
            {
                self.receiving.push(receiving);
                continue;
            }
            drop(receiving.registration);
            self.end(&receiving.outcome, Err(error.clone()));
        }
    }

    /// After a failure: whether the peer may still be at a copy from or to memory of this process.
    ///
    /// A peer that runs ends it within the time of a copy. One that was stopped in the middle of it ends it when it is
    /// continued, and until then the memory cannot be given back: the copy would come from or into whatever the program
    /// has there by then. Such a peer is continued, so that those who were told of its loss need not wait for it: it
    /// finds itself lost, and ends. What neither runs nor can be continued (a debugger holds it, or the machine's
    /// freezer) is waited for, and named in the log: a late error is better than a program whose memory changes.
    fn may_be_used(&mut self, link: &Link) -> bool {
        let Some(lent) = &mut self.lent else { return false };
        let (context, peer) = (&link.context, link.peer);
        if lease::are_over(link.inbox.memory(), lent.begun) || context.back_end().has_ended(peer) {
            return false;
        }
        let waited = context.fabric.now().since(lent.since);
        if lent.remedy == Remedy::None && waited >= ROUSE_AFTER {
            lent.remedy = Remedy::Roused;
            context.back_end().rouse(peer);
        }
        if lent.remedy == Remedy::Roused && waited >= TELL_AFTER {
            lent.remedy = Remedy::Told;
            let (rank, node) = (context.fabric.rank(), context.fabric.membership().node(peer));
            tracing::warn!(
                %rank, %peer, node,
                "a message that failed cannot end: its peer stands still while it copies from or to the program's \
                 memory; let that process go on, or end it (kill -KILL)"
            );
        }
        true
    }

    /// Ends an operation.
    pub(super) fn end(&mut self, outcome: &Arc<Outcome>, result: Result<usize>) {
        outcome.set(result);
        self.has_news = true;
    }

    /// Shows to waiters what there is to do.
    pub(super) fn publish(&mut self, link: &Link) {
        let signs = &link.signs;
        // Relaxed: who acts on a sign takes the turn.
        signs.has_posted.store(!self.posted.is_empty(), Ordering::Relaxed);
        // Not what has come since: who was refused for lack of it before it came has to be asked again.
        for (sign, word) in signs.credited.iter().zip(self.heeded.words()) {
            sign.store(word, Ordering::Relaxed);
        }
        signs.lacks_credit.store(self.lacks_credit(), Ordering::Relaxed);
        signs.has_open.store(self.has_open(), Ordering::Relaxed);
        signs.failed.store(self.error.is_some(), Ordering::Relaxed);
        let waits_for_peer = self.receiving.iter().any(|receiving| !receiving.is_being_copied())
            || self.sending.iter().any(|sending| sending.is_lent() && !sending.is_being_copied());
        let is_lent = self.error.is_some() && waits_for_peer;
        signs.lent.store(is_lent, Ordering::Relaxed);
        signs.closed.store(self.is_closed, Ordering::Relaxed);
        let unchecked = self.error.is_none()
            && self
                .outbox
                .as_ref()
                .is_some_and(|outbox| outbox.messages.is_unchecked() || outbox.control.is_unchecked());
        signs.unchecked.store(unchecked, Ordering::Relaxed);
        if std::mem::take(&mut self.has_news) {
            link.context.back_end().wake();
        }
    }

    /// The peer's inbox, connected if it is not yet.
    #[inline]
    pub(super) fn outbox(&mut self, link: &Link) -> Result<&mut Outbox> {
        match &mut self.outbox {
            Some(outbox) => Ok(outbox),
            _ if self.is_closed => Err(link.context.has_closed(link.peer)),
            none => {
                let outbox = none.insert(Outbox::connect(link, self.consumed)?);
                if let Some(memory) = outbox.segment.mapping() {
                    link.signs.outbox.get_or_init(|| memory.clone());
                }
                Ok(outbox)
            }
        }
    }

    pub(super) fn take_credits(&mut self, link: &Link) {
        self.credited = Counts::newest(link.inbox.memory(), link.context.credit_words, self.credited);
        if let Some(outbox) = &mut self.outbox {
            outbox.credit(self.credited);
        }
    }

    /// Gives back what was consumed, once it is worth a write.
    pub(super) fn return_credits(&mut self, link: &Link) -> Result<()> {
        let (consumed, told, sizes) = (self.consumed, self.told, &link.inbox.sizes);
        let reaches = |consumed: u32, told: u32, limit: u32| consumed.wrapping_sub(told) >= limit.max(1);
        let is_due = reaches(consumed.control, told.control, sizes.control_parts / 2)
            || reaches(consumed.ring, told.ring, sizes.ring_parts / 2)
            || reaches(consumed.eager, told.eager, link.layout.slots.due())
            || reaches(consumed.staging, told.staging, 1);
        if !is_due {
            return Ok(());
        }
        let context = &link.context;
        let outbox = match self.outbox(link) {
            // Who sent something and has closed its messenger since needs no credit.
            Err(Error::NoMessenger { .. }) => {
                self.told = consumed;
                return Ok(());
            }
            outbox => outbox?,
        };
        let interrupt = outbox.interrupt_for(context, Hearers::Service);
        outbox.returns.write(&context.fabric, &outbox.segment, context.reliable, consumed, interrupt)?;
        // Whose program computes while something waits for it.
        if interrupt.is_none() && self.needs_of_peer(link)?.contains(Needs::CREDIT) {
            if context.reliable && !context.ordered {
                context.fabric.store_barrier(link.peer)?;
            }
            context.fabric.trigger(link.peer, context.interrupt)?;
        }
        self.told = consumed;
        context.fabric.ring(link.peer)
    }

    /// The same for one who cannot do anything about an error: the next one will meet it.
    pub(super) fn return_credits_or_fail(&mut self, link: &Link) {
        if let Err(error) = self.return_credits(link) {
            self.fail(link, error);
            self.publish(link);
        }
    }

    /// Makes sure that all that was written has arrived.
    pub(super) fn check(&mut self, link: &Link) -> Result<()> {
        let Some(outbox) = &mut self.outbox else { return Ok(()) };
        let fabric = &link.context.fabric;
        if link.context.reliable && outbox.segment.mapping().is_none() {
            fabric.store_barrier(link.peer)?;
        }
        outbox.messages.check(fabric, link.peer)?;
        outbox.control.check(fabric, link.peer)?;
        fabric.ring(link.peer)
    }
}
