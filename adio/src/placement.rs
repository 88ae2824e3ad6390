//! On which nodes the new segments of a collective write get their homes.

use std::collections::BTreeMap;

use svmio_svm::{NodeIndex, SegmentIndex};

use crate::amounts::Writers;

/// A placement by the numbers of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The node that writes most of a segment.
    FirstTouch,
    /// The nodes in turn, by the segments' numbers.
    RoundRobin(Vec<NodeIndex>),
    /// As many neighbouring segments on each node, in this order.
    Block(Vec<NodeIndex>),
    /// This node.
    Node(NodeIndex),
}

/// Homes for the segments that are written, in ascending order. `writers` are by segments.
pub(crate) fn homes(rule: &Rule, writers: &Writers) -> Vec<(SegmentIndex, NodeIndex)> {
    let count = writers.units().len();
    // How many segments of this call each node has got: where nodes write about the same of a segment, they take turns.
    let mut load: BTreeMap<u32, usize> = BTreeMap::new();
    let mut home = |position: usize, segment: u32, amounts: &[(NodeIndex, u64)]| {
        let node = match rule {
            Rule::FirstTouch => {
                let most = amounts.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
                let about_most = amounts.iter().filter(|(_, bytes)| is_about(*bytes, most));
                about_most.map(|(node, _)| *node).min_by_key(|node| (load.get(&node.0).copied(), node.0))?
            }
            Rule::RoundRobin(nodes) => *nodes.get(segment as usize % nodes.len().max(1))?,
            Rule::Block(nodes) => *nodes.get(position * nodes.len() / count)?,
            Rule::Node(node) => *node,
        };
        *load.entry(node.0).or_default() += 1;
        Some((SegmentIndex(segment), node))
    };
    let units = writers.units().enumerate();
    units.filter_map(|(position, (segment, amounts))| home(position, segment, amounts)).collect()
}

/// Whether `bytes` is `most`, for all that estimates can tell: at most a sixteenth less.
fn is_about(bytes: u64, most: u64) -> bool {
    bytes >= most - most / 16
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;
    use crate::amounts::Amounts;

    const SIZE: u64 = 64 << 10;

    /// What ranks write, each on a node, so many bytes spread over a range.
    fn writers(shares: &[(u32, Range<u64>, u64)]) -> Writers {
        let told: Vec<(NodeIndex, Vec<u8>)> = shares
            .iter()
            .map(|(node, range, bytes)| {
                let mut amounts = Amounts::by(SIZE);
                // A part of each segment that the range touches.
                let segments = range.start / SIZE..range.end.div_ceil(SIZE);
                for start in segments.map(|segment| range.start.max(segment * SIZE)) {
                    let within = (range.end - start).min(SIZE - start % SIZE);
                    amounts.add(start, (bytes * within / (range.end - range.start)).max(1));
                }
                (NodeIndex(*node), amounts.to_bytes())
            })
            .collect();
        Writers::of(told.iter().map(|(node, told)| (*node, &told[..])))
    }

    fn nodes(count: u32) -> Vec<NodeIndex> {
        (0..count).map(NodeIndex).collect()
    }

    #[test]
    fn blocks_go_to_their_writers() {
        let shares: Vec<_> =
            (0..4).map(|i| (3 - i, u64::from(i) * 8 * SIZE..u64::from(i + 1) * 8 * SIZE, 8 * SIZE)).collect();
        let homes = homes(&Rule::FirstTouch, &writers(&shares));
        let expected: Vec<_> = (0..32).map(|i| (SegmentIndex(i), NodeIndex(3 - i / 8))).collect();
        assert_eq!(homes, expected);
    }

    #[test]
    fn interleaved_writers_take_turns() {
        let shares: Vec<_> = (0..4).map(|i| (i, u64::from(i) * 8..32 * SIZE, 8 * SIZE)).collect();
        let homes = homes(&Rule::FirstTouch, &writers(&shares));
        for node in 0..4 {
            assert_eq!(homes.iter().filter(|(_, home)| home.0 == node).count(), 8);
        }
    }

    #[test]
    fn rules_ignore_who_writes() {
        let writers = writers(&[(0, 0..8 * SIZE, 8 * SIZE)]);
        let homes =
            |rule: Rule| -> Vec<u32> { homes(&rule, &writers).iter().map(|(_, node)| node.0).collect() };
        assert_eq!(homes(Rule::RoundRobin(nodes(4))), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(homes(Rule::Block(nodes(4))), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(homes(Rule::Node(NodeIndex(2))), [2; 8]);
    }

    fn shares() -> impl Strategy<Value = Vec<(u32, Range<u64>, u64)>> {
        let one = (0u32..5, 0u64..64 * SIZE, 0u64..16 * SIZE, 1u64..=16);
        let one = one.prop_map(|(node, start, length, density)| {
            (node, start..start + length, (length / density).max(length.min(1)))
        });
        proptest::collection::vec(one, 0..12)
    }

    /// What a node writes of a segment.
    fn written(shares: &[(u32, Range<u64>, u64)], segment: u32, node: u32) -> f64 {
        let segment = u64::from(segment) * SIZE..u64::from(segment + 1) * SIZE;
        shares
            .iter()
            .filter(|(at, range, _)| *at == node && !range.is_empty())
            .map(|(_, range, bytes)| {
                let overlap = range.end.min(segment.end).saturating_sub(range.start.max(segment.start));
                *bytes as f64 * overlap as f64 / (range.end - range.start) as f64
            })
            .sum()
    }

    proptest! {
        #[test]
        fn each_written_segment_gets_one_home(shares in shares(), count in 1u32..6) {
            let rules = [
                Rule::FirstTouch,
                Rule::RoundRobin(nodes(count)),
                Rule::Block(nodes(count)),
                Rule::Node(NodeIndex(1)),
            ];
            for rule in rules {
                let homes = homes(&rule, &writers(&shares));
                let touched: std::collections::BTreeSet<u32> = shares
                    .iter()
                    .filter(|(_, range, _)| !range.is_empty())
                    .flat_map(|(_, range, _)| (range.start / SIZE) as u32..range.end.div_ceil(SIZE) as u32)
                    .collect();
                prop_assert!(homes.iter().map(|(segment, _)| segment.0).eq(touched));
            }
        }

        #[test]
        fn first_touch_gives_a_segment_to_who_writes_about_most(shares in shares()) {
            for (segment, home) in homes(&Rule::FirstTouch, &writers(&shares)) {
                let most = (0..5).map(|node| written(&shares, segment.0, node)).fold(0.0, f64::max);
                // A byte per share is lost or added in rounding.
                let slack = most / 16.0 + 2.0 * shares.len() as f64 + 1.0;
                prop_assert!(written(&shares, segment.0, home.0) >= most - slack);
            }
        }
    }
}
