//! J. Bruck and others, "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems":
//! allgather, alltoall.

use std::ops::Range;

use super::{Part, Position};
use crate::collective::blocks::Blocks;
use crate::collective::transfer::Receipt;

/// Each has the blocks of the ranks from itself on, as many as its distance to the next one that it gets more from.
pub(crate) fn allgather(part: &mut Part, at: Position) {
    for round in 0..at.rounds() {
        let distance = 1 << round;
        let count = u64::from(distance.min(at.ranks - distance));
        let from = |first: u32| Blocks::around(u64::from(first), count, u64::from(at.ranks));
        part.give(round, at.before(distance), from(at.rank), Receipt::Store);
        part.get(round, at.after(distance), from(at.after(distance)), Receipt::Store);
    }
}

/// A block whose way has a bit goes that far in that bit's round.
pub(crate) fn alltoall(part: &mut Part, at: Position) {
    for round in 0..at.rounds() {
        let distance = 1 << round;
        part.give(round, at.after(distance), leaving(at, distance), Receipt::Store);
        let before = at.before(distance);
        part.get(round, before, leaving(Position { rank: before, ..at }, distance), Receipt::Store);
    }
}

/// What leaves a rank in the round of that distance, by how far it goes in all.
fn leaving(at: Position, distance: u32) -> Blocks {
    let block = |way: u32| -> Range<u64> {
        // So far it has come by the bits below.
        let origin = at.before(way & (distance - 1));
        let block = number(at.ranks, origin, Position { rank: origin, ..at }.after(way));
        block..block + 1
    };
    (0..at.ranks).filter(|way| way & distance != 0).map(block).collect()
}

/// The number of the block that `to` gets from `from`.
pub(crate) fn number(ranks: u32, from: u32, to: u32) -> u64 {
    u64::from(from) * u64::from(ranks) + u64::from(to)
}
