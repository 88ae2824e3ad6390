//! The barrier of the Cray X1: a four-way tree of words, and one scatter of resume words.

use crate::constructors::{Steps, hierarchical};
use crate::schedule::{Signal, StepDescription, StepKind};

/// How many ranks, or groups of ranks, meet at a word (X1, "MPI_Barrier").
const WAYS: u32 = 4;

/// Up to four ranks meet at a word, the last of them goes on to the next level, where up to four groups meet; who comes
/// last of all writes everyone's resume word (X1, "MPI_Barrier").
///
/// As signals: the words lie with the first rank of each group, and it is this rank that goes on, whenever it came.
pub(crate) fn x1_tree(ranks: u32) -> Vec<StepDescription> {
    if ranks < 2 {
        return Vec::new();
    }
    let levels: Steps = hierarchical::tree(ranks, WAYS);
    let describe = |signals| StepDescription { kind: StepKind::FetchAdd, signals };
    let mut steps: Vec<_> = levels.into_iter().map(describe).collect();
    let signals = (1..ranks).map(|rank| Signal::new(0, rank)).collect();
    steps.push(StepDescription { kind: StepKind::Resume, signals });
    steps
}
