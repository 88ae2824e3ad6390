//! How often nodes have asked for the same lock, and so which of them keep what they get.
//!
//! A node keeps a lock from the second time on that it asks for the same one without anybody's having asked for what
//! conflicts with it in between: sooner, and ranges that all write in turn would be asked back each time, which takes
//! more messages than not keeping them. Where a kept lock was of so little use that this has happened, it takes
//! twice as many requests the next time.

use crate::cluster::NodeIndex;

use super::lent::Wanted;

/// After how many requests in a row a lock is kept, at first and at most.
const IN_A_ROW: u64 = 2;
const MOST_IN_A_ROW: u64 = 64;

/// How many different requests are remembered.
const REMEMBERED: usize = 64;

/// What was asked for last of a file.
#[derive(Default)]
pub(super) struct History {
    runs: Vec<Run>,
}

/// How often a node has asked for the same thing in a row.
struct Run {
    node: NodeIndex,
    wanted: Wanted,
    length: u64,
    /// How long it has to be for the lock to be kept.
    needed: u64,
}

impl History {
    /// Notes a request; says whether the node has asked often enough to keep what it gets.
    pub(super) fn note(&mut self, node: NodeIndex, wanted: &Wanted) -> bool {
        let others = self.runs.iter_mut().filter(|run| run.node != node && run.wanted.conflicts(wanted));
        others.for_each(|run| run.length = 0);
        let place = self.runs.iter().position(|run| run.node == node && run.wanted == *wanted);
        let mut run = match place {
            Some(place) => self.runs.remove(place),
            None => Run { node, wanted: wanted.clone(), length: 0, needed: IN_A_ROW },
        };
        run.length += 1;
        let is_enough = run.length >= run.needed;
        if self.runs.len() >= REMEMBERED {
            self.runs.remove(0);
        }
        self.runs.push(run);
        is_enough
    }

    /// Learns of how much use a lock was that a node kept.
    pub(super) fn learn(&mut self, node: NodeIndex, wanted: &Wanted, uses: u64) {
        let of_it = |run: &&mut Run| run.node == node && run.wanted == *wanted;
        if let Some(run) = self.runs.iter_mut().find(of_it) {
            run.needed = if uses > run.needed { IN_A_ROW } else { (run.needed * 2).min(MOST_IN_A_ROW) };
        }
    }
}
