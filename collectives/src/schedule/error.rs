//! What schedules cannot have.

use crate::rank::Rank;
use crate::schedule::StepKind;

/// What is wrong with steps that no schedule can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A rank that is not in the group.
    #[error("step {step}: there is no rank {rank} among {ranks}")]
    OutOfRange {
        /// Where, from 0.
        step: usize,
        /// Which rank.
        rank: Rank,
        /// How many there are.
        ranks: u32,
    },
    /// A rank cannot signal itself.
    #[error("step {step}: rank {rank} signals itself")]
    ToItself {
        /// Where, from 0.
        step: usize,
        /// Which rank.
        rank: Rank,
    },
    /// One signal in a step is enough.
    #[error("step {step}: rank {from} signals rank {to} twice")]
    Twice {
        /// Where, from 0.
        step: usize,
        /// Who signals.
        from: Rank,
        /// Whom.
        to: Rank,
    },
    /// The signals do not fit what an executor would make of the step.
    #[error("step {step}: what rank {rank} does there and before does not fit a step of kind {kind:?}")]
    Kind {
        /// Where, from 0.
        step: usize,
        /// Which rank.
        rank: Rank,
        /// What the step was to be.
        kind: StepKind,
    },
    /// Who has stayed behind in a step of kind fetch-add waits for ever.
    #[error("rank {rank} stays behind in a step of kind FetchAdd, and no step resumes it")]
    NoResume {
        /// Which rank.
        rank: Rank,
    },
}
