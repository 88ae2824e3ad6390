//! Each with the root: gather, scatter.

use super::{Part, Position};
use crate::collective::transfer::Receipt;

/// All ranks' blocks to the root.
pub(crate) fn gather(part: &mut Part, at: Position, root: u32) {
    if at.rank != root {
        return part.give(0, root, u64::from(at.rank), Receipt::Store);
    }
    // All are on their way side by side, whoever is received first.
    for other in (1..at.ranks).map(|distance| at.after(distance)) {
        part.get(0, other, u64::from(other), Receipt::Store);
    }
}

/// The root's blocks to all.
pub(crate) fn scatter(part: &mut Part, at: Position, root: u32) {
    if at.rank != root {
        return part.get(0, root, u64::from(at.rank), Receipt::Store);
    }
    for other in (1..at.ranks).map(|distance| at.after(distance)) {
        part.give(0, other, u64::from(other), Receipt::Store);
    }
}
