//! What the reads of a handle tell of those to come.
//!
//! Who reads one range after the other, or ranges at one distance, will probably go on: the pages that come next are
//! fetched while he works with those that he has. The window doubles with each access that was foreseen, up to
//! [`MOST`], and closes with the first that was not. Where another node's segments begin it ends, but for [`NEAR`],
//! until the reader goes on there: many read just what one node wrote. It is never larger than what the reader has
//! [`room`] for, and shrinks where the next page is gone before it is read: others use the cache, too.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::NodeIndex;

/// The most bytes that are fetched ahead of short accesses, or within a long one: what the fastest networks move in the
/// time that a page takes to come.
pub(super) const MOST: u64 = 4 << 20;

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
    /// Whether accesses are rows of blocks: where they adjoin, what comes next is a row all the same.
    are_rows: bool,
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
    /// its way there. After a row of blocks that begins and ends as `access`, each of the ranges is where another row
    /// begins, and as much of that as is to be fetched.
    pub(super) fn after(
        &self,
        access: &Range<u64>,
        is_row: bool,
        page: u64,
        room: u64,
        home_at: impl Fn(u64) -> HomeAt,
        is_kept: impl Fn(u64) -> bool,
    ) -> Vec<Range<u64>> {
        let mut pattern = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pattern.are_rows = is_row;
        pattern.next(access, page, room, home_at, is_kept)
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
        let is_adjacent = !self.are_rows && access.start == self.last.end && !self.last.is_empty();
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
            // As many accesses as fill the window, each at least a page. Where some were lost one more than the next, so that
            // it is seen whether they still are.
            let each = length.max(page);
            let least = if self.loss.halvings > 0 && room >= 2 * page { 2 } else { 1 };
            let count = (window / each).clamp(least, 64);
            // In portions worth a message, of what so many can be at all.
            let portion = (window.min(each.saturating_mul(count)) / 2).min(NEAR / 2);
            let start = |number| stride.checked_mul(number).and_then(|far| access.start.checked_add(far));
            // As above; what lies in the page of this access is there in any case.
            let is_ahead = |next| next < self.fetched && next / page != (access.end - 1) / page;
            let is_lost = start(1).is_some_and(|next| is_ahead(next) && self.loss.note(is_kept(next)));
            let count = if is_lost { (count / 2).max(1) } else { count };
            let from = if is_lost { access.end } else { self.fetched };
            let first = from.saturating_sub(access.start).div_ceil(stride).max(1);
            let new = (first..=count).map_while(start);
            let new: Vec<_> = new.map(|start| start..start.saturating_add(length.min(window))).collect();
            if is_lost || each.saturating_mul(new.len() as u64) >= portion {
                self.fetched = new.last().map_or(from, |last| last.start + 1);
                ranges = new;
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
