//! Algorithms for collectives, with what they have to be told.

use super::constructors::halving::Folding;
use super::constructors::{Position, bruck, chain, halving, pairs, prefix, ring, star, tree};
use super::definition::Collective;
use super::names::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, CollectAlgorithm,
    ReduceAlgorithm,
};
use super::part::Part;
use super::proof::Operands;
use super::schedule::CollectiveSchedule;
use crate::collective::blocks::Blocks;
use crate::collective::transfer::Receipt;
use crate::rank::Rank;

/// An algorithm for a collective: what makes a schedule of a number of ranks, or one rank's part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectiveAlgorithm {
    /// One has data for all.
    Bcast {
        /// Who.
        root: Rank,
        /// How it goes.
        algorithm: BcastAlgorithm,
        /// Into how many segments data is divided that goes from rank to rank: no other algorithm looks at it.
        segments: u32,
    },
    /// One gets something from each.
    Gather {
        /// Who.
        root: Rank,
        /// How it goes.
        algorithm: CollectAlgorithm,
    },
    /// One has something for each.
    Scatter {
        /// Who.
        root: Rank,
        /// How it goes.
        algorithm: CollectAlgorithm,
    },
    /// All get something from each.
    Allgather(AllgatherAlgorithm),
    /// Each gets something else from each.
    Alltoall(AlltoallAlgorithm),
    /// One gets what all have, combined.
    Reduce {
        /// Who.
        root: Rank,
        /// How it goes.
        algorithm: ReduceAlgorithm,
        /// How operands may be combined. Where the order matters, the first rank is the top of a binomial tree, and
        /// passes the result on.
        operands: Operands,
    },
    /// All get what all have, combined.
    Allreduce(AllreduceAlgorithm),
    /// Each gets its part of what all have, combined. The first *p* blocks are the parts.
    ReduceScatter,
    /// Each gets what the ranks up to it have, combined.
    Scan,
    /// Each gets what the ranks before it have, combined.
    Exscan,
}

impl CollectiveAlgorithm {
    /// Which collective it is for.
    #[must_use]
    pub fn collective(&self) -> Collective {
        match *self {
            Self::Bcast { root, .. } => Collective::Bcast { root },
            Self::Gather { root, .. } => Collective::Gather { root },
            Self::Scatter { root, .. } => Collective::Scatter { root },
            Self::Allgather(_) => Collective::Allgather,
            Self::Alltoall(_) => Collective::Alltoall,
            Self::Reduce { root, .. } => Collective::Reduce { root },
            Self::Allreduce(_) => Collective::Allreduce,
            Self::ReduceScatter => Collective::ReduceScatter,
            Self::Scan => Collective::Scan,
            Self::Exscan => Collective::Exscan,
        }
    }

    /// How operands have to be such that it does what it is for.
    #[must_use]
    pub fn operands(&self) -> Operands {
        match *self {
            Self::Reduce { algorithm: ReduceAlgorithm::Binomial, operands, .. } => operands,
            Self::Allreduce(AllreduceAlgorithm::Ring) => Operands::Commuting,
            _ => Operands::Ordered,
        }
    }

    /// How many blocks there are for so many ranks.
    #[must_use]
    pub fn blocks(&self, ranks: u32) -> u64 {
        let (all, halved) = (u64::from(ranks), u64::from(Folding::of(ranks).active()));
        match *self {
            Self::Bcast { algorithm, segments, .. } => match algorithm {
                BcastAlgorithm::Binomial => 1,
                BcastAlgorithm::Pipelined => u64::from(segments),
                BcastAlgorithm::ScatterAllgather => all,
            },
            Self::Gather { .. } | Self::Scatter { .. } | Self::Allgather(_) => all,
            Self::Alltoall(_) => all * all,
            Self::Reduce { algorithm, .. } => match algorithm {
                ReduceAlgorithm::Binomial => 1,
                ReduceAlgorithm::Rabenseifner => halved,
            },
            Self::Allreduce(algorithm) => match algorithm {
                AllreduceAlgorithm::RecursiveDoubling => 1,
                AllreduceAlgorithm::Rabenseifner => halved,
                AllreduceAlgorithm::Ring => all,
            },
            Self::ReduceScatter => all + 1,
            Self::Scan => 1,
            Self::Exscan => 3,
        }
    }

    /// How many bytes a block has where vectors of `bytes` are spread or combined, or, of all other collectives, each
    /// rank has so many for each other one.
    #[must_use]
    pub fn block_bytes(&self, ranks: u32, bytes: u64) -> u64 {
        match self {
            Self::Bcast { .. } | Self::Reduce { .. } | Self::Allreduce(_) => {
                bytes.div_ceil(self.blocks(ranks))
            }
            Self::ReduceScatter => bytes.div_ceil(u64::from(ranks)),
            Self::Gather { .. } | Self::Scatter { .. } | Self::Allgather(_) | Self::Alltoall(_) => bytes,
            Self::Scan | Self::Exscan => bytes,
        }
    }

    /// How many messages there are between so many ranks, roughly; only two ranks' parts are made for that.
    ///
    /// # Panics
    /// As [`part_of`](Self::part_of).
    #[must_use]
    pub fn messages_about(&self, ranks: u32) -> u64 {
        let of = |rank: u32| self.part_of(ranks, Rank(rank)).transfers().len() as u64;
        match (self, u64::from(ranks.saturating_sub(1))) {
            (_, 0) => 0,
            (&Self::Bcast { algorithm: BcastAlgorithm::Pipelined, segments, .. }, others) => {
                others * u64::from(segments)
            }
            // Making a part would take as many ranges as each of its messages has.
            (Self::Alltoall(AlltoallAlgorithm::Bruck), _) => {
                u64::from(ranks) * u64::from(Position { ranks, rank: 0 }.rounds())
            }
            // Each is in two parts. Where there is a root, that one may do more than all others.
            (_, others) => (of(0) + others * of(ranks - 1)) / 2,
        }
    }

    /// Of how many ranges of blocks these messages are, roughly: most of them of one, but what goes to many by way of
    /// others has a range for each of them.
    ///
    /// # Panics
    /// As [`part_of`](Self::part_of).
    #[must_use]
    pub fn ranges_about(&self, ranks: u32) -> u64 {
        let of_each = match self {
            Self::Alltoall(AlltoallAlgorithm::Bruck) => u64::from(ranks).div_ceil(2),
            _ => 1,
        };
        self.messages_about(ranks) * of_each
    }

    /// What one of so many ranks does. Of the others nothing is made.
    ///
    /// # Panics
    /// Where there is no such rank, or the root is none.
    #[must_use]
    pub fn part_of(&self, ranks: u32, rank: Rank) -> Part {
        assert!(rank.0 < ranks, "there is no rank {rank} among {ranks}");
        if let Some(root) = self.root() {
            assert!(root.0 < ranks, "there is no rank {root} among {ranks}");
        }
        let at = Position { ranks, rank: rank.0 };
        let mut part = Part::of(rank);
        match *self {
            Self::Bcast { root: Rank(root), algorithm, segments } => match algorithm {
                BcastAlgorithm::Binomial => tree::down(&mut part, at, root, |_| 0.into()),
                BcastAlgorithm::Pipelined => chain::bcast(&mut part, at, root, segments),
                BcastAlgorithm::ScatterAllgather => {
                    tree::down(&mut part, at, root, |places| {
                        (u64::from(places.start)..u64::from(places.end)).into()
                    });
                    ring::gather_divided(&mut part, at, root);
                }
            },
            Self::Gather { root: Rank(root), algorithm } => match algorithm {
                CollectAlgorithm::Binomial => {
                    tree::up(&mut part, at, root, Receipt::Store, |places| members(at, root, places));
                }
                CollectAlgorithm::Linear => star::gather(&mut part, at, root),
            },
            Self::Scatter { root: Rank(root), algorithm } => match algorithm {
                CollectAlgorithm::Binomial => {
                    tree::down(&mut part, at, root, |places| members(at, root, places));
                }
                CollectAlgorithm::Linear => star::scatter(&mut part, at, root),
            },
            Self::Allgather(AllgatherAlgorithm::Bruck) => bruck::allgather(&mut part, at),
            Self::Allgather(AllgatherAlgorithm::Ring) => ring::pass_on(&mut part, at, 0, 0, Receipt::Store),
            Self::Alltoall(AlltoallAlgorithm::Bruck) => bruck::alltoall(&mut part, at),
            Self::Alltoall(AlltoallAlgorithm::Pairwise) => pairs::alltoall(&mut part, at),
            Self::Reduce { root: Rank(root), algorithm, operands } => match algorithm {
                ReduceAlgorithm::Binomial => {
                    let top = if operands == Operands::Commuting { root } else { 0 };
                    tree::reduce(&mut part, at, top, root);
                }
                ReduceAlgorithm::Rabenseifner => halving::reduce_by_halves(&mut part, at, root),
            },
            Self::Allreduce(algorithm) => match algorithm {
                AllreduceAlgorithm::RecursiveDoubling => halving::allreduce_by_doubling(&mut part, at),
                AllreduceAlgorithm::Rabenseifner => halving::allreduce_by_halves(&mut part, at),
                AllreduceAlgorithm::Ring => ring::allreduce(&mut part, at),
            },
            Self::ReduceScatter => pairs::reduce_scatter(&mut part, at),
            Self::Scan => prefix::scan(&mut part, at),
            Self::Exscan => prefix::exscan(&mut part, at),
        }
        part
    }

    /// The schedule of so many ranks: all their parts.
    ///
    /// # Panics
    /// Where the root is none of them.
    #[must_use]
    pub fn schedule(&self, ranks: u32) -> CollectiveSchedule {
        CollectiveSchedule::of_parts(ranks, self.blocks(ranks), |rank| self.part_of(ranks, rank))
    }

    fn root(&self) -> Option<Rank> {
        match *self {
            Self::Bcast { root, .. }
            | Self::Gather { root, .. }
            | Self::Scatter { root, .. }
            | Self::Reduce { root, .. } => Some(root),
            _ => None,
        }
    }
}

/// The blocks of the ranks at some places counted from `root`.
fn members(at: Position, root: u32, places: std::ops::Range<u32>) -> Blocks {
    let count = u64::from(places.end - places.start);
    Blocks::around(u64::from(at.at(root, places.start)), count, u64::from(at.ranks))
}
