//! What the program says of how it goes about pages.

use std::ops::Range;
use std::sync::{PoisonError, RwLock};

/// How a program goes about a part of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Advice {
    /// Nothing is known: rows of faults are looked out for.
    #[default]
    Normal,
    /// One page after the other: the next ones are fetched from the first fault on.
    Sequential,
    /// Here and there: nothing is fetched ahead.
    Random,
    /// Soon: as much as a half of the limit is fetched, without waiting for it.
    WillNeed,
    /// Not soon: what was stored goes home, and the pages go.
    DoNotNeed,
}

impl Advice {
    pub(super) fn is_sequential(self) -> bool {
        self == Advice::Sequential
    }
}

/// What was said of ranges of pages.
#[derive(Default)]
pub(super) struct Advices(RwLock<Vec<(Range<u64>, Advice)>>);

impl Advices {
    /// Takes note of an advice that lasts.
    pub(super) fn give(&self, pages: &Range<u64>, advice: Advice) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let rest = |(old, advice): (Range<u64>, Advice)| {
            let parts = [old.start..old.end.min(pages.start), old.start.max(pages.end)..old.end];
            parts.into_iter().filter(|part| !part.is_empty()).map(move |part| (part, advice))
        };
        *all = std::mem::take(&mut *all).into_iter().flat_map(rest).collect();
        if advice != Advice::Normal {
            all.push((pages.clone(), advice));
        }
    }

    /// What holds for faults at a page; `None` where nothing is to be foreseen there.
    pub(super) fn for_faults(&self, page: u64) -> Option<Advice> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().find(|(range, _)| range.contains(&page)).map(|(_, advice)| *advice);
        Some(found.unwrap_or_default()).filter(|advice| *advice != Advice::Random)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_last_word_on_a_page_counts(
            given in prop::collection::vec((0u64..50, 1u64..30, 0usize..3), 0..12),
        ) {
            let kinds = [Advice::Normal, Advice::Sequential, Advice::Random];
            let (advices, mut oracle) = (Advices::default(), [Advice::Normal; 80]);
            for (start, length, kind) in given {
                advices.give(&(start..start + length), kinds[kind]);
                oracle[start as usize..(start + length) as usize].fill(kinds[kind]);
            }
            for (page, advice) in oracle.into_iter().enumerate() {
                let expected = Some(advice).filter(|advice| *advice != Advice::Random);
                prop_assert_eq!(advices.for_faults(page as u64), expected);
            }
        }
    }
}
