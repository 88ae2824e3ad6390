//! Waiting for what one of the links is to bring: first by polling, then in earnest, doing the work of all meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Engine, MOST_POLLS};
use crate::back_end::{Wait, Waited};
use crate::error::Result;
use crate::message::link::Link;
use crate::message::outcome::Outcome;
use crate::units::Time;

/// How long a sender on a fabric that loses writes waits for an answer before it checks whether all has arrived:
/// some times as long as an answer takes, so that those who talk to and fro never pay for a check.
pub(super) const CHECK_AFTER: Duration = Duration::from_micros(200);

/// How often whoever waits for a receive that failed looks whether its peer is still at a write, and whoever leaves
/// the interrupt to the service thread whether that has ended.
const LOOK_AFTER: Duration = Duration::from_millis(1);

/// How long a waiter waits at most before it does what is to be done meanwhile: often enough for others that wait for
/// that, and seldom enough to cost little of a core.
const NAP: Duration = Duration::from_micros(200);

/// A wait that has ended so long before its deadline, with nothing there, was ended by the fabric.
const EARLY: Duration = Duration::from_micros(50);

/// How often it polls for what it waits for, for each time that it looks for other work.
const POLLS: u32 = 8;

/// Every how many waits polling is tried again where it was in vain.
const NOW_AND_THEN: u32 = 32;

/// How polling ended.
enum Spun {
    /// What was waited for has come.
    Interested,
    /// There is work.
    Work,
    InVain,
}

impl Engine {
    /// Tries until there is an answer. Between the tries it does the work of all links, and waits until there is more,
    /// or `interest` holds.
    #[inline]
    pub(in crate::message) fn wait<T>(
        &self,
        interest: impl Fn() -> bool,
        mut attempt: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            // Acquire: what was declared until now, the attempt sees.
            let seen = self.context.disturbances.load(Ordering::Acquire);
            if let Some(answer) = attempt()? {
                return Ok(answer);
            }
            match self.spin(&interest) {
                Spun::Interested => {}
                Spun::Work => {
                    self.advance(&interest);
                    self.leave_open_shares();
                }
                Spun::InVain => self.wait_longer(&interest, seen),
            }
        }
    }

    /// Polls for a moment; returns whether `interest` holds.
    #[inline]
    pub(in crate::message) fn spin_for(&self, interest: impl Fn() -> bool) -> bool {
        matches!(self.spin(&interest), Spun::Interested)
    }

    /// Polls for about as long as a peer that is at work on another core takes to answer. Where that was in vain it is
    /// tried for less long, in the end only now and then: with more processes than cores it would hold others up.
    #[inline]
    fn spin(&self, interest: &impl Fn() -> bool) -> Spun {
        // Relaxed: a guess, whoever makes it.
        let mut patience = self.patience.load(Ordering::Relaxed);
        if patience == 0 {
            let waits = self.waits.load(Ordering::Relaxed).wrapping_add(1);
            self.waits.store(waits, Ordering::Relaxed);
            patience = if waits.is_multiple_of(NOW_AND_THEN) { MOST_POLLS } else { 0 };
        }
        for _ in 0..patience.div_ceil(POLLS) {
            for _ in 0..POLLS {
                if interest() {
                    self.patience.store(MOST_POLLS, Ordering::Relaxed);
                    return Spun::Interested;
                }
                std::hint::spin_loop();
            }
            if self.links.iter().any(|link| link.has_work()) {
                return Spun::Work;
            }
        }
        self.patience.store(patience / 2, Ordering::Relaxed);
        Spun::InVain
    }

    #[cold]
    fn wait_longer(&self, interest: &impl Fn() -> bool, seen: u64) {
        self.context.waiters.enter();
        let nap = self.meanwhile.get().map(|_| self.context.fabric.now().after(NAP));
        let limit = [nap, self.next_inquiry()].into_iter().flatten().min();
        if self.pause(interest, seen, limit) == Waited::TimedOut {
            self.check_links(|link| link.signs.unchecked.load(Ordering::Relaxed));
            if let Some(meanwhile) = self.meanwhile.get() {
                meanwhile();
            }
        }
        self.advance(interest);
        self.take_back();
        self.context.waiters.leave();
        self.leave_open_shares();
        self.context.hand_arms_on();
        self.inquire(interest);
    }

    /// Waits until an operation has ended.
    pub(in crate::message) fn wait_for(&self, outcome: &Outcome) -> Result<usize> {
        self.wait(|| outcome.has_ended(), || outcome.get().transpose())
    }

    /// Waits until `interest` holds, there is work, something was declared that was not `seen`, or it is time for what
    /// tells by itself when it comes.
    pub(in crate::message) fn pause(
        &self,
        interest: &impl Fn() -> bool,
        seen: u64,
        limit: Option<Time>,
    ) -> Waited {
        let context = &self.context;
        // Its interrupt is left to the service thread that is to end by it.
        let attends =
            (context.settings.asynchronous && !self.is_ending_service()).then_some(context.interrupt);
        let mut ready = || {
            let declared = context.disturbances.load(Ordering::Relaxed);
            interest()
                || (attends.is_some() && self.is_ending_service())
                || self.links.iter().any(|link| link.has_work())
                || declared != seen
                || declared != self.handled.load(Ordering::Relaxed)
        };
        let any =
            |sign: fn(&Link) -> &AtomicBool| self.links.iter().any(|link| sign(link).load(Ordering::Relaxed));
        let now = || context.fabric.now();
        let unchecked = !context.reliable && any(|link| &link.signs.unchecked);
        let check = unchecked.then(|| now().after(CHECK_AFTER));
        let look = any(|link| &link.signs.lent).then(|| now().after(LOOK_AFTER));
        let unattended =
            (context.settings.asynchronous && attends.is_none()).then(|| now().after(LOOK_AFTER));
        let deadline = [limit, check, look, unattended].into_iter().flatten().min();
        let waited = context.fabric.wait_until(Wait { deadline, attends, ready: &mut ready });
        if attends.is_some() && self.is_ending_service() {
            // What it took note of may have been for that thread. It fails only when the fabric is closed.
            let _ = context.fabric.trigger(context.fabric.rank(), context.interrupt);
        }
        let is_early = || deadline.is_none_or(|deadline| now().after(EARLY) < deadline);
        if waited == Waited::TimedOut && is_early() {
            self.end_with_fabric();
        }
        waited
    }

    /// Whether somebody waits for the end of the service thread.
    fn is_ending_service(&self) -> bool {
        // Acquire: who has taken note of the interrupt by which it is to end sees it.
        self.is_stopping.load(Ordering::Acquire) && !self.is_unserved.load(Ordering::Acquire)
    }

    /// Has all end that waits: a fabric that was closed under the messenger waits for nothing any more.
    pub(super) fn end_with_fabric(&self) {
        self.context.fabric.membership().declare_ending("the fabric was closed");
    }
}
