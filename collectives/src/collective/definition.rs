//! What collectives are: what each rank holds before, and what it has to hold afterwards.

use std::ops::Range;

use crate::rank::Rank;

/// A collective, whatever the algorithm.
///
/// What it moves is *blocks* with numbers, the same for all ranks: a number says what is in a block, not where it lies.
/// A schedule may have more of them than are named here, for ranks to keep something in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collective {
    /// All get the root's blocks, of which there are any number.
    Bcast {
        /// Who has them.
        root: Rank,
    },
    /// The root gets block *i* of each rank *i*.
    Gather {
        /// Who gets them.
        root: Rank,
    },
    /// Each rank *i* gets block *i* of the root.
    Scatter {
        /// Who has them.
        root: Rank,
    },
    /// All get block *i* of each rank *i*.
    Allgather,
    /// Each rank *j* gets block *ip* + *j* of each rank *i* of *p*.
    Alltoall,
    /// The root gets all ranks' blocks, each combined; there are any number.
    Reduce {
        /// Who gets them.
        root: Rank,
    },
    /// All get all ranks' blocks, each combined; there are any number.
    Allreduce,
    /// Each rank *i* gets all ranks' blocks *i*, combined.
    ReduceScatter,
    /// In block 0, each gets that of the ranks up to itself, combined.
    Scan,
    /// In block 1, each but the first gets block 0 of the ranks before it, combined.
    Exscan,
}

/// What a block has to be in the end: some ranks' block of that number, combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Where it is to be.
    pub(super) block: u64,
    /// Which block of the contributors it is.
    pub(super) datum: u64,
    /// Whose.
    pub(super) contributors: Range<u32>,
}

impl Collective {
    /// The blocks that a rank has something in at the beginning, for so many ranks and blocks.
    pub(super) fn given(self, ranks: u32, blocks: u64, rank: Rank) -> Range<u64> {
        let (all, own) = (u64::from(ranks), u64::from(rank.0));
        match self {
            Self::Bcast { root } if rank == root => 0..blocks,
            Self::Scatter { root } if rank == root => 0..all,
            Self::Bcast { .. } | Self::Scatter { .. } => 0..0,
            Self::Gather { .. } | Self::Allgather => own..own + 1,
            Self::Alltoall => own * all..(own + 1) * all,
            Self::Reduce { .. } | Self::Allreduce => 0..blocks,
            Self::ReduceScatter => 0..all,
            Self::Scan | Self::Exscan => 0..1,
        }
    }

    /// What a rank has to hold in the end.
    pub(super) fn wanted(self, ranks: u32, blocks: u64, rank: Rank) -> Vec<Wanted> {
        let (all, own) = (u64::from(ranks), u64::from(rank.0));
        let same = |block: u64, contributors| Wanted { block, datum: block, contributors };
        let of_each = |member: u32, block| same(block, member..member + 1);
        match self {
            Self::Bcast { root } => (0..blocks).map(|block| of_each(root.0, block)).collect(),
            Self::Scatter { root } => vec![of_each(root.0, own)],
            Self::Gather { root } if rank != root => Vec::new(),
            Self::Gather { .. } | Self::Allgather => {
                (0..ranks).map(|member| of_each(member, u64::from(member))).collect()
            }
            Self::Alltoall => {
                (0..ranks).map(|member| of_each(member, u64::from(member) * all + own)).collect()
            }
            Self::Reduce { root } if rank != root => Vec::new(),
            Self::Reduce { .. } | Self::Allreduce => (0..blocks).map(|block| same(block, 0..ranks)).collect(),
            Self::ReduceScatter => vec![same(own, 0..ranks)],
            Self::Scan => vec![same(0, 0..rank.0 + 1)],
            Self::Exscan if rank.0 == 0 => Vec::new(),
            Self::Exscan => vec![Wanted { block: 1, datum: 0, contributors: 0..rank.0 }],
        }
    }
}
