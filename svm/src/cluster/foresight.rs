//! What the reads of a handle tell of those to come.
//!
//! Who reads one range after the other, or ranges at one distance, will probably go on: the pages that come next are
//! fetched while he works with those that he has. The window doubles with each access that was foreseen, up to
//! [`MOST`], and closes with the first that was not. Where another node's segments begin it ends, but for [`NEAR`],
//! until the reader goes on there: many read just what one node wrote. It is never larger than what the reader has
//! [`room`] for, and shrinks where the next page of a row is gone before it is read: others use the cache, too.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::NodeIndex;

/// The most bytes that are fetched ahead of short accesses: what the fastest networks move in the time that a page
/// takes to come.
const MOST: u64 = 4 << 20;

/// The most that are fetched ahead of long ones. What is under way when one of them ends has to last until the next one
/// asks for more.
const MOST_OF_LONG: u64 = 16 << 20;

/// The most that is fetched ahead from other homes than the next bytes': enough for what comes not to stop where the
/// home changes, and little to wait for where nobody wants it.
const NEAR: u64 = 1 << 20;

/// How often the window is halved at most: the smallest page is left of the largest window.
const MOST_HALVINGS: u32 = 12;

/// How often in a row the next page must have been there still for the window to grow again.
const PATIENCE: u32 = 16;

/// How many bytes a reader may have fetched ahead, of so many `readers` that a cache of `capacity` bytes in pages of
/// `page` bytes is for: its share of a quarter. One that reads alone, as where one process reads for all, needs more
/// where there are many; if all do read, what makes way unread tells.
pub(super) fn room(capacity: u64, page: u64, readers: u64) -> u64 {
    let quarter = capacity / 4;
    if quarter < page { 0 } else { (quarter / readers.max(1)).max(MOST.min(capacity / 16)).max(page) }
}

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
    loss: Loss,
}

impl Foresight {
    /// Takes note of an access; returns the ranges to be fetched ahead: of cache pages of `page` bytes, and of no more
    /// than `room` bytes. `is_kept` tells whether the page of a byte that was fetched ahead is in the cache still, or on
    /// its way there.
    pub(super) fn after(
        &self,
        access: &Range<u64>,
        page: u64,
        room: u64,
        home_at: impl Fn(u64) -> HomeAt,
        is_kept: impl Fn(u64) -> bool,
    ) -> Vec<Range<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next(access, page, room, home_at, is_kept)
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
        is_kept: impl Fn(u64) -> bool,
    ) -> Vec<Range<u64>> {
        let stride = access.start.wrapping_sub(self.last.start);
        let is_adjacent = access.start == self.last.end && !self.last.is_empty();
        let is_foreseen = is_adjacent || (stride == self.stride && stride > 0 && stride < u64::MAX / 2);
        self.hits = if is_foreseen { (self.hits + 1).min(16) } else { 0 };
        if !is_foreseen {
            self.fetched = access.end;
            self.stretch = Stretch::default();
            self.loss = Loss::default();
        }
        (self.stride, self.last) = (stride, access.clone());
        if self.hits == 0 || room < page {
            return Vec::new();
        }
        let length = access.end - access.start;
        // Twice an access: as one ends, the next is on its way already, and the wire never falls silent between them.
        // Never more than there is room for: what comes last would take the place of what is to be read first.
        let most = length.saturating_mul(2).clamp(MOST, MOST_OF_LONG).min(room);
        let window = (page << self.hits).max(length.saturating_mul(1 << (self.hits - 1))).min(most);
        let window = self.loss.lessen(window).max(page);
        let mut ranges = Vec::new();
        if is_adjacent {
            let wanted = access.end.saturating_add(window);
            let (from, to) = (self.fetched.max(access.end), self.stretch.reach(access.end, wanted, home_at));
            // In portions worth a message.
            let portion = if to == wanted { window / 2 } else { NEAR / 2 };
            if to.saturating_sub(from) < portion {
                return ranges;
            }
            // What was fetched first is the first to make way: then all is fetched anew, as far as half the window.
            let next = access.end.next_multiple_of(page);
            let is_lost = next < self.fetched && self.loss.note(is_kept(next));
            let half = access.end.saturating_add((window / 2).max(page));
            let range = if is_lost { access.end..to.min(half) } else { from..to };
            self.fetched = range.end;
            ranges.push(range);
        } else if length <= room {
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

/// What became of what was fetched ahead of a row of accesses.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Loss {
    /// How often the window has been halved.
    halvings: u32,
    /// How often in a row nothing was lost.
    kept: u32,
}

impl Loss {
    /// Takes note of whether the next page is there still; returns whether it is lost.
    fn note(&mut self, is_kept: bool) -> bool {
        if !is_kept {
            *self = Loss { halvings: (self.halvings + 1).min(MOST_HALVINGS), kept: 0 };
        } else if self.kept + 1 < PATIENCE {
            self.kept += 1;
        } else {
            *self = Loss { halvings: self.halvings.saturating_sub(1), kept: 0 };
        }
        !is_kept
    }

    fn lessen(&self, window: u64) -> u64 {
        window >> self.halvings
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

    fn kept(_: u64) -> bool {
        true
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
            for range in pattern.next(&access, PAGE, ROOM, home_at, kept) {
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
            let ranges =
                pattern.next(&(access * 4096..(access + 1) * 4096), PAGE, ROOM, everywhere_one_home, kept);
            for range in &ranges {
                assert!(range.start >= (access + 1) * 4096 && range.end > range.start);
                assert!(range.start >= fetched, "fetched twice");
                fetched = range.end;
            }
        }
        assert!((200 * 4096 + MOST / 2..=200 * 4096 + MOST).contains(&fetched));
        // Somewhere else: nothing can be foreseen.
        assert_eq!(pattern.next(&(1 << 40..(1 << 40) + 10), PAGE, ROOM, everywhere_one_home, kept), []);
        assert_eq!(pattern.next(&(1 << 30..(1 << 30) + 10), PAGE, ROOM, everywhere_one_home, kept), []);
    }

    #[test]
    fn as_a_long_access_ends_the_next_one_is_under_way() {
        let mebibytes = |count: u64| count << 20;
        for (length, room, ahead) in
            [(4, 64, 8), (1, 64, 4), (8, 64, 16), (100, 64, 16), (8, 12, 12), (8, 2, 2), (1, 3, 3)]
        {
            let mut pattern = Pattern::default();
            let (length, ahead) = (mebibytes(length), mebibytes(ahead));
            let mut fetched = 0;
            for access in 0..50 {
                let access = access * length..(access + 1) * length;
                for range in pattern.next(&access, PAGE, mebibytes(room), everywhere_one_home, kept) {
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
            all.extend(pattern.next(
                &(access << 20..(access << 20) + 100),
                PAGE,
                ROOM,
                everywhere_one_home,
                kept,
            ));
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
                pattern.next(&(access * PAGE..access * PAGE + 10), PAGE, ROOM, everywhere_one_home, kept),
                []
            );
        }
    }

    #[test]
    fn readers_have_their_share_of_the_cache_and_a_single_one_of_many_enough() {
        let (kib, mib) = (|count: u64| count << 10, |count: u64| count << 20);
        assert_eq!(room(mib(256), kib(64), 1), mib(64));
        assert_eq!(room(mib(256), kib(64), 4), mib(16));
        assert_eq!(room(mib(256), kib(64), 64), MOST);
        assert_eq!(room(mib(16), kib(64), 64), mib(1));
        assert_eq!(room(kib(512), kib(64), 8), kib(64));
        assert_eq!(room(kib(192), kib(64), 1), 0);
    }

    #[test]
    fn where_the_cache_has_little_room_little_is_fetched_ahead_or_nothing() {
        for (room, most) in [(PAGE - 1, 0), (PAGE, PAGE), (3 * PAGE, 3 * PAGE)] {
            for (length, stride) in [(4096, 4096), (PAGE, PAGE), (100, 2 * PAGE), (10 * PAGE, 11 * PAGE)] {
                let mut pattern = Pattern::default();
                let mut is_any = false;
                for access in 0..200 {
                    let access = access * stride..access * stride + length;
                    let ranges = pattern.next(&access, PAGE, room, everywhere_one_home, kept);
                    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
                    is_any |= bytes > 0;
                    assert!(bytes <= most, "{bytes} bytes ahead of {length} with room for {room}");
                    let is_near =
                        ranges.iter().all(|range| length != stride || range.end <= access.end + most);
                    assert!(is_near, "{ranges:?} after {access:?}");
                }
                // What is not fetched whole would make its reader wait all the same.
                assert_eq!(is_any, room >= if length == stride { PAGE } else { length.max(PAGE) });
            }
        }
    }

    #[test]
    fn the_window_shrinks_while_pages_make_way_unread_and_grows_again() {
        let mut pattern = Pattern::default();
        let mut at = 0;
        // How far ahead pages are fetched at most, in so many accesses.
        let mut farthest = |accesses: u64, is_kept: bool| {
            let mut farthest = 0;
            for _ in 0..accesses {
                at += 4096;
                let access = at - 4096..at;
                for range in pattern.next(&access, PAGE, ROOM, everywhere_one_home, |_| is_kept) {
                    assert!(range.start >= at && range.end > range.start);
                    farthest = range.end - at;
                }
            }
            farthest
        };
        assert_eq!(farthest(2000, true), MOST);
        assert_eq!(farthest(2000, false), PAGE);
        assert_eq!(farthest(100_000, true), MOST);
    }
}
