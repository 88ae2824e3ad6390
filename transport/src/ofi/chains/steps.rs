//! The steps of a chain.

use crate::dma::Direction;
use crate::memory::UserMemory;
use crate::ofi::sources::Source;
use crate::units::Rank;

/// One transfer.
pub(super) struct Step {
    pub(super) direction: Direction,
    pub(super) local: UserMemory,
    /// Of local memory, where a write begins there.
    pub(super) source: Source,
    pub(super) owner: Rank,
    pub(super) key: u64,
    pub(super) base: u64,
    /// Where in the remote memory.
    pub(super) offset: u64,
}

/// What is posted of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Posts {
    direction: Direction,
    owner: Rank,
    /// The longest part, in bytes.
    part: usize,
}

impl Step {
    /// What is posted of it, in parts of at most so many bytes.
    pub(super) fn posts(&self, longest_part: usize) -> Posts {
        Posts { direction: self.direction, owner: self.owner, part: self.local.length.min(longest_part) }
    }
}

/// Whether parts of `next` may be posted while some of `before` are under way, on a network that keeps the order of
/// writes that are shorter than `ordered_below`.
pub(super) fn may_overlap(before: Posts, next: Posts, ordered_below: usize) -> bool {
    let are_writes = before.direction == Direction::Write && next.direction == Direction::Write;
    // The largest number stands for any length.
    let are_ordered = ordered_below == usize::MAX || before.part.max(next.part) < ordered_below;
    are_writes && before.owner == next.owner && are_ordered
}

#[cfg(test)]
mod tests {
    use super::{Posts, may_overlap};
    use crate::dma::Direction;
    use crate::units::Rank;

    fn write(owner: u32, part: usize) -> Posts {
        Posts { direction: Direction::Write, owner: Rank(owner), part }
    }

    #[test]
    fn steps_overlap_only_where_the_network_keeps_the_order_of_both() {
        let (short, long) = (write(1, 4095), write(1, 4096));
        assert!(may_overlap(short, short, 4096));
        for [before, next] in [[short, long], [long, short], [long, long]] {
            assert!(!may_overlap(before, next, 4096), "{before:?}, {next:?}");
            assert!(may_overlap(before, next, usize::MAX), "{before:?}, {next:?}");
        }
        assert!(!may_overlap(short, short, 0));
        assert!(!may_overlap(short, write(2, 4095), usize::MAX));
        let read = Posts { direction: Direction::Read, ..short };
        assert!(!may_overlap(short, read, usize::MAX) && !may_overlap(read, short, usize::MAX));
    }
}
