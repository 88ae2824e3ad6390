//! A set of pages of one file: those that the pieces of an access touch.

use std::ops::Range;

use super::PageNumber;

/// Pages of one file, as runs of numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PageSet {
    /// Ascending; none is empty, and none touches another.
    runs: Vec<Range<u64>>,
}

impl PageSet {
    /// The pages whose numbers are in `runs`, which may come in any order and overlap. It is cheapest where they
    /// ascend.
    pub(crate) fn of(runs: impl IntoIterator<Item = Range<u64>>) -> PageSet {
        let mut merged = merge(runs.into_iter());
        if !merged.is_sorted_by_key(|run| run.start) {
            merged.sort_unstable_by_key(|run| run.start);
            merged = merge(merged.into_iter());
        }
        PageSet { runs: merged }
    }

    /// Those that bytes in `range` of the file are in, if pages are of so many bytes.
    pub(crate) fn touched(range: &Range<u64>, page: u32) -> PageSet {
        let page = u64::from(page);
        PageSet::of(std::iter::once(range.start / page..range.end.div_ceil(page)))
    }

    /// Whether a page is in the set.
    pub(crate) fn contains(&self, PageNumber(page): PageNumber) -> bool {
        let behind = self.runs.partition_point(|run| run.start <= page);
        behind > 0 && page < self.runs[behind - 1].end
    }

    /// How many pages there are.
    pub(crate) fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// All pages, ascending.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageNumber> + '_ {
        self.runs.iter().cloned().flatten().map(PageNumber)
    }
}

/// Joins each run with the one before it, if they touch and the one before does not begin later.
fn merge(runs: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for run in runs.filter(|run| !run.is_empty()) {
        match merged.last_mut() {
            Some(last) if (last.start..=last.end).contains(&run.start) => last.end = last.end.max(run.end),
            _ => merged.push(run),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_set_of_all_pages_of_its_runs(runs in prop::collection::vec((0u64..60, 0u64..8), 0..20)) {
            let runs = runs.into_iter().map(|(start, length)| start..start + length);
            let oracle: BTreeSet<u64> = runs.clone().flatten().collect();
            let set = PageSet::of(runs);
            prop_assert_eq!(set.count(), oracle.len() as u64);
            prop_assert!(set.pages().map(|page| page.0).eq(oracle.iter().copied()));
            for page in 0..80 {
                prop_assert_eq!(set.contains(PageNumber(page)), oracle.contains(&page));
            }
            prop_assert!(set.runs.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
