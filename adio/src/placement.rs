//! On which nodes the new segments of a collective write get their homes.
//!
//! What a rank writes is known by its bounds and its bytes only; within the bounds the bytes count as spread
//! evenly. That is exact for contiguous ranges, and right on average for strided ones.

use std::collections::BTreeMap;
use std::ops::Range;

use svmio_svm::{NodeIndex, SegmentIndex, SegmentSize};

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

/// What one rank writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    /// Where it runs.
    pub(crate) node: NodeIndex,
    /// Bounds of what it writes, bytes from the beginning of the file.
    pub(crate) range: Range<u64>,
    /// How many bytes it writes within them.
    pub(crate) bytes: u64,
    /// Bounds of those segments in its range that had no home, as far as its node knew.
    pub(crate) unplaced: Range<u32>,
}

/// Homes for the segments that any of `shares` tells to have none, in ascending order.
pub(crate) fn homes(rule: &Rule, size: SegmentSize, shares: &[Share]) -> Vec<(SegmentIndex, NodeIndex)> {
    let writers = writers(size, shares);
    let count = writers.len();
    // How many segments of this call each node has got: where nodes write about the same of a segment, they take turns.
    let mut load: BTreeMap<u32, usize> = BTreeMap::new();
    let home = |(position, (segment, amounts)): (usize, (u32, Vec<(NodeIndex, u64)>))| {
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
    writers.into_iter().enumerate().filter_map(home).collect()
}

/// Whether `bytes` is `most`, for all that estimates can tell: at most a sixteenth less.
fn is_about(bytes: u64, most: u64) -> bool {
    bytes >= most - most / 16
}

/// The segments without homes, and how many bytes the ranks of which nodes write in each.
fn writers(size: SegmentSize, shares: &[Share]) -> BTreeMap<u32, Vec<(NodeIndex, u64)>> {
    let mut segments: BTreeMap<u32, Vec<(NodeIndex, u64)>> = BTreeMap::new();
    for share in shares.iter().filter(|share| !share.range.is_empty()) {
        for segment in share.unplaced.clone() {
            segments.entry(segment).or_default();
        }
    }
    for share in shares.iter().filter(|share| !share.range.is_empty()) {
        let first = u32::try_from(share.range.start / size.bytes()).unwrap_or(u32::MAX);
        let last = u32::try_from((share.range.end - 1) / size.bytes()).unwrap_or(u32::MAX);
        for (segment, amounts) in segments.range_mut(first..=last) {
            let start = size.start_of(SegmentIndex(*segment)).0;
            let within = start.max(share.range.start)..(start + size.bytes()).min(share.range.end);
            let length = u128::from(share.range.end - share.range.start);
            let bytes = u128::from(share.bytes) * u128::from(within.end - within.start) / length;
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            match amounts.iter_mut().find(|(node, _)| node.0 == share.node.0) {
                Some((_, known)) => *known = known.saturating_add(bytes),
                None => amounts.push((share.node, bytes)),
            }
        }
    }
    // Between the bounds there may be segments that nobody writes.
    segments.retain(|_, amounts| !amounts.is_empty());
    segments
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 64 << 10;

    fn size() -> SegmentSize {
        SegmentSize::new(SIZE).expect("a power of two")
    }

    fn share(node: u32, range: Range<u64>, bytes: u64) -> Share {
        let unplaced = (range.start / SIZE) as u32..range.end.div_ceil(SIZE) as u32;
        Share { node: NodeIndex(node), range, bytes, unplaced }
    }

    fn nodes(count: u32) -> Vec<NodeIndex> {
        (0..count).map(NodeIndex).collect()
    }

    #[test]
    fn blocks_go_to_their_writers() {
        let shares: Vec<Share> = (0..4)
            .map(|i| share(3 - i, u64::from(i) * 8 * SIZE..u64::from(i + 1) * 8 * SIZE, 8 * SIZE))
            .collect();
        let homes = homes(&Rule::FirstTouch, size(), &shares);
        let expected: Vec<_> = (0..32).map(|i| (SegmentIndex(i), NodeIndex(3 - i / 8))).collect();
        assert_eq!(homes, expected);
    }

    #[test]
    fn interleaved_writers_take_turns() {
        let shares: Vec<Share> = (0..4).map(|i| share(i, u64::from(i) * 8..32 * SIZE, 8 * SIZE)).collect();
        let homes = homes(&Rule::FirstTouch, size(), &shares);
        for node in 0..4 {
            assert_eq!(homes.iter().filter(|(_, home)| home.0 == node).count(), 8);
        }
    }

    #[test]
    fn rules_ignore_who_writes() {
        let shares = [share(0, 0..8 * SIZE, 8 * SIZE)];
        let homes = |rule: Rule| -> Vec<u32> {
            homes(&rule, size(), &shares).iter().map(|(_, node)| node.0).collect()
        };
        assert_eq!(homes(Rule::RoundRobin(nodes(4))), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(homes(Rule::Block(nodes(4))), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(homes(Rule::Node(NodeIndex(2))), [2; 8]);
    }

    fn shares() -> impl Strategy<Value = Vec<Share>> {
        let one = (0u32..5, 0u64..64 * SIZE, 0u64..16 * SIZE, 1u64..=16, any::<bool>());
        let one = one.prop_map(|(node, start, length, density, knows_all)| {
            let mut share = share(node, start..start + length, (length / density).max(length.min(1)));
            if knows_all {
                share.unplaced = 0..0;
            }
            share
        });
        proptest::collection::vec(one, 0..12)
    }

    /// What each node writes of each byte range, counted byte by byte in units of a fine grid.
    fn written(shares: &[Share], segment: u32, node: u32) -> f64 {
        let range = u64::from(segment) * SIZE..u64::from(segment + 1) * SIZE;
        let of_share = |share: &&Share| share.node.0 == node && !share.range.is_empty();
        shares
            .iter()
            .filter(of_share)
            .map(|share| {
                let length = share.range.end - share.range.start;
                let overlap =
                    share.range.end.min(range.end).saturating_sub(share.range.start.max(range.start));
                share.bytes as f64 * overlap as f64 / length as f64
            })
            .sum()
    }

    proptest! {
        #[test]
        fn each_unplaced_segment_gets_one_home(shares in shares(), count in 1u32..6) {
            for rule in [Rule::FirstTouch, Rule::RoundRobin(nodes(count)), Rule::Block(nodes(count)), Rule::Node(NodeIndex(1))] {
                let homes = homes(&rule, size(), &shares);
                let touched: std::collections::BTreeSet<u32> = shares
                    .iter()
                    .filter(|share| !share.range.is_empty())
                    .flat_map(|share| share.unplaced.clone())
                    .collect();
                prop_assert!(homes.iter().map(|(segment, _)| segment.0).eq(touched));
            }
        }

        #[test]
        fn first_touch_gives_a_segment_to_who_writes_about_most(shares in shares()) {
            for (segment, home) in homes(&Rule::FirstTouch, size(), &shares) {
                let most = (0..5).map(|node| written(&shares, segment.0, node)).fold(0.0, f64::max);
                // A byte per share is lost in rounding.
                let slack = most / 16.0 + shares.len() as f64 + 1.0;
                prop_assert!(written(&shares, segment.0, home.0) >= most - slack);
            }
        }
    }
}
