//! What the reads of a handle tell of those to come.
//!
//! Who reads one range after the other, or ranges at one distance, will probably go on: the pages that come next are
//! fetched while he works with those that he has. The window doubles with each access that was foreseen, up to
//! [`MOST`], and closes with the first that was not. Where another node's segments begin it ends, but for [`NEAR`],
//! until the reader goes on there: many read just what one node wrote.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::NodeIndex;

/// The most bytes that are fetched ahead of short accesses: what the fastest networks move in the time that a page
/// takes to come.
const MOST: u64 = 4 << 20;

/// The most that are fetched ahead of long ones, if all processes of the node can have as much in a quarter of the
/// cache. What is under way when one of them ends has to last until the next one asks for more.
const MOST_OF_LONG: u64 = 16 << 20;

/// The most that is fetched ahead from other homes than the next bytes': enough for what comes not to stop where the
/// home changes, and little to wait for where nobody wants it.
const NEAR: u64 = 1 << 20;

/// What one handle's reads tell of those to come.
#[derive(Debug, Default)]
pub(crate) struct Foresight(Mutex<Pattern>);

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Pattern {
    last: Range<u64>,
    /// From the beginning of one access to that of the next.
    stride: u64,
    /// How many accesses in a row were as foreseen.
    hits: u32,
    /// Up to where pages were fetched ahead.
    fetched: u64,
    stretch: Stretch,
}

impl Foresight {
    /// Takes note of an access; returns the ranges to be fetched ahead: of cache pages of `page` bytes, and of no more
    /// than `room` bytes where that is more than [`MOST`].
    pub(super) fn after(
        &self,
        access: &Range<u64>,
        page: u64,
        room: u64,
        home_at: impl Fn(u64) -> HomeAt,
    ) -> Vec<Range<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next(access, page, room, home_at)
    }
}

/// The home of a byte, if that is another node, and the end of its segment.
pub(super) type HomeAt = (Option<NodeIndex>, u64);

impl Pattern {
    /// As [`Foresight::after`] says.
    fn next(
        &mut self,
        access: &Range<u64>,
        page: u64,
        room: u64,
        home_at: impl Fn(u64) -> HomeAt,
    ) -> Vec<Range<u64>> {
        let stride = access.start.wrapping_sub(self.last.start);
        let is_adjacent = access.start == self.last.end && !self.last.is_empty();
        let is_foreseen = is_adjacent || (stride == self.stride && stride > 0 && stride < u64::MAX / 2);
        self.hits = if is_foreseen { (self.hits + 1).min(16) } else { 0 };
        if !is_foreseen {
            self.fetched = access.end;
            self.stretch = Stretch::default();
        }
        (self.stride, self.last) = (stride, access.clone());
        if self.hits == 0 {
            return Vec::new();
        }
        let length = access.end - access.start;
        // Twice an access: as one ends, the next is on its way already, and the wire never falls silent between them.
        let most = length.saturating_mul(2).min(room.min(MOST_OF_LONG)).max(MOST);
        let window = (page << self.hits).max(length.saturating_mul(1 << (self.hits - 1))).min(most);
        let mut ranges = Vec::new();
        if is_adjacent {
            let wanted = access.end.saturating_add(window);
            let (from, to) = (self.fetched.max(access.end), self.stretch.reach(access.end, wanted, home_at));
            // In portions worth a message.
            let portion = if to == wanted { window / 2 } else { NEAR / 2 };
            if to.saturating_sub(from) >= portion {
                ranges.push(from..to);
                self.fetched = to;
            }
        } else {
            // As many accesses as fill the window, each at least a page.
            let count = (window / length.max(page)).clamp(1, 64);
            for number in 1..=count {
                let Some(start) = stride.checked_mul(number).and_then(|far| access.start.checked_add(far))
                else {
                    break;
                };
                if start >= self.fetched {
                    ranges.push(start..start.saturating_add(length));
                    self.fetched = start + 1;
                }
            }
        }
        ranges
    }
}

/// Bytes of one home, from where the last access ended, as far as they were looked at.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Stretch {
    home: Option<NodeIndex>,
    end: u64,
    /// Behind them another home's bytes begin.
    is_whole: bool,
}

impl Stretch {
    /// Up to where pages may be fetched ahead of an access that ends at `at`: at most `to`.
    fn reach(&mut self, at: u64, to: u64, home_at: impl Fn(u64) -> HomeAt) -> u64 {
        if self.end < at {
            let (home, end) = home_at(at);
            *self = Self { home, end, is_whole: false };
        }
        while !self.is_whole && self.end < to {
            let (home, end) = home_at(self.end);
            if home == self.home {
                self.end = end;
            } else {
                self.is_whole = true;
            }
        }
        to.min(self.end.max(at.saturating_add(NEAR)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 1 << 16;
    const ROOM: u64 = 64 << 20;

    fn everywhere_one_home(_: u64) -> HomeAt {
        (Some(NodeIndex(1)), u64::MAX)
    }

    /// Accesses of `length` bytes from `start` on, of a file of which nodes have `bytes` by turns, in segments of a
    /// quarter of that; what is fetched ahead after each.
    fn fetched_by_turns(bytes: u64, start: u64, length: u64, accesses: u64) -> Vec<(u64, u64)> {
        let home_at =
            |at: u64| (Some(NodeIndex((at / bytes % 3) as u32)), (at + 1).next_multiple_of(bytes / 4));
        let mut pattern = Pattern::default();
        let mut fetched = start;
        let one = |access: u64| {
            let access = start + access * length..start + (access + 1) * length;
            for range in pattern.next(&access, PAGE, ROOM, home_at) {
                assert!(range.start == fetched.max(access.end) && range.end > range.start);
                fetched = range.end;
            }
            (access.end, fetched.max(access.end))
        };
        (0..accesses).map(one).collect()
    }

    #[test]
    fn of_another_home_little_is_fetched_before_the_reader_is_there() {
        let bytes = 32 << 20;
        for length in [4096, 60_000, 1 << 20, 4 << 20, 5 << 20] {
            for start in [0, bytes / 2 + 12_288] {
                for (end, fetched) in fetched_by_turns(bytes, start, length, (3 * bytes).div_ceil(length)) {
                    let next = end.next_multiple_of(bytes);
                    assert!(fetched <= next.max(end + NEAR), "{length}: {fetched} after {end}");
                    if end >= start + (8 << 20) {
                        assert!(fetched > end, "{length}: nothing after {end}");
                    }
                }
            }
        }
    }

    #[test]
    fn many_small_parts_of_several_homes_are_fetched_together() {
        let all = fetched_by_turns(256 << 10, 0, 4096, 4096);
        assert!(all.iter().skip(2048).all(|(end, fetched)| fetched - end >= NEAR / 2), "{all:?}");
    }

    #[test]
    fn the_window_of_a_sequential_reader_grows_and_closes() {
        let mut pattern = Pattern::default();
        let mut fetched = 0;
        for access in 0..200 {
            let ranges = pattern.next(&(access * 4096..(access + 1) * 4096), PAGE, ROOM, everywhere_one_home);
            for range in &ranges {
                assert!(range.start >= (access + 1) * 4096 && range.end > range.start);
                assert!(range.start >= fetched, "fetched twice");
                fetched = range.end;
            }
        }
        assert!((200 * 4096 + MOST / 2..=200 * 4096 + MOST).contains(&fetched));
        // Somewhere else: nothing can be foreseen.
        assert_eq!(pattern.next(&(1 << 40..(1 << 40) + 10), PAGE, ROOM, everywhere_one_home), []);
        assert_eq!(pattern.next(&(1 << 30..(1 << 30) + 10), PAGE, ROOM, everywhere_one_home), []);
    }

    #[test]
    fn as_a_long_access_ends_the_next_one_is_under_way() {
        let mebibytes = |count: u64| count << 20;
        for (length, room, ahead) in
            [(4, 64, 8), (1, 64, 4), (8, 64, 16), (100, 64, 16), (8, 12, 12), (8, 0, 4)]
        {
            let mut pattern = Pattern::default();
            let (length, ahead) = (mebibytes(length), mebibytes(ahead));
            let mut fetched = 0;
            for access in 0..50 {
                let access = access * length..(access + 1) * length;
                for range in pattern.next(&access, PAGE, mebibytes(room), everywhere_one_home) {
                    assert!(range.start == fetched.max(access.end), "fetched twice, or not at all");
                    fetched = range.end;
                }
                if access.start / length >= 6 {
                    assert!((access.end + ahead / 2..=access.end + ahead).contains(&fetched), "{fetched}");
                }
            }
        }
    }

    #[test]
    fn strides_are_foreseen_and_each_range_once() {
        let mut pattern = Pattern::default();
        let mut all = Vec::new();
        for access in 0..100u64 {
            all.extend(pattern.next(&(access << 20..(access << 20) + 100), PAGE, ROOM, everywhere_one_home));
        }
        assert!(all.len() > 60);
        assert!(all.windows(2).all(|pair| pair[0].start < pair[1].start));
        assert!(all.iter().all(|range| range.start % (1 << 20) == 0 && range.end - range.start == 100));
    }

    #[test]
    fn random_accesses_fetch_nothing() {
        let mut pattern = Pattern::default();
        for access in [5u64, 90, 12, 70, 33, 8, 61] {
            assert_eq!(
                pattern.next(&(access * PAGE..access * PAGE + 10), PAGE, ROOM, everywhere_one_home),
                []
            );
        }
    }
}
