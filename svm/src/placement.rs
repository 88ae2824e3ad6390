//! On which node a new segment gets its home.

use serde::{Deserialize, Serialize};

use crate::cluster::NodeIndex;
use crate::node::NodeName;
use crate::units::SegmentIndex;

/// Which node becomes the home of a segment that has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Placement {
    /// The one that writes it, or most of it.
    #[default]
    FirstTouch,
    /// One after the other: segment by segment.
    RoundRobin,
    /// Each holds one block of adjacent segments, all about equally long.
    Block,
    /// This one.
    Node(NodeName),
}

impl Placement {
    /// The home of segment `index`, written by a process on `writer`, in an access that ends with segment `last`.
    pub fn home(
        &self,
        index: SegmentIndex,
        last: SegmentIndex,
        nodes: &[NodeName],
        writer: NodeIndex,
    ) -> NodeIndex {
        let count = nodes.len().max(1) as u64;
        match self {
            Placement::FirstTouch => writer,
            Placement::RoundRobin => NodeIndex((u64::from(index.0) % count) as u32),
            Placement::Block => {
                let segments = u64::from(last.0.max(index.0)) + 1;
                NodeIndex((u64::from(index.0) / segments.div_ceil(count)) as u32)
            }
            Placement::Node(name) => {
                nodes.iter().position(|known| known == name).map_or(writer, |at| NodeIndex(at as u32))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(count: u32) -> Vec<NodeName> {
        (0..count).map(|number| NodeName::new(format!("n{number}"))).collect()
    }

    proptest! {
        #[test]
        fn every_policy_names_a_node(count in 1u32..9, index in 0u32..5000, more in 0u32..5000, writer in 0u32..9) {
            let (names, writer) = (nodes(count), NodeIndex(writer % count));
            let policies = [
                Placement::FirstTouch, Placement::RoundRobin, Placement::Block,
                Placement::Node(NodeName::new("n0")), Placement::Node(NodeName::new("unknown")),
            ];
            for policy in policies {
                let home = policy.home(SegmentIndex(index), SegmentIndex(index + more), &names, writer);
                prop_assert!(home.0 < count, "{policy:?}: {home:?}");
            }
        }

        #[test]
        fn blocks_are_adjacent_and_about_equal(count in 1u32..9, segments in 1u32..200) {
            let names = nodes(count);
            let home = |index| Placement::Block.home(SegmentIndex(index), SegmentIndex(segments - 1), &names, NodeIndex(0));
            let homes: Vec<_> = (0..segments).map(home).collect();
            prop_assert!(homes.is_sorted());
            for node in (0..count).map(NodeIndex) {
                prop_assert!(homes.iter().filter(|home| **home == node).count() as u32 <= segments.div_ceil(count));
            }
        }
    }
}
