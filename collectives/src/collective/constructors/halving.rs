//! A power of two of ranks that exchange with partners twice as far in each round: reduce, allreduce.
//!
//! ```text
//!   0 ─► 1    2 ─► 3    4 ─► 5    6      with r ranks too many, the first 2r are pairs, whose first gives its data
//!        └─────────┴─────────┴────┘      the others go on, neighbours combined in the order of ranks
//! ```

use std::ops::Range;

use super::{Part, Position};
use crate::collective::transfer::Receipt;

/// The power of two, and how many are too many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folding {
    active: u32,
    folded: u32,
}

impl Folding {
    pub(crate) fn of(ranks: u32) -> Self {
        let active = 1 << ranks.max(1).ilog2();
        Self { active, folded: ranks - active }
    }

    /// How many go on: a vector that is halved has as many blocks.
    pub(crate) fn active(self) -> u32 {
        self.active
    }

    /// As which one of the power of two a rank goes on; none where the next one goes on for both.
    fn number(self, rank: u32) -> Option<u32> {
        match rank {
            rank if rank >= 2 * self.folded => Some(rank - self.folded),
            rank if rank % 2 == 1 => Some(rank / 2),
            _ => None,
        }
    }

    fn rank(self, number: u32) -> u32 {
        if number < self.folded { 2 * number + 1 } else { number + self.folded }
    }

    /// The one whose data a rank takes over before it goes on.
    fn folded_into(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.folded && rank % 2 == 1).then(|| rank - 1)
    }

    fn rounds(self) -> u32 {
        self.active.ilog2()
    }

    /// How a vector is halved for one of the active.
    fn halvings(self, number: u32) -> Vec<Halving> {
        let mut held = 0..u64::from(self.active);
        (0..self.rounds())
            .map(|round| {
                let partner = number ^ 1 << round;
                let middle = u64::midpoint(held.start, held.end);
                let (low, high) = (held.start..middle, middle..held.end);
                let is_low = number < partner;
                let (kept, given) = if is_low { (low, high) } else { (high, low) };
                held = kept.clone();
                Halving { partner, is_low, kept, given }
            })
            .collect()
    }
}

/// A round of halving: with whom it is, what a rank keeps, and what that one keeps.
#[derive(Debug)]
struct Halving {
    partner: u32,
    is_low: bool,
    kept: Range<u64>,
    given: Range<u64>,
}

/// What becomes of what comes to one of two partners from the other.
fn combined(is_low: bool) -> Receipt {
    if is_low { Receipt::CombineRight } else { Receipt::CombineLeft }
}

/// Whole vectors, which are one block, are exchanged.
pub(crate) fn allreduce_by_doubling(part: &mut Part, at: Position) {
    let folding = Folding::of(at.ranks);
    folded(part, at, 0..1, folding.rounds(), |part, number| {
        for round in 0..folding.rounds() {
            let partner = number ^ 1 << round;
            let is_low = number < partner;
            part.give(1 + round, folding.rank(partner), 0, combined(!is_low));
            part.get(1 + round, folding.rank(partner), 0, combined(is_low));
        }
    });
}

/// R. Rabenseifner's: halves of halves are combined, and the same rounds backwards give each what its partner kept.
pub(crate) fn allreduce_by_halves(part: &mut Part, at: Position) {
    let folding = Folding::of(at.ranks);
    let (all, rounds) = (0..u64::from(folding.active), folding.rounds());
    folded(part, at, all, 2 * rounds, |part, number| {
        let halvings = folding.halvings(number);
        combine_halves(part, folding, &halvings);
        for (step, Halving { partner, kept, given, .. }) in (1 + rounds..).zip(halvings.into_iter().rev()) {
            part.give(step, folding.rank(partner), kept, Receipt::Store);
            part.get(step, folding.rank(partner), given, Receipt::Store);
        }
    });
}

/// R. Rabenseifner's: halves of halves are combined, and then gathered by who goes on for the root.
pub(crate) fn reduce_by_halves(part: &mut Part, at: Position, root: u32) {
    let folding = Folding::of(at.ranks);
    let all = 0..u64::from(folding.active);
    let rounds = folding.rounds();
    let last = 1 + 2 * rounds;
    let (gatherer, passes_on) = match folding.number(root) {
        Some(number) => (number, false),
        None => (root / 2, true),
    };
    let Some(number) = folding.number(at.rank) else {
        part.give(0, at.rank + 1, all.clone(), Receipt::CombineLeft);
        if at.rank == root {
            part.get(last, root + 1, all, Receipt::Store);
        }
        return;
    };
    if let Some(other) = folding.folded_into(at.rank) {
        part.get(0, other, all.clone(), Receipt::CombineLeft);
    }
    let halvings = folding.halvings(number);
    combine_halves(part, folding, &halvings);
    for (step, (round, halving)) in (1 + rounds..).zip(halvings.into_iter().enumerate().rev()) {
        let Halving { partner, kept, given, .. } = halving;
        let away = number ^ gatherer;
        match away >> round {
            0 => part.get(step, folding.rank(partner), given, Receipt::Store),
            1 => part.give(step, folding.rank(partner), kept, Receipt::Store),
            // It has given what it had in a round of a higher bit.
            _ => break,
        }
    }
    if passes_on && number == gatherer {
        part.give(last, root, all, Receipt::Store);
    }
}

fn combine_halves(part: &mut Part, folding: Folding, halvings: &[Halving]) {
    for (step, Halving { partner, is_low, kept, given }) in (1..).zip(halvings) {
        part.give(step, folding.rank(*partner), given.clone(), combined(!is_low));
        part.get(step, folding.rank(*partner), kept.clone(), combined(*is_low));
    }
}

/// Has the active `go_on` for so many rounds, from step 1 on, after the others' blocks are folded into theirs, and
/// before these get them back.
fn folded(part: &mut Part, at: Position, all: Range<u64>, rounds: u32, go_on: impl FnOnce(&mut Part, u32)) {
    let folding = Folding::of(at.ranks);
    let Some(number) = folding.number(at.rank) else {
        part.give(0, at.rank + 1, all.clone(), Receipt::CombineLeft);
        return part.get(1 + rounds, at.rank + 1, all, Receipt::Store);
    };
    let folded = folding.folded_into(at.rank);
    if let Some(other) = folded {
        part.get(0, other, all.clone(), Receipt::CombineLeft);
    }
    go_on(part, number);
    if let Some(other) = folded {
        part.give(1 + rounds, other, all, Receipt::Store);
    }
}
