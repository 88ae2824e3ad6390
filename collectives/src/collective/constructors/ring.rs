//! Parts that go around: allgather, the second half of a bcast, allreduce.

use super::tree::subtree;
use super::{Part, Position};
use crate::collective::transfer::Receipt;

/// Each block goes around: in each round a rank passes on what came in the last one, at first the block `ahead` of its
/// own number.
pub(crate) fn pass_on(part: &mut Part, at: Position, first_step: u32, ahead: u32, receipt: Receipt) {
    let (next, before) = (at.after(1), at.before(1));
    for round in 0..at.ranks - 1 {
        let block = |behind| u64::from((at.before(behind) + ahead) % at.ranks);
        part.give(first_step + round, next, block(round), receipt);
        part.get(first_step + round, before, block(round + 1), receipt);
    }
}

/// Parts are combined on their way around, and then go around once more.
pub(crate) fn allreduce(part: &mut Part, at: Position) {
    pass_on(part, at, 0, 0, Receipt::CombineLeft);
    // What each has whole then is the part of the one behind it.
    pass_on(part, at, at.ranks - 1, 1, Receipt::Store);
}

/// What a binomial tree has divided goes around, among places counted from `root`. Nobody gets what it has: the parts
/// of its subtree.
pub(crate) fn gather_divided(part: &mut Part, at: Position, root: u32) {
    let place = at.place(root);
    let next = at.after(1);
    let has = |place: u32, block: u32| subtree(place, at.ranks).contains(&block);
    for round in 0..at.ranks - 1 {
        let step = at.rounds() + round;
        let [given, got] = [round, round + 1].map(|behind| Position { rank: place, ..at }.before(behind));
        if !has((place + 1) % at.ranks, given) {
            part.give(step, next, u64::from(given), Receipt::Store);
        }
        if !has(place, got) {
            part.get(step, at.before(1), u64::from(got), Receipt::Store);
        }
    }
}
