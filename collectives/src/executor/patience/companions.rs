//! Whether those who are waited for are on the waiter's own core, although there is one for each: the scheduler leaves
//! them there where somebody computes on the other cores. Polling only keeps them from it then.

use std::time::{Duration, Instant};

/// What is known of those who are waited for.
#[derive(Debug, Default)]
pub(super) struct Companions {
    /// How many waits in a row a single turn has ended which polling before it had not.
    turns: u32,
    /// How many waits there were since it was last seen that polling does not end them.
    waits: u32,
    /// Until when it is remembered that they were here.
    remembered: Option<Instant>,
}

/// So many turns in a row are no chance.
const CERTAIN_TURNS: u32 = 8;

/// After so many waits that began with a turn, one is polled for again: whether they are there still.
const TRUSTED_WAITS: u32 = 32;

/// For so long they are remembered: the scheduler moves processes many times meanwhile.
const REMEMBERED: Duration = Duration::from_millis(500);

impl Companions {
    /// Whether a wait, from `now` on, is to begin with a turn.
    pub(super) fn are_here(&mut self, now: Instant) -> bool {
        let are_here = self.turns >= CERTAIN_TURNS && self.waits < TRUSTED_WAITS;
        self.waits = if are_here { self.waits + 1 } else { 0 };
        if are_here {
            self.remembered = Some(now + REMEMBERED);
        }
        are_here
    }

    /// Whether they were here a short while before `now`.
    pub(super) fn were_here(&self, now: Instant) -> bool {
        self.remembered.is_some_and(|until| now < until)
    }

    /// A wait that began with polling is over, or one that began with a turn has lasted longer: that many turns were
    /// given.
    pub(super) fn notice(&mut self, turns: u32) {
        self.turns = if turns == 1 { self.turns.saturating_add(1) } else { 0 };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Instant;

    use super::{CERTAIN_TURNS, Companions, REMEMBERED, TRUSTED_WAITS};

    #[test]
    fn companions_are_looked_for_again_and_forgotten() {
        let (mut companions, now) = (Companions::default(), Instant::now());
        for _ in 1..CERTAIN_TURNS {
            companions.notice(1);
            assert!(!companions.are_here(now) && !companions.were_here(now));
        }
        companions.notice(1);
        for _ in 0..TRUSTED_WAITS {
            assert!(companions.are_here(now) && companions.were_here(now));
        }
        // Polled for: they are there still.
        assert!(!companions.are_here(now));
        companions.notice(1);
        assert!(companions.are_here(now));
        // Polling sees what was waited for, or turns do not help: they have gone.
        for turns in [0, 2] {
            companions.notice(turns);
            assert!(!companions.are_here(now) && companions.were_here(now));
            (0..CERTAIN_TURNS).for_each(|_| companions.notice(1));
            assert!(companions.are_here(now));
        }
        assert!(!companions.were_here(now + REMEMBERED));
    }
}
