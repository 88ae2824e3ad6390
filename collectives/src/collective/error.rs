//! What collective schedules cannot have, and what keeps one from being a collective.

use crate::rank::Rank;

/// What is wrong with transfers that no collective schedule can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveScheduleError {
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
    /// A block that no rank has.
    #[error("step {step}: there is no block {block} among {blocks}")]
    NoSuchBlock {
        /// Where, from 0.
        step: usize,
        /// Which block.
        block: u64,
        /// How many there are.
        blocks: u64,
    },
    /// Two transfers, or one, go into the same block in a step: nobody could say which comes first.
    #[error("step {step}: block {block} of rank {rank} gets something twice")]
    Twice {
        /// Where, from 0.
        step: usize,
        /// Whose block.
        rank: Rank,
        /// Which.
        block: u64,
    },
    /// A rank does several things in a step that an executor could not do side by side without somebody waiting for
    /// ever.
    #[error("step {step}: rank {rank}, or who it exchanges something with, does too much there")]
    Crowded {
        /// Where, from 0.
        step: usize,
        /// Which rank.
        rank: Rank,
    },
}

/// Why a schedule is not the collective that it was to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// A rank gives a block, or combines something with one, that it has nothing in.
    #[error("step {step}: there is nothing in block {block} of rank {rank}")]
    Absent {
        /// Where, from 0.
        step: usize,
        /// Whose block.
        rank: Rank,
        /// Which.
        block: u64,
    },
    /// What is combined are parts of vectors that do not belong together.
    #[error("step {step}: something else is combined with block {block} of rank {rank}")]
    Unlike {
        /// Where, from 0.
        step: usize,
        /// Whose block.
        rank: Rank,
        /// Which.
        block: u64,
    },
    /// What is combined has a rank's contribution twice.
    #[error("step {step}: a contribution is combined with block {block} of rank {rank} that it has already")]
    Repeated {
        /// Where, from 0.
        step: usize,
        /// Whose block.
        rank: Rank,
        /// Which.
        block: u64,
    },
    /// In the end a rank does not have what it should have.
    #[error("in the end block {block} of rank {rank} is not what it should be")]
    Wrong {
        /// Whose block.
        rank: Rank,
        /// Which.
        block: u64,
    },
}
