//! Bytes that come home too late: a lost rank wrote them under a lock, nobody could bring them home, and the lock has
//! gone on.
//!
//! They are in the cache of the lost rank's node, from where any process of that node may bring them home, over what
//! the next holder wrote. A node whose leader is lost cannot be told of that, so its home does not take them: it notes
//! the range before the lock goes on, and refuses what comes of it out of that node's cache. Who is refused, or gets a
//! lock there, gives up what his node has of the range, and tells the home, which takes all again from then on.

use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::cluster::NodeIndex;
use crate::cluster::wire::{LateRange, Reply, Request};
use crate::error::Result;
use crate::units::FileId;

use crate::cluster::agent::Agent;

/// What a home takes no more of a file, of what nodes have in their caches.
#[derive(Default)]
pub(in super::super) struct Late(RwLock<Noted>);

#[derive(Default)]
struct Noted {
    /// How many ranges there were.
    count: u64,
    ranges: Vec<(NodeIndex, LateRange)>,
}

impl Noted {
    fn touches(&self, node: NodeIndex, range: &Range<u64>) -> bool {
        let overlaps = |late: &Range<u64>| late.start < range.end && range.start < late.end;
        self.ranges.iter().any(|(of, late)| *of == node && overlaps(&late.range))
    }
}

impl Late {
    /// What `node` has of the range is refused from now on. When this returns, nothing of it is being stored.
    pub(in super::super) fn refuse(&self, node: NodeIndex, range: Range<u64>) {
        let mut noted = self.noting();
        noted.count += 1;
        let number = noted.count;
        noted.ranges.push((node, LateRange { number, range }));
    }

    /// Stores bytes of these ranges, which `node` had in its cache, unless some of them are refused; says whether it
    /// has.
    pub(in super::super) fn store(
        &self,
        node: NodeIndex,
        mut ranges: impl Iterator<Item = Range<u64>>,
        store: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        // Until it is stored: a lock must not go on between.
        let noted = self.noted();
        if !noted.ranges.is_empty() && ranges.any(|range| noted.touches(node, &range)) {
            return Ok(false);
        }
        store().map(|()| true)
    }

    /// Whether something of `node` is refused in the range.
    pub(super) fn touches(&self, node: NodeIndex, range: &Range<u64>) -> bool {
        self.noted().touches(node, range)
    }

    fn of(&self, node: NodeIndex) -> Vec<LateRange> {
        let noted = self.noted();
        noted.ranges.iter().filter(|(of, _)| *of == node).map(|(_, late)| late.clone()).collect()
    }

    fn strike_off(&self, node: NodeIndex, numbers: &[u64]) {
        self.noting().ranges.retain(|(of, late)| *of != node || !numbers.contains(&late.number));
    }

    /// Shared by those who store: several may at once.
    fn noted(&self) -> RwLockReadGuard<'_, Noted> {
        // A panic elsewhere leaves it whole, also below.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn noting(&self) -> RwLockWriteGuard<'_, Noted> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agent {
    /// At another home than the one whose lock goes on.
    pub(in super::super) fn refuse_late(&self, file: FileId, node: NodeIndex, range: &Range<u64>) -> Reply {
        self.files.late(file).refuse(node, range.clone());
        Reply::Done
    }

    /// What is refused of what a node has.
    pub(in super::super) fn late_of(&self, file: FileId, node: NodeIndex) -> Reply {
        Reply::Late(self.files.late(file).of(node))
    }

    /// A node has given up what it had of these.
    pub(in super::super) fn forget_late(&self, file: FileId, node: NodeIndex, numbers: &[u64]) -> Reply {
        self.files.late(file).strike_off(node, numbers);
        Reply::Done
    }

    /// Has the other homes of a file refuse what a node has of a range, too. What has no home is locked at the master
    /// alone, so it is the only one that knows of what was written under such a lock and then got a home elsewhere.
    pub(super) fn refuse_elsewhere(&self, file: FileId, node: NodeIndex, range: Range<u64>) -> Result<()> {
        if !self.context.roster.is_master_node() {
            return Ok(());
        }
        let others: Vec<_> = self.context.roster.others().filter(|other| *other != node).collect();
        self.context.ask_those_left(&others, &Request::Refuse { file, node, range }).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use proptest::prelude::*;

    const NODES: [NodeIndex; 2] = [NodeIndex(1), NodeIndex(2)];

    fn is_stored(late: &Late, node: NodeIndex, range: Range<u64>) -> bool {
        let (mut stored, ranges) = (false, [1000..1001, range]);
        let taken = late.store(node, ranges.into_iter(), || {
            stored = true;
            Ok(())
        });
        assert_eq!(taken.unwrap(), stored);
        stored
    }

    proptest! {
        #[test]
        fn what_is_refused_is_what_was_noted_of_the_node_and_not_given_up(
            steps in prop::collection::vec((0..2_usize, 0..90_u64, 1..10_u64, any::<bool>()), 1..30),
        ) {
            let late = Late::default();
            let mut expected: [Vec<Range<u64>>; 2] = Default::default();
            for (node, start, length, is_given_up) in steps {
                let range = start..start + length;
                if is_given_up {
                    let numbers: Vec<_> = late.of(NODES[node]).iter().map(|late| late.number).collect();
                    late.strike_off(NODES[node], &numbers);
                    expected[node].clear();
                } else {
                    late.refuse(NODES[node], range.clone());
                    expected[node].push(range);
                }
                for (node, expected) in NODES.into_iter().zip(&expected) {
                    for at in 0..100 {
                        let is_late = expected.iter().any(|range| range.contains(&at));
                        prop_assert_eq!(late.touches(node, &(at..at + 1)), is_late);
                        prop_assert_eq!(is_stored(&late, node, at..at + 1), !is_late);
                    }
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_stored_is_an_error_and_not_late() {
        let late = Late::default();
        let failed = late.store(NODES[0], std::iter::once(0..1), || {
            Err(Error::Disunited { problem: "the test says so".into() })
        });
        assert!(failed.is_err());
    }

    #[test]
    fn what_is_noted_while_others_are_given_up_stays() {
        let late = Late::default();
        late.refuse(NODES[0], 0..10);
        let before: Vec<_> = late.of(NODES[0]).iter().map(|late| late.number).collect();
        late.refuse(NODES[0], 0..10);
        late.strike_off(NODES[0], &before);
        assert!(late.touches(NODES[0], &(9..20)));
    }
}
