//! Which pages of a segment this process knows something of.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of a segment of which this process knows something. The same may be true of a page that is not in the
/// set, so that forgetting is always safe.
pub(super) struct PageSet {
    words: Box<[AtomicU64]>,
    /// The count of punches at which the set was last known to hold.
    punches: AtomicU64,
    page_shift: u32,
}

impl PageSet {
    pub(super) fn new(bytes: u64) -> PageSet {
        let page_shift = rustix::param::page_size().trailing_zeros();
        let words = (bytes >> page_shift).div_ceil(64).max(1);
        PageSet {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            punches: AtomicU64::new(0),
            page_shift,
        }
    }

    /// Forgets everything if storage was given back since.
    #[inline]
    pub(super) fn revalidate(&self, punches: u64) {
        // Acquire: whoever sees the new count sees the cleared words.
        if self.punches.load(Ordering::Acquire) != punches {
            self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            self.punches.store(punches, Ordering::Release);
        }
    }

    /// The longest run from the start of `range` whose pages are all in the set, or all not: its end, and which.
    #[inline]
    pub(super) fn run(&self, range: Range<u64>) -> (u64, bool) {
        let first = range.start >> self.page_shift;
        let last = (range.end - 1) >> self.page_shift;
        let stored = self.contains(first);
        let mut page = first + 1;
        while page <= last {
            // Bits that differ from the run's, from `page` on within its word.
            let word = self.words[(page / 64) as usize].load(Ordering::Acquire);
            let differing = (if stored { !word } else { word }) >> (page % 64);
            if differing != 0 {
                page += u64::from(differing.trailing_zeros());
                break;
            }
            page = (page / 64 + 1) * 64;
        }
        ((page.min(last + 1) << self.page_shift).min(range.end), stored)
    }

    /// Bytes of the pages that `range` touches and that are in the set.
    pub(super) fn bytes_within(&self, range: Range<u64>) -> u64 {
        // Relaxed: an estimate.
        let pages = |(word, mask): (u64, u64)| {
            (self.words[word as usize].load(Ordering::Relaxed) & mask).count_ones()
        };
        self.masks(range).map(|mask| u64::from(pages(mask))).sum::<u64>() << self.page_shift
    }

    /// Adds every page that `range` touches.
    pub(super) fn insert(&self, range: Range<u64>) {
        for (word, mask) in self.masks(range) {
            self.words[word as usize].fetch_or(mask, Ordering::Release);
        }
    }

    #[inline]
    fn contains(&self, page: u64) -> bool {
        // Acquire: pairs with `insert`: the system call that gave the page storage has returned.
        self.words[(page / 64) as usize].load(Ordering::Acquire) >> (page % 64) & 1 != 0
    }

    /// The words that have bits of pages that `range` touches, and those bits.
    fn masks(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let (first, end) = (range.start >> self.page_shift, range.end.div_ceil(1 << self.page_shift));
        // None where the range is empty.
        let words = if range.is_empty() { 0..0 } else { first / 64..end.div_ceil(64) };
        words.map(move |word| {
            let low = first.max(word * 64) % 64;
            let high = (end - 1).min(word * 64 + 63) % 64;
            (word, (u64::MAX >> (63 - high)) & (u64::MAX << low))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: u64 = 200 << 12;

    proptest! {
        #[test]
        fn runs_agree_with_a_plain_set(
            inserted in prop::collection::vec((0..BYTES, 1..BYTES), 0..6),
            start in 0..BYTES, length in 1..BYTES,
        ) {
            let pages = PageSet::new(BYTES);
            let page = 1u64 << pages.page_shift;
            let mut oracle = vec![false; (BYTES / page) as usize];
            for (from, length) in inserted {
                let to = (from + length).min(BYTES);
                pages.insert(from..to);
                (from / page..=(to - 1) / page).for_each(|p| oracle[p as usize] = true);
            }
            let end = (start + length).min(BYTES);
            let (until, stored) = pages.run(start..end);
            prop_assert!(start < until && until <= end);
            for byte in (start..until).step_by(7) {
                prop_assert_eq!(oracle[(byte / page) as usize], stored);
            }
            if until < end {
                prop_assert_eq!(oracle[(until / page) as usize], !stored);
            }
            let touched = &oracle[(start / page) as usize..=((end - 1) / page) as usize];
            let within = touched.iter().filter(|inside| **inside).count() as u64 * page;
            prop_assert_eq!(pages.bytes_within(start..end), within);
            prop_assert_eq!(pages.bytes_within(start..start), 0);
        }
    }
}
