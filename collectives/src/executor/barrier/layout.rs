//! Where the words of a barrier lie in each member's segment: one cache line for each that writes.
//!
//! ```text
//!   bed │ for each step, in order:  Signals    a flag for each whom the member awaits
//!                                   FetchAdd   a counter, where the member awaits anybody
//!                                   Resume     the member's resume word, where it takes part
//! ```
//!
//! Where the fabric counts only by messages, all steps are executed as plain signals.

use crate::rank::Rank;
use crate::schedule::{Schedule, Step, StepKind};

const LINE: u64 = 64;

/// The layout for a schedule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout<'schedule> {
    schedule: &'schedule Schedule,
    counts: bool,
}

impl<'schedule> Layout<'schedule> {
    /// That of `schedule`, where steps are counted as their kinds allow, or not.
    pub(super) fn new(schedule: &'schedule Schedule, counts: bool) -> Self {
        Self { schedule, counts }
    }

    /// Whether steps are counted as their kinds allow.
    pub(super) fn counts(&self) -> bool {
        self.counts
    }

    /// Bytes of a segment: as many for all members.
    pub(super) fn length(&self) -> u64 {
        let steps = self.schedule.steps();
        let lines = |rank| steps.iter().map(|step| self.lines(step, rank)).sum::<u64>();
        (1 + (0..self.schedule.ranks()).map(|rank| lines(Rank(rank))).max().unwrap_or(0)) * LINE
    }

    /// What an executor makes of a step.
    pub(super) fn kind(&self, step: &Step) -> StepKind {
        if self.counts { step.kind() } else { StepKind::Signals }
    }

    /// Where the first word of a member for a step is.
    pub(super) fn first(&self, rank: Rank, step: usize) -> u64 {
        let before = &self.schedule.steps()[..step];
        (1 + before.iter().map(|step| self.lines(step, rank)).sum::<u64>()) * LINE
    }

    /// Where the flag of `from` at `to` is.
    pub(super) fn flag(&self, step: usize, from: Rank, to: Rank) -> u64 {
        let awaited = self.schedule.steps()[step].awaited_by(to);
        self.first(to, step) + awaited.partition_point(|&rank| rank < from) as u64 * LINE
    }

    fn lines(&self, step: &Step, rank: Rank) -> u64 {
        let awaited = step.awaited_by(rank).len() as u64;
        match self.kind(step) {
            StepKind::Signals => awaited,
            StepKind::FetchAdd => awaited.min(1),
            StepKind::Resume => u64::from(awaited > 0 || !step.signalled_by(rank).is_empty()),
        }
    }
}
