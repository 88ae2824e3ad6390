//! Which way pages come sooner: measured, for each home, for what they come for, and for fetches of each size.
//!
//! A process remembers what its last few fetches took either way, and compares the medians: one during which it was off
//! its core says nothing. Things change, so that the way that took longer is gone again now and then: after so many
//! fetches that it costs about a sixty-fourth of the time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::cluster::NodeIndex;

/// How many fetches are remembered of each way.
const REMEMBERED: usize = 5;

/// From how many on they tell what that way takes.
const ENOUGH: usize = 3;

/// After so many fetches, times the ratio of what both ways take, the slower way is gone once.
const SELDOM: u64 = 64;

/// The largest ratio that counts, so that each way is gone again some day.
const FARTHEST: u64 = 64;

/// How pages come from their home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The home is asked, and writes them into the cache, or sends them to a mapping.
    Asked,
    /// This process reads them from the home's memory.
    Native,
}

/// What a process does about native reads.
#[derive(Default)]
pub(in crate::cluster) struct NativeReads {
    /// 0 where it is measured which way to go; otherwise one more than whether native reads are always tried.
    forced: AtomicU8,
    pages: AtomicU64,
    choices: Mutex<HashMap<Kind, Choice>>,
}

/// Fetches that are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    home: NodeIndex,
    to: For,
    /// The power of two in the number of bytes that are asked for together.
    size: u32,
}

/// What pages are fetched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum For {
    /// The node's page cache, into which the home writes what it is asked for.
    Cache,
    /// A process's mapping, to which the home sends it.
    Mapping,
}

/// What fetches of one kind took, nanoseconds for each page.
#[derive(Debug, Default)]
struct Choice {
    asked: Recent,
    native: Recent,
    /// How many went the faster way since the slower one was gone.
    since: u64,
}

#[derive(Debug, Default)]
struct Recent {
    times: [u64; REMEMBERED],
    /// How many there were ever.
    count: usize,
}

impl Kind {
    pub(super) fn of(home: NodeIndex, to: For, bytes: u64) -> Kind {
        Kind { home, to, size: bytes.max(1).ilog2() }
    }
}

impl NativeReads {
    pub(in crate::cluster) fn force(&self, way: Option<bool>) {
        // Relaxed, also below: nothing follows from it.
        self.forced.store(way.map_or(0, |native| 1 + u8::from(native)), Ordering::Relaxed);
    }

    pub(super) fn forced(&self) -> Option<Way> {
        match self.forced.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Way::Asked),
            _ => Some(Way::Native),
        }
    }

    /// How many pages were read natively.
    pub(in crate::cluster) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, pages: u64) {
        // Relaxed: only a count.
        self.pages.fetch_add(pages, Ordering::Relaxed);
    }

    /// The way for the next fetch.
    pub(super) fn choose(&self, kind: Kind) -> Way {
        self.with(kind, Choice::next)
    }

    /// A fetch of `pages` has gone `way`, and taken so many nanoseconds.
    pub(super) fn note(&self, kind: Kind, way: Way, took: u64, pages: u64) {
        self.with(kind, |choice| choice.note(way, took / pages.max(1)));
    }

    fn with<T>(&self, kind: Kind, act: impl FnOnce(&mut Choice) -> T) -> T {
        // A panic elsewhere leaves the map whole.
        let mut choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        act(choices.entry(kind).or_default())
    }
}

impl Choice {
    fn next(&mut self) -> Way {
        let (Some(asked), Some(native)) = (self.asked.median(), self.native.median()) else {
            // By turns, and first asked: whom it costs nothing to ask.
            return if self.asked.count <= self.native.count { Way::Asked } else { Way::Native };
        };
        let (faster, slower) =
            if native <= asked { (Way::Native, Way::Asked) } else { (Way::Asked, Way::Native) };
        let ratio = asked.max(native).div_ceil(asked.min(native).max(1)).min(FARTHEST);
        self.since += 1;
        if self.since <= SELDOM * ratio {
            return faster;
        }
        self.since = 0;
        slower
    }

    fn note(&mut self, way: Way, took: u64) {
        match way {
            Way::Asked => self.asked.add(took),
            Way::Native => self.native.add(took),
        }
    }
}

impl Recent {
    fn add(&mut self, time: u64) {
        self.times[self.count % REMEMBERED] = time;
        self.count += 1;
    }

    fn median(&self) -> Option<u64> {
        let mut times = self.times;
        let known = &mut times[..self.count.min(REMEMBERED)];
        known.sort_unstable();
        (known.len() >= ENOUGH).then(|| known[known.len() / 2])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KIND: Kind = Kind { home: NodeIndex(3), to: For::Cache, size: 16 };

    /// What `count` fetches take together if each takes as long as `took` says.
    fn fetch(reads: &NativeReads, count: u64, mut took: impl FnMut(Way, u64) -> u64) -> u64 {
        let one = |number| {
            let way = reads.choose(KIND);
            let time = took(way, number);
            reads.note(KIND, way, time, 1);
            time
        };
        (0..count).map(one).sum()
    }

    fn of(way: Way, [asked, native]: [u64; 2]) -> u64 {
        if way == Way::Asked { asked } else { native }
    }

    #[test]
    fn what_is_forced_is_forced_until_it_is_left_to_be_measured() {
        let reads = NativeReads::default();
        for forced in [None, Some(Way::Native), Some(Way::Asked), None] {
            reads.force(forced.map(|way| way == Way::Native));
            assert_eq!(reads.forced(), forced);
        }
    }

    #[test]
    fn homes_purposes_and_sizes_are_told_apart() {
        let reads = NativeReads::default();
        let (one, other) = (NodeIndex(1), NodeIndex(2));
        let kinds = [
            Kind::of(one, For::Cache, 1 << 16),
            Kind::of(other, For::Cache, 1 << 16),
            Kind::of(one, For::Cache, 1 << 20),
            Kind::of(one, For::Mapping, 1 << 16),
        ];
        for (kind, times) in kinds.iter().zip([[9, 5], [5, 9], [7, 8], [5, 6]]) {
            for _ in 0..ENOUGH {
                for way in [Way::Asked, Way::Native] {
                    reads.note(*kind, way, 3 * of(way, times), 3);
                }
            }
        }
        assert_eq!(kinds.map(|kind| reads.choose(kind)), [Way::Native, Way::Asked, Way::Asked, Way::Asked]);
        assert_eq!(reads.choose(Kind::of(one, For::Cache, (1 << 17) - 1)), Way::Native);
    }

    #[test]
    fn one_that_took_long_for_another_reason_changes_nothing() {
        let reads = NativeReads::default();
        fetch(&reads, 20, |way, _| of(way, [100, 10]));
        for _ in 0..10 {
            reads.note(KIND, Way::Native, 1_000_000, 1);
            let taken = fetch(&reads, 6, |way, _| of(way, [100, 10]));
            assert_eq!(taken, 60);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]
        #[test]
        fn it_takes_hardly_longer_than_by_the_faster_way_alone(
            times in prop::array::uniform2(10_000..600_000u64),
        ) {
            const COUNT: u64 = 20_000;
            let (reads, mut off) = (NativeReads::default(), 0);
            let taken = fetch(&reads, COUNT, |way, number| {
                // Up to a tenth more or less, and every fiftieth far more.
                let away = if number % 50 == 7 { 5_000_000 } else { 0 };
                off += away;
                of(way, times) * (900 + number * 7919 % 200) / 1000 + away
            });
            let [asked, native] = times;
            prop_assert!(taken - off <= COUNT * asked.min(native) * 5 / 4 + 10 * asked.max(native));
        }

        #[test]
        fn what_changes_is_noticed(times in prop::array::uniform2(prop::array::uniform2(1..1_000_000u64))) {
            let reads = NativeReads::default();
            for times in times {
                fetch(&reads, 4 * (SELDOM * FARTHEST + 1), |way, _| of(way, times));
                let taken = fetch(&reads, 64, |way, _| of(way, times));
                let [asked, native] = times;
                // The other way once at most.
                prop_assert!(taken <= 63 * asked.min(native) + asked.max(native));
            }
        }
    }
}
