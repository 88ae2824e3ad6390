//! What one rank does.

use super::blocks::Blocks;
use super::transfer::{Receipt, Transfer};
use crate::rank::Rank;

/// One rank's part of a collective schedule: the transfers that it gives or gets, in the order of their steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    rank: Rank,
    transfers: Vec<(u32, Transfer)>,
}

impl Part {
    /// A part without transfers yet.
    pub(super) fn of(rank: Rank) -> Self {
        Self { rank, transfers: Vec::new() }
    }

    /// Whose it is.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Its transfers, each with the number of its step.
    #[must_use]
    pub fn transfers(&self) -> &[(u32, Transfer)] {
        &self.transfers
    }

    /// Its transfers step by step. In a step the rank gives at most one message and gets at most one, or it gives
    /// several or gets several, and nothing else; or it moves something within its memory.
    pub fn steps(&self) -> impl Iterator<Item = &[(u32, Transfer)]> {
        self.transfers.chunk_by(|one, other| one.0 == other.0)
    }

    /// Whether anything comes to the rank: whether it needs memory that it may write to.
    #[must_use]
    pub fn receives(&self) -> bool {
        self.transfers.iter().any(|(_, transfer)| transfer.to == self.rank)
    }

    /// Its transfers, each with the number of its step.
    pub(super) fn into_transfers(self) -> Vec<(u32, Transfer)> {
        self.transfers
    }

    /// Has it do one more thing, in a step not before the last one.
    pub(super) fn push(&mut self, step: u32, transfer: Transfer) {
        debug_assert!(self.transfers.last().is_none_or(|last| last.0 <= step), "steps are taken in order");
        self.transfers.push((step, transfer));
    }

    /// Has it give another rank blocks, which go into those of the same numbers.
    pub(super) fn give(&mut self, step: u32, to: u32, blocks: impl Into<Blocks>, receipt: Receipt) {
        let (from, to, blocks) = (self.rank, Rank(to), blocks.into());
        self.push(step, Transfer { from, to, blocks, into: None, receipt });
    }

    /// Has it get another rank's blocks into those of the same numbers.
    pub(super) fn get(&mut self, step: u32, from: u32, blocks: impl Into<Blocks>, receipt: Receipt) {
        let (from, to, blocks) = (Rank(from), self.rank, blocks.into());
        self.push(step, Transfer { from, to, blocks, into: None, receipt });
    }
}
