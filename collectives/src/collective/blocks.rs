//! Which blocks a message has.

use std::ops::Range;

/// Blocks in the order in which they lie in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks(Ranges);

/// Most messages have blocks that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ranges {
    One(Range<u64>),
    Several(Vec<Range<u64>>),
}

impl Blocks {
    /// So many blocks from `first` on, where block 0 follows the last one of `all`.
    #[must_use]
    pub fn around(first: u64, count: u64, all: u64) -> Self {
        let end = first + count;
        if end <= all { (first..end).into() } else { [first..all, 0..end - all].into_iter().collect() }
    }

    /// The blocks as ranges of such as follow each other; none of them is empty, but where there are no blocks at all.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        match &self.0 {
            Ranges::One(range) => std::slice::from_ref(range),
            Ranges::Several(ranges) => ranges,
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges().iter().map(|range| range.end - range.start).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges().iter().cloned().flatten()
    }
}

impl From<u64> for Blocks {
    fn from(block: u64) -> Self {
        (block..block + 1).into()
    }
}

impl From<Range<u64>> for Blocks {
    fn from(range: Range<u64>) -> Self {
        Self(Ranges::One(range))
    }
}

impl FromIterator<Range<u64>> for Blocks {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            match joined.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        match joined.as_slice() {
            [] => Self(Ranges::One(0..0)),
            [range] => Self(Ranges::One(range.clone())),
            _ => Self(Ranges::Several(joined)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Blocks;

    #[test]
    fn blocks_that_follow_each_other_are_one_range() {
        let blocks: Blocks = [3..4, 4..6, 6..6, 1..2].into_iter().collect();
        assert_eq!(blocks.ranges(), [3..6, 1..2]);
        assert_eq!((blocks.len(), blocks.iter().collect::<Vec<_>>()), (4, vec![3, 4, 5, 1]));
        assert_eq!([2..3, 3..4].into_iter().collect::<Blocks>(), Blocks::from(2..4));
        assert!(Blocks::from_iter([]).is_empty());
    }

    #[test]
    fn the_first_block_follows_the_last() {
        assert_eq!(Blocks::around(3, 2, 5), Blocks::from(3..5));
        assert_eq!(Blocks::around(3, 4, 5).ranges(), [3..5, 0..2]);
        assert_eq!(Blocks::around(0, 1, 1), Blocks::from(0));
    }
}
