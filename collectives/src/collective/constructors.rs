//! The algorithms: what each rank does.
//!
//! Each function adds to one rank's part what that rank does, with the same numbers of steps as all others use: so
//! parts are made rank by rank, and only for those that are asked for.

pub(super) mod bruck;
pub(super) mod chain;
pub(super) mod halving;
pub(super) mod pairs;
pub(super) mod prefix;
pub(super) mod ring;
pub(super) mod star;
pub(super) mod tree;

use super::part::Part;

/// For whom something is added.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    /// How many ranks there are.
    pub(super) ranks: u32,
    /// Which of them it is.
    pub(super) rank: u32,
}

impl Position {
    /// The rank so many further on.
    pub(super) fn after(self, distance: u32) -> u32 {
        ((u64::from(self.rank) + u64::from(distance)) % u64::from(self.ranks)) as u32
    }

    /// The rank so many before, at most as many as there are.
    pub(super) fn before(self, distance: u32) -> u32 {
        self.after(self.ranks - distance)
    }

    /// Its place counted from `root`.
    pub(super) fn place(self, root: u32) -> u32 {
        self.before(root)
    }

    /// Which rank has a place counted from `root`.
    pub(super) fn at(self, root: u32, place: u32) -> u32 {
        Self { rank: root, ..self }.after(place)
    }

    /// In how many rounds all are reached when their number doubles in each.
    pub(super) fn rounds(self) -> u32 {
        self.ranks.next_power_of_two().ilog2()
    }
}
