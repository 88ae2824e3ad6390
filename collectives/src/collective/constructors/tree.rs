//! Binomial trees: bcast, gather, scatter, reduce.
//!
//! ```text
//!   place 0 ──► 1                 the lowest bit of a place leads up
//!          ├──► 2 ──► 3
//!          └──► 4 ──► 5           a place's subtree: itself and those behind it, up to its lowest bit
//!                └──► 6 ──► 7
//! ```

use std::ops::Range;

use super::{Part, Position};
use crate::collective::blocks::Blocks;
use crate::collective::transfer::Receipt;

/// The places of the subtree of one of `ranks` places, itself first.
pub(crate) fn subtree(place: u32, ranks: u32) -> Range<u32> {
    match place {
        0 => 0..ranks,
        _ => place..ranks.min(place.saturating_add(1 << place.trailing_zeros())),
    }
}

/// From place 0 to all: `blocks` tells which blocks some places get.
pub(crate) fn down(part: &mut Part, at: Position, root: u32, blocks: impl Fn(Range<u32>) -> Blocks) {
    let (place, rounds) = (at.place(root), at.rounds());
    let mut level = if place == 0 { rounds } else { place.trailing_zeros() };
    if place > 0 {
        let above = at.at(root, place - (1 << level));
        part.get(rounds - 1 - level, above, blocks(subtree(place, at.ranks)), Receipt::Store);
    }
    while level > 0 {
        level -= 1;
        let below = place + (1 << level);
        if below < at.ranks {
            let blocks = blocks(subtree(below, at.ranks));
            part.give(rounds - 1 - level, at.at(root, below), blocks, Receipt::Store);
        }
    }
}

/// From all to place 0: `blocks` tells which blocks come of some places, and `receipt` what becomes of them.
pub(crate) fn up(
    part: &mut Part,
    at: Position,
    root: u32,
    receipt: Receipt,
    blocks: impl Fn(Range<u32>) -> Blocks,
) {
    let place = at.place(root);
    let levels = if place == 0 { at.rounds() } else { place.trailing_zeros() };
    for level in 0..levels {
        let below = place + (1 << level);
        if below < at.ranks {
            part.get(level, at.at(root, below), blocks(subtree(below, at.ranks)), receipt);
        }
    }
    if place > 0 {
        let above = at.at(root, place - (1 << levels));
        part.give(levels, above, blocks(subtree(place, at.ranks)), receipt);
    }
}

/// What is combined up a tree whose top is `top`, and passed on to `root` where that is another.
pub(crate) fn reduce(part: &mut Part, at: Position, top: u32, root: u32) {
    // What comes from below is of later places.
    up(part, at, top, Receipt::CombineRight, |_| 0.into());
    match (at.rank == top, at.rank == root) {
        (true, false) => part.give(at.rounds(), root, 0, Receipt::Store),
        (false, true) => part.get(at.rounds(), top, 0, Receipt::Store),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::subtree;

    #[test]
    fn subtrees_of_a_place_fill_up_what_is_below_it() {
        assert_eq!([0, 1, 2, 4, 6].map(|place| subtree(place, 7)), [0..7, 1..2, 2..4, 4..7, 6..7]);
    }
}
