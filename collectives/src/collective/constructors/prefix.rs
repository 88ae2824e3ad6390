//! What the ranks before a rank have, combined: scan, exscan.

use super::{Part, Position};
use crate::collective::transfer::{Receipt, Transfer};
use crate::rank::Rank;

/// Of a rank, what the ranks up to itself have; of the exscan, what those before it have; and what has just come.
const KNOWN: u64 = 0;
const BEFORE: u64 = 1;
const COMING: u64 = 2;

/// In each round each knows of twice as many up to itself, and tells the one that many further.
pub(crate) fn scan(part: &mut Part, at: Position) {
    for round in 0..at.rounds() {
        let distance = 1 << round;
        if at.rank + distance < at.ranks {
            part.give(round, at.rank + distance, KNOWN, Receipt::CombineLeft);
        }
        if at.rank >= distance {
            part.get(round, at.rank - distance, KNOWN, Receipt::CombineLeft);
        }
    }
}

/// The same, and what comes is combined without the rank's own, too. A round has a step for messages and two within
/// memory.
pub(crate) fn exscan(part: &mut Part, at: Position) {
    for round in 0..at.rounds() {
        let (step, distance) = (3 * round, 1 << round);
        // What comes first is all that is known of those before.
        let landing = if round == 0 { BEFORE } else { COMING };
        let message = |from: u32, to: u32| Transfer {
            from: Rank(from),
            to: Rank(to),
            blocks: KNOWN.into(),
            into: Some(landing),
            receipt: Receipt::Store,
        };
        if at.rank + distance < at.ranks {
            part.push(step, message(at.rank, at.rank + distance));
        }
        if at.rank < distance {
            continue;
        }
        part.push(step, message(at.rank - distance, at.rank));
        let within = |into: u64| Transfer {
            from: Rank(at.rank),
            to: Rank(at.rank),
            blocks: landing.into(),
            into: Some(into),
            receipt: Receipt::CombineLeft,
        };
        if landing == COMING {
            part.push(step + 1, within(BEFORE));
        }
        if at.rank + 2 * distance < at.ranks {
            part.push(step + 2, within(KNOWN));
        }
    }
}
