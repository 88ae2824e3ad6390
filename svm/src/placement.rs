//! On which node a new segment gets its home, and how large segments are: a file's policies, which its manifest keeps.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cluster::NodeIndex;
use crate::node::NodeName;
use crate::units::SegmentIndex;

/// Which node becomes the home of a segment that has none. As text: `first_touch`, `round_robin`, `block`, `node=NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
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
    /// This policy, or, where it names a node that is none of `nodes`, [`Placement::FirstTouch`].
    pub(crate) fn in_force(&self, nodes: &[NodeName]) -> Placement {
        match self {
            Placement::Node(name) if !nodes.contains(name) => Placement::FirstTouch,
            policy => policy.clone(),
        }
    }

    /// Tells of a file in whose placement a node stands that takes no part.
    pub(crate) fn warn_of_missing(&self, file: &str, nodes: &[NodeName]) {
        if let (Placement::Node(node), Placement::FirstTouch) = (self, self.in_force(nodes)) {
            tracing::warn!(
                "{file}: new segments cannot go to node {node}, on which no process of the job runs: they stay with who \
                 writes them first (start a process there, or choose another svm_placement)"
            );
        }
    }

    /// The home of segment `index`, written by a process on `writer`, in an access that ends with segment `last`. Of a
    /// node that is none of `nodes` it is the writer.
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

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::FirstTouch => f.write_str("first_touch"),
            Placement::RoundRobin => f.write_str("round_robin"),
            Placement::Block => f.write_str("block"),
            Placement::Node(name) => write!(f, "node={name}"),
        }
    }
}

/// A text that names no placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it should be first_touch, round_robin, block or node=NAME")]
pub struct UnknownPlacement;

impl FromStr for Placement {
    type Err = UnknownPlacement;

    fn from_str(text: &str) -> Result<Placement, UnknownPlacement> {
        match text {
            "first_touch" => Ok(Placement::FirstTouch),
            "round_robin" => Ok(Placement::RoundRobin),
            "block" => Ok(Placement::Block),
            _ => match text.strip_prefix("node=") {
                Some(name) if !name.is_empty() => Ok(Placement::Node(NodeName::new(name))),
                _ => Err(UnknownPlacement),
            },
        }
    }
}

impl From<Placement> for String {
    fn from(placement: Placement) -> String {
        placement.to_string()
    }
}

impl TryFrom<String> for Placement {
    type Error = UnknownPlacement;

    fn try_from(text: String) -> Result<Placement, UnknownPlacement> {
        text.parse()
    }
}

/// Why a file's segments have their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeReason {
    /// Nobody said anything.
    Default,
    /// Whoever made the file asked for it.
    Asked,
    /// So most of what was written first lies with its writers.
    Nearness,
    /// So the placement gives each node several of what was written first.
    Spreading,
}

impl fmt::Display for SizeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SizeReason::Default => "the default",
            SizeReason::Asked => "as asked for",
            SizeReason::Nearness => "chosen by the first write, to be near its writers",
            SizeReason::Spreading => "chosen to give each node several",
        })
    }
}

/// What a file's manifest tells of how its segments are laid out. Of a file that was made before manifests told it,
/// nothing is known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Policies {
    pub(crate) placement: Option<Placement>,
    pub(crate) size_reason: Option<SizeReason>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(count: u32) -> Vec<NodeName> {
        (0..count).map(|number| NodeName::new(format!("n{number}"))).collect()
    }

    #[test]
    fn placements_are_told_as_they_are_asked_for() {
        for text in ["first_touch", "round_robin", "block", "node=b", "node=a=b"] {
            assert_eq!(text.parse::<Placement>().unwrap().to_string(), text);
        }
        for text in ["", "node", "node=", "Block", "random"] {
            assert!(text.parse::<Placement>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_node_that_is_not_there_is_not_in_force() {
        let on = |name: &str| Placement::Node(NodeName::new(name));
        assert_eq!(on("n1").in_force(&nodes(2)), on("n1"));
        assert_eq!(on("n2").in_force(&nodes(2)), Placement::FirstTouch);
        assert_eq!(Placement::Block.in_force(&[]), Placement::Block);
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
