//! Which sets pages belong to.

use proptest::prelude::*;

use crate::cache::{PageKey, PageNumber};
use crate::units::FileId;

/// How many of the pages belong to the set that has most of them.
fn fullest(sets: u32, pages: impl Iterator<Item = u64>) -> u64 {
    let file = FileId::from_bytes(*b"sixteen bytes...");
    let mut counts = vec![0; sets as usize];
    pages.for_each(|page| counts[PageKey { file, page: PageNumber(page) }.set_among(sets) as usize] += 1);
    counts.into_iter().max().unwrap()
}

proptest! {
    #[test]
    fn a_range_fills_all_sets_to_the_same_height(sets in 1u32..400, from in 0u64..1 << 40, rows in 1u64..20) {
        let pages = from..from + rows * u64::from(sets);
        prop_assert!(fullest(sets, pages) <= rows + 1);
    }

    #[test]
    fn columns_share_a_set_no_more_than_others(sets in 64u32..400, from in 0u64..1 << 40, stride in 2u64..2000) {
        // Eight pages a set, as if thrown: more than 40 in one is no chance.
        let pages = (0..8 * u64::from(sets)).map(|number| from + number * stride);
        prop_assert!(fullest(sets, pages) <= 40);
    }
}
