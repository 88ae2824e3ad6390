//! What goes wrong on purpose, and chance.

use std::time::Duration;

use crate::sim::options::FaultOptions;
use crate::sim::report::FaultCounts;

/// Chance, and what it has done.
pub(crate) struct Faults {
    options: FaultOptions,
    chance: fastrand::Rng,
    pub(crate) counts: FaultCounts,
}

/// What becomes of a transaction.
pub(crate) struct Fate {
    /// Whether it arrives at all.
    pub(crate) arrives: bool,
    /// How much later than it would.
    pub(crate) late_by: Duration,
    /// How much later than that once more.
    pub(crate) again: Option<Duration>,
}

impl Faults {
    pub(crate) fn new(options: FaultOptions, seed: u64) -> Self {
        Self { options, chance: fastrand::Rng::with_seed(seed), counts: FaultCounts::default() }
    }

    pub(crate) fn options(&self) -> &FaultOptions {
        &self.options
    }

    /// What becomes of the next transaction.
    pub(crate) fn fate(&mut self) -> Fate {
        let mut fate = Fate { arrives: true, late_by: Duration::ZERO, again: None };
        if self.happens(self.options.dropped) {
            fate.arrives = false;
            self.counts.dropped += 1;
        }
        if self.happens(self.options.late) {
            fate.late_by = self.up_to(self.options.late_by);
            self.counts.late += 1;
        }
        if self.happens(self.options.repeated) {
            fate.again = Some(self.up_to(self.options.late_by));
            self.counts.repeated += 1;
        }
        fate
    }

    /// Any duration up to that, inclusive.
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        if most.is_zero() {
            return most;
        }
        Duration::from_nanos(self.chance.u64(0..=most.as_nanos() as u64))
    }

    fn happens(&mut self, probability: f64) -> bool {
        // No chance is spent on what never happens: a run without faults doesn't depend on how many were possible.
        probability > 0.0 && self.chance.f64() < probability
    }
}
