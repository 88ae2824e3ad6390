//! Whether those who are waited for are on the waiter's own core, although there is one for each: the scheduler leaves
//! them there where somebody computes on the other cores. Polling only keeps them from it then.

use std::time::{Duration, Instant};

/// What is known of those who are waited for.
#[derive(Debug, Default)]
pub(super) struct Companions {
    /// How much speaks for their being here, up to [`CERTAIN`].
    evidence: u32,
    /// How many waits there were since it was last seen that polling does not end them.
    waits: u32,
    /// Until when it is remembered that they were here.
    remembered: Option<Instant>,
}

/// What ended a wait that had begun with polling in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brought {
    /// It was seen while the waiter polled, whatever it did before.
    WhilePolling,
    /// It was there when a short turn was over.
    ByTurn,
    /// It was not there before the waiter slept, having kept its core.
    BySleep,
    /// It was not there before the waiter slept, or a turn was long: whoever is late says nothing.
    Late,
}

/// So much evidence is no chance: who is on another core is seen while the waiter polls, as that takes most of the time.
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
        self.evidence == CERTAIN
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
    pub(super) fn notice(&mut self, brought: Brought) {
        self.evidence = match brought {
            Brought::WhilePolling => 0,
            Brought::ByTurn | Brought::BySleep => (self.evidence + 1).min(CERTAIN),
            Brought::Late => self.evidence,
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Instant;

    use super::{Brought, CERTAIN, Companions, REMEMBERED, TRUSTED_WAITS};

    #[test]
    fn companions_are_looked_for_again_and_forgotten() {
        let (mut companions, now) = (Companions::default(), Instant::now());
        for _ in 1..CERTAIN {
            companions.notice(Brought::ByTurn);
            companions.notice(Brought::Late);
            assert!(!companions.are_here(now) && !companions.were_here(now));
        }
        companions.notice(Brought::BySleep);
        for _ in 0..TRUSTED_WAITS {
            assert!(companions.are_here(now) && companions.were_here(now));
        }
        // Polled for: they are there still.
        assert!(!companions.are_here(now));
        companions.notice(Brought::ByTurn);
        assert!(companions.are_here(now));
        // Polling sees what was waited for, or the waiter leaves: they are elsewhere.
        for part in
            [|companions: &mut Companions| companions.notice(Brought::WhilePolling), Companions::forget]
        {
            part(&mut companions);
            assert!(!companions.are_here(now) && companions.were_here(now));
            (0..CERTAIN).for_each(|_| companions.notice(Brought::ByTurn));
            assert!(companions.are_here(now));
        }
        assert!(!companions.were_here(now + REMEMBERED));
    }
}
