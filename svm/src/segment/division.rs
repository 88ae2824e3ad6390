//! Who makes which large pages of what several processes write together.
//!
//! Ranks that write rows of their own to the same stretch of a file all come to its first page at the same time, then to
//! the second, and so on: one of them makes it, and the others wait. So each begins with pages of its own, if there are
//! several, and then writes from the beginning, where the pages are by then. Nobody relies on that: who comes to a page
//! that is not there makes it, whoever should have.

use std::ops::Range;

use crate::team::LocalRank;

/// Which one a process is of those who write together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Division {
    part: u64,
    parts: u64,
    writers: u64,
}

impl Division {
    /// There is nobody else.
    pub(crate) const ALONE: Division = Division { part: 0, parts: 1, writers: 1 };

    /// The one of its node that `local` tells, which alone make pages there; of `writers` on all nodes.
    pub(crate) fn new(local: LocalRank, writers: usize) -> Division {
        let parts = local.ranks.max(1) as u64;
        Division { part: local.rank as u64 % parts, parts, writers: writers as u64 }
    }

    /// How many bytes all of them are about to write, if each writes as many as this one, `bytes`.
    pub(crate) fn together(self, bytes: u64) -> u64 {
        /// With more of them, it is less certain that all write.
        const MOST: u64 = 16;
        bytes.saturating_mul(self.writers.min(MOST))
    }

    /// Which of the whole pages in `range`, of `page` bytes each, fall to this process. None where it is alone, or where
    /// there is one page only.
    pub(super) fn own(self, range: &Range<u64>, page: u64) -> Range<u64> {
        let first = range.start.div_ceil(page);
        let count = (range.end / page).saturating_sub(first);
        if self.parts == 1 || count < 2 {
            return range.start..range.start;
        }
        let begin = |part: u64| (first + part * count / self.parts) * page;
        begin(self.part)..begin(self.part + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_whole_page_falls_to_one_of_them(parts in 2usize..20, start in 0u64..500, length in 0u64..4000) {
            const PAGE: u64 = 100;
            let range = start..start + length;
            let of = |rank| Division::new(LocalRank { rank, ranks: parts }, parts);
            let own: Vec<_> = (0..parts).map(|part| of(part).own(&range, PAGE)).collect();
            let whole = (0..50).map(|page| page * PAGE).filter(|&at| start <= at && at + PAGE <= range.end);
            let fallen: Vec<u64> = own.into_iter().flat_map(|own| own.step_by(PAGE as usize)).collect();
            let expected: Vec<u64> = whole.collect();
            prop_assert_eq!(fallen, if expected.len() < 2 { vec![] } else { expected });
        }
    }

    #[test]
    fn there_is_nothing_to_divide_where_one_is_alone_or_has_one_page() {
        let first = Division::new(LocalRank { rank: 0, ranks: 4 }, 4);
        assert!(Division::ALONE.own(&(0..80), 10).is_empty());
        assert!(first.own(&(20..39), 10).is_empty());
        assert!(first.own(&(21..29), 10).is_empty());
    }
}
