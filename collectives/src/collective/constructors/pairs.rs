//! Each with one after the other: alltoall, reduce_scatter.

use super::bruck::number;
use super::{Part, Position};
use crate::collective::transfer::{Receipt, Transfer};
use crate::rank::Rank;

/// Each block goes straight to its rank.
pub(crate) fn alltoall(part: &mut Part, at: Position) {
    for distance in 1..at.ranks {
        let (to, from) = (at.after(distance), at.before(distance));
        part.give(distance - 1, to, number(at.ranks, at.rank, to), Receipt::Store);
        part.get(distance - 1, from, number(at.ranks, from, at.rank), Receipt::Store);
    }
}

/// Each block goes straight to its rank, and is combined there: first with those of the ranks before, from the nearest
/// on; then come the ranks behind, from the last on, which are combined by themselves in the block behind all others.
pub(crate) fn reduce_scatter(part: &mut Part, at: Position) {
    for distance in 1..at.ranks {
        part.push(distance - 1, contribution(at.ranks, at.rank, at.after(distance)));
        part.push(distance - 1, contribution(at.ranks, at.before(distance), at.rank));
    }
    if at.rank + 1 < at.ranks {
        let (own, into) = (Rank(at.rank), Some(u64::from(at.rank)));
        let behind = u64::from(at.ranks).into();
        let receipt = Receipt::CombineRight;
        part.push(at.ranks - 1, Transfer { from: own, to: own, blocks: behind, into, receipt });
    }
}

fn contribution(ranks: u32, from: u32, to: u32) -> Transfer {
    let is_last = from + 1 == ranks;
    let (into, receipt) = match from > to {
        false => (None, Receipt::CombineLeft),
        true => (Some(u64::from(ranks)), if is_last { Receipt::Store } else { Receipt::CombineLeft }),
    };
    Transfer { from: Rank(from), to: Rank(to), blocks: u64::from(to).into(), into, receipt }
}
