//! What goes from rank to rank.

use super::blocks::Blocks;
use crate::rank::Rank;

/// What a rank does with blocks that come to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Receipt {
    /// They take the place of what is there.
    Store,
    /// They are combined with what is there, as left operands.
    CombineLeft,
    /// They are combined with what is there, as right operands.
    CombineRight,
}

impl Receipt {
    /// The same with the operands in the other order.
    #[must_use]
    pub fn swapped(self) -> Self {
        match self {
            Self::Store => Self::Store,
            Self::CombineLeft => Self::CombineRight,
            Self::CombineRight => Self::CombineLeft,
        }
    }
}

/// Blocks that one rank gives another in a message, or, where both are the same rank, moves within its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Who gives them.
    pub from: Rank,
    /// Who gets them.
    pub to: Rank,
    /// Which of the giver's blocks, as they are before the step.
    pub blocks: Blocks,
    /// Where they go: into the receiver's blocks from this one on, or into those of the same numbers.
    pub into: Option<u64>,
    /// What becomes of them there.
    pub receipt: Receipt,
}

impl Transfer {
    /// Whether it stays within a rank's memory.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.from == self.to
    }

    /// The receiver's blocks that they go into.
    #[must_use]
    pub fn target(&self) -> Blocks {
        self.into.map_or_else(|| self.blocks.clone(), |first| (first..first + self.blocks.len()).into())
    }
}
