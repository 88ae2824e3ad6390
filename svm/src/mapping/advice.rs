//! What the program says of how it goes about pages.

use std::collections::BTreeMap;
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

/// What was said of ranges of pages, by where they begin: each with its end. They do not overlap, and of neighbours
/// different things were said. Of pages in none of them nothing is known.
#[derive(Default)]
pub(super) struct Advices(RwLock<BTreeMap<u64, (u64, Advice)>>);

impl Advices {
    /// Takes note of an advice that lasts.
    pub(super) fn give(&self, pages: &Range<u64>, advice: Advice) {
        if pages.is_empty() {
            return;
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        divide(&mut all, pages.start);
        divide(&mut all, pages.end);
        while let Some((start, _)) = all.range(pages.clone()).next() {
            let start = *start;
            all.remove(&start);
        }
        if advice == Advice::Normal {
            return;
        }
        let (mut start, mut end) = (pages.start, pages.end);
        if let Some((before, &(its_end, its))) = all.range(..start).next_back()
            && (its_end, its) == (start, advice)
        {
            start = *before;
        }
        if let Some(&(its_end, its)) = all.get(&end)
            && its == advice
        {
            all.remove(&end);
            end = its_end;
        }
        all.insert(start, (end, advice));
    }

    /// What holds for faults at a page; `None` where nothing is to be foreseen there.
    pub(super) fn for_faults(&self, page: u64) -> Option<Advice> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = all.range(..=page).next_back().filter(|(_, (end, _))| page < *end);
        Some(found.map(|(_, (_, advice))| *advice).unwrap_or_default())
            .filter(|advice| *advice != Advice::Random)
    }
}

/// Has no range begin before `page` and end behind it.
fn divide(all: &mut BTreeMap<u64, (u64, Advice)>, page: u64) {
    if let Some((_, its)) = all.range_mut(..page).next_back()
        && page < its.0
    {
        let (end, advice) = *its;
        its.0 = page;
        all.insert(page, (end, advice));
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

    #[test]
    fn the_same_advice_for_neighbours_is_one() {
        const BLOCKS: u64 = 100_000;
        const PAGES: u64 = 4;
        let advices = Advices::default();
        let block = |number: u64| number * PAGES..(number + 1) * PAGES;
        let entries = || advices.0.read().unwrap().len();
        // Every other one first: each of the rest joins two.
        (0..BLOCKS).step_by(2).for_each(|number| advices.give(&block(number), Advice::Sequential));
        assert_eq!(entries(), BLOCKS as usize / 2);
        (1..BLOCKS).step_by(2).for_each(|number| advices.give(&block(number), Advice::Sequential));
        assert_eq!(entries(), 1);
        advices.give(&block(7), Advice::Random);
        assert_eq!(entries(), 3);
        advices.give(&(0..BLOCKS * PAGES), Advice::Normal);
        assert_eq!(entries(), 0);
    }
}
