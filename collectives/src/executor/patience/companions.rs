//! Whether those who are waited for are on the waiter's own core, although there is one for each: the scheduler leaves
//! them there where somebody computes on the other cores. Polling only keeps them from it then.

use std::time::{Duration, Instant};

/// What is known of those who are waited for.
#[derive(Debug, Default)]
pub(super) struct Companions {
    /// How much speaks for their being here, up to twice [`CERTAIN`].
    evidence: u32,
    /// How many waits there were since it was last seen that polling does not end them.
    waits: u32,
    /// Until when it is remembered that they were here.
    remembered: Option<Instant>,
}

/// What a waiter did beside polling until a wait was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// It gave so many turns.
    Turns(u32),
    /// It kept its core, until it had to sleep.
    Sleep,
}

/// So many waits in a row are no chance.
const CERTAIN: u32 = 8;

/// After how many turns at most they have run who are on the same core: the first ones may come back at once, where the
/// scheduler does not hand the core to another group of processes yet.
pub(super) const FEW_TURNS: u32 = 16;

/// After so many waits that began without polling, one is polled for again: whether they are there still.
const TRUSTED_WAITS: u32 = 32;

/// For so long they are remembered: the scheduler moves processes many times meanwhile.
const REMEMBERED: Duration = Duration::from_millis(500);

impl Companions {
    /// Whether a wait, from `now` on, is to begin without polling.
    pub(super) fn are_here(&mut self, now: Instant) -> bool {
        let are_here = self.are_certain() && self.waits < TRUSTED_WAITS;
        self.waits = if are_here { self.waits + 1 } else { 0 };
        if are_here {
            self.remembered = Some(now + REMEMBERED);
        }
        are_here
    }

    /// Whether enough speaks for it.
    pub(super) fn are_certain(&self) -> bool {
        self.evidence >= CERTAIN
    }

    /// Whether they were here a short while before `now`.
    pub(super) fn were_here(&self, now: Instant) -> bool {
        self.remembered.is_some_and(|until| now < until)
    }

    /// The waiter has gone elsewhere.
    pub(super) fn forget(&mut self) {
        self.evidence = 0;
    }

    /// A wait that began with polling is over, or one that began without it has lasted longer.
    pub(super) fn notice(&mut self, effort: Effort) {
        self.evidence = match effort {
            Effort::Turns(0) => 0,
            Effort::Turns(..=FEW_TURNS) | Effort::Sleep => (self.evidence + 1).min(2 * CERTAIN),
            // One who is late says nothing.
            Effort::Turns(_) => self.evidence / 2,
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Instant;

    use super::{CERTAIN, Companions, Effort, FEW_TURNS, REMEMBERED, TRUSTED_WAITS};

    #[test]
    fn companions_are_looked_for_again_and_forgotten() {
        let (mut companions, now) = (Companions::default(), Instant::now());
        for wait in 1..CERTAIN {
            companions.notice(Effort::Turns(1 + wait % FEW_TURNS));
            assert!(!companions.are_here(now) && !companions.were_here(now));
        }
        companions.notice(Effort::Sleep);
        for _ in 0..TRUSTED_WAITS {
            assert!(companions.are_here(now) && companions.were_here(now));
        }
        // Polled for: they are there still.
        assert!(!companions.are_here(now));
        companions.notice(Effort::Turns(1));
        assert!(companions.are_here(now));
        // Polling sees what was waited for: they have gone.
        companions.notice(Effort::Turns(0));
        assert!(!companions.are_here(now) && companions.were_here(now));
        // Turns do not help: they may have gone, if it is so again.
        (0..2 * CERTAIN).for_each(|_| companions.notice(Effort::Turns(1)));
        companions.notice(Effort::Turns(FEW_TURNS + 1));
        assert!(companions.are_here(now));
        companions.notice(Effort::Turns(FEW_TURNS + 1));
        assert!(!companions.are_here(now) && companions.were_here(now));
        assert!(!companions.were_here(now + REMEMBERED));
        (0..2 * CERTAIN).for_each(|_| companions.notice(Effort::Turns(1)));
        companions.forget();
        assert!(!companions.are_here(now));
    }
}
