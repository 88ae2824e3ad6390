//! The thread that goes on with operations while the application does something else.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Shared;

/// How long it waits for the application to come by again, before it takes over. A turn costs about 5 µs, so that is
/// one per cent of a core as long as something is outstanding.
const LENGTH: Duration = Duration::from_micros(500);

/// After how many turns with nothing outstanding it sleeps until it is woken, which costs who begins an operation some
/// microseconds.
const IDLE_TURNS: u32 = 8;

/// Runs until the group is closed and all is complete.
pub(super) fn run(shared: &Shared) {
    let outstanding = &shared.backlog.outstanding;
    let (mut seen, mut idle) = (0, 0);
    loop {
        // Relaxed: hints, and the loop comes again.
        let is_urgent = shared.is_urgent.swap(false, Ordering::Relaxed);
        let visits = shared.visits.load(Ordering::Relaxed);
        if outstanding.is_over() {
            return;
        }
        if outstanding.is_none() {
            idle = if visits == seen { idle + 1 } else { 0 };
            seen = visits;
            if idle > IDLE_TURNS {
                shared.handover.rest(outstanding)
            } else {
                shared.doze()
            }
            continue;
        }
        idle = 0;
        if visits == seen || is_urgent || outstanding.is_closing() {
            shared.take_over();
        } else {
            shared.doze();
        }
        seen = visits;
    }
}

impl Shared {
    /// Sleeps for a turn, or until it has to take over at once.
    fn doze(&self) {
        let is_over = || self.is_urgent.load(Ordering::Relaxed) || self.backlog.outstanding.is_closing();
        self.handover.doze(LENGTH, is_over);
    }

    /// Goes on with operations until all are complete, or the application came by again.
    fn take_over(&self) {
        let Some(mut engine) = self.handover.try_take() else {
            // Who has it is at work, or waits as this one would.
            return self.handover.rest(&self.backlog.outstanding);
        };
        let visits = self.visits.load(Ordering::Relaxed);
        loop {
            engine.advance();
            let Some(awaited) = engine.awaited else { return };
            let has_returned = self.visits.load(Ordering::Relaxed) != visits;
            // Who sleeps for the thread relies on it.
            if has_returned
                && self.sleepers.load(Ordering::Relaxed) == 0
                && !self.backlog.outstanding.is_closing()
            {
                return;
            }
            engine.asleep_for = Some(awaited);
            drop(engine);
            // Of an error, the operation finds out by itself.
            let _ = self.board.sleep(awaited, None, || self.check(awaited));
            engine = self.handover.take();
            engine.asleep_for = None;
        }
    }
}
