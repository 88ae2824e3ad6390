//! Which bytes of a page have a property: a set of positions in shared memory.
//!
//! Most such sets are one run of bytes, so a set is a **span** (one atomic word) and, only where the bytes
//! within the span are not all in the set, one bit per byte. A page that was fetched, or written from one end
//! to the other, never touches the bits: they take no memory.
//!
//! A process may be killed between any two stores. Bits outside the span mean nothing; a change of the set
//! first stores bits and then the span. Hence, wherever a change is cut off, each byte is in the set if it was
//! before or should be after: bytes that the change is not about are never affected.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::fs::FallocateFlags;
use rustix::io::retry_on_intr;

use super::layout::{step, step64};

/// A set of byte positions of one page. Whoever uses it has locked the set of frames.
#[derive(Clone, Copy)]
pub(super) struct ByteMap<'m> {
    pub(super) span: &'m AtomicU64,
    pub(super) bits: &'m [AtomicU64],
    pub(super) storage: Option<Storage<'m>>,
}

/// The part of a file that holds bits, and whether it has storage yet.
#[derive(Clone, Copy)]
pub(super) struct Storage<'m> {
    pub(super) file: &'m File,
    pub(super) at: u64,
    pub(super) bytes: u64,
    pub(super) reserved: &'m AtomicU32,
}

impl Storage<'_> {
    /// Gives the part storage: without memory for it there is an error here, and no SIGBUS later.
    pub(super) fn reserve(&self) -> io::Result<()> {
        if self.reserved.load(Relaxed) == 0 {
            let all = || rustix::fs::fallocate(self.file, FallocateFlags::empty(), self.at, self.bytes);
            retry_on_intr(all)?;
            step(self.reserved, 1);
        }
        Ok(())
    }
}

/// All bytes of the set lie in `start..end`. If `mixed`, the bits tell which; if not, all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
    mixed: bool,
}

const MIXED: u64 = 1 << 63;

impl Span {
    const EMPTY: Span = Span { start: 0, end: 0, mixed: false };

    fn run(range: &Range<u32>) -> Span {
        Span { start: range.start, end: range.end, mixed: false }
    }

    fn unpack(word: u64) -> Span {
        Span { start: word as u32, end: (word >> 32) as u32 & !(1 << 31), mixed: word & MIXED != 0 }
    }

    fn pack(self) -> u64 {
        u64::from(self.start) | u64::from(self.end) << 32 | if self.mixed { MIXED } else { 0 }
    }

    fn range(self) -> Range<u32> {
        self.start..self.end
    }
}

impl ByteMap<'_> {
    /// Whether nothing is in the set.
    pub(super) fn is_empty(&self) -> bool {
        // Of a set that is only added to and removed from, the span's first and last byte are in the set.
        self.span().range().is_empty()
    }

    /// Whether all of `range` is in the set.
    pub(super) fn contains(&self, range: &Range<u32>) -> bool {
        let span = self.span();
        span.start <= range.start
            && range.end <= span.end
            && (!span.mixed || first(range, |word| !self.word(span, word)).is_none())
    }

    /// Whether any of `range` is in the set.
    pub(super) fn intersects(&self, range: &Range<u32>) -> bool {
        let span = self.span();
        first(&overlap(&span.range(), range), |word| self.word(span, word)).is_some()
    }

    /// 64 positions of the set: bit `b` is set if byte `64 * word + b` is in it.
    pub(super) fn bits(&self, word: u32) -> u64 {
        self.word(self.span(), word)
    }

    /// The smallest range that holds the set.
    pub(super) fn hull(&self) -> Range<u32> {
        self.span().range()
    }

    /// Makes the set `range` and nothing else.
    pub(super) fn set(&self, range: &Range<u32>) {
        self.store(if range.is_empty() { Span::EMPTY } else { Span::run(range) });
    }

    /// Empties the set.
    pub(super) fn clear(&self) {
        self.store(Span::EMPTY);
    }

    /// Adds `range`.
    pub(super) fn add(&self, range: &Range<u32>) -> io::Result<()> {
        let old = self.span();
        let (start, end) = (range.start.min(old.start), range.end.max(old.end));
        if range.is_empty() {
            return Ok(());
        } else if old.range().is_empty() || range.start <= old.start && old.end <= range.end {
            self.set(range);
            return Ok(());
        } else if !old.mixed && range.start <= old.end && old.start <= range.end {
            self.set(&(start..end));
            return Ok(());
        }
        // What lies between the span and the range comes into the span, without being in the set.
        let touched = if !old.mixed {
            start..end
        } else if range.start > old.end {
            old.end..range.end
        } else if range.end < old.start {
            range.start..old.start
        } else {
            range.clone()
        };
        self.store_bits(&touched, |word| self.word(old, word) | mask(range, word))?;
        self.store(Span { start, end, mixed: true });
        Ok(())
    }

    /// Removes `range`.
    pub(super) fn remove(&self, range: &Range<u32>) -> io::Result<()> {
        let old = self.span();
        let gone = overlap(&old.range(), range);
        if gone.is_empty() {
            return Ok(());
        }
        if gone.start > old.start && gone.end < old.end {
            let touched = if old.mixed { gone.clone() } else { old.range() };
            self.store_bits(&touched, |word| self.word(old, word) & !mask(&gone, word))?;
            self.store(Span { mixed: true, ..old });
            return Ok(());
        }
        let rest = if gone.start > old.start { old.start..gone.start } else { gone.end..old.end };
        let start = first(&rest, |word| self.word(old, word));
        let end = last(&rest, |word| self.word(old, word));
        self.store(match (start, end) {
            (Some(start), Some(last)) => Span { start, end: last + 1, mixed: old.mixed },
            _ => Span::EMPTY,
        });
        Ok(())
    }

    fn span(&self) -> Span {
        let span = Span::unpack(self.span.load(Relaxed));
        // Any content of the memory is a set, if not always the right one.
        let end = span.end.min(self.bits.len() as u32 * 64);
        Span { start: span.start.min(end), end, ..span }
    }

    fn word(&self, span: Span, word: u32) -> u64 {
        let within = mask(&span.range(), word);
        // Bits are looked at only where there can be any: a read would give them memory.
        if span.mixed && within != 0 { self.bits[word as usize].load(Relaxed) & within } else { within }
    }

    fn store(&self, span: Span) {
        step64(self.span, span.pack());
    }

    fn store_bits(&self, range: &Range<u32>, bits: impl Fn(u32) -> u64) -> io::Result<()> {
        if let Some(storage) = &self.storage {
            storage.reserve()?;
        }
        for word in words(range) {
            step64(&self.bits[word as usize], bits(word));
        }
        Ok(())
    }
}

/// The maximal runs of set bits in `within`, upwards, where `bits` gives 64 positions each.
pub(super) fn runs<'f>(
    within: Range<u32>,
    bits: impl Fn(u32) -> u64 + 'f,
) -> impl Iterator<Item = Range<u32>> + 'f {
    let mut rest = within;
    std::iter::from_fn(move || {
        let start = first(&rest, &bits)?;
        let end = first(&(start..rest.end), |word| !bits(word)).unwrap_or(rest.end);
        rest.start = end;
        Some(start..end)
    })
}

/// What two ranges have in common.
pub(super) fn overlap(one: &Range<u32>, other: &Range<u32>) -> Range<u32> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

fn words(range: &Range<u32>) -> Range<u32> {
    if range.is_empty() { 0..0 } else { range.start / 64..range.end.div_ceil(64) }
}

fn first(within: &Range<u32>, bits: impl Fn(u32) -> u64) -> Option<u32> {
    words(within).find_map(|word| {
        let bits = bits(word) & mask(within, word);
        (bits != 0).then(|| word * 64 + bits.trailing_zeros())
    })
}

fn last(within: &Range<u32>, bits: impl Fn(u32) -> u64) -> Option<u32> {
    words(within).rev().find_map(|word| {
        let bits = bits(word) & mask(within, word);
        (bits != 0).then(|| word * 64 + 63 - bits.leading_zeros())
    })
}

/// The bits of word `word` that stand for bytes of `range`.
fn mask(range: &Range<u32>, word: u32) -> u64 {
    let first = word * 64;
    let low = range.start.clamp(first, first + 64) - first;
    let high = range.end.clamp(first, first + 64) - first;
    if low >= high { 0 } else { u64::MAX >> (64 - (high - low)) << low }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: u32 = 1024;

    #[derive(Debug, Clone)]
    enum Change {
        Add(Range<u32>),
        Remove(Range<u32>),
        Set(Range<u32>),
    }

    fn range() -> impl Strategy<Value = Range<u32>> {
        (0..=BYTES, 0..=BYTES, prop::bool::ANY).prop_map(|(a, b, short)| {
            let (start, end) = (a.min(b), a.max(b));
            start..if short { end.min(start + 70) } else { end }
        })
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            6 => range().prop_map(Change::Add),
            5 => range().prop_map(Change::Remove),
            1 => range().prop_map(Change::Set),
        ]
    }

    proptest! {
        #[test]
        fn a_byte_map_is_a_set(
            changes in prop::collection::vec(change(), 1..40),
            garbage: u64,
            asked in range(),
        ) {
            let span = AtomicU64::new(0);
            let bits: Vec<_> = (0..BYTES / 64).map(|_| AtomicU64::new(garbage)).collect();
            let map = ByteMap { span: &span, bits: &bits, storage: None };
            let mut oracle = vec![false; BYTES as usize];
            for change in changes {
                let slice = |r: &Range<u32>| r.start as usize..r.end as usize;
                match change {
                    Change::Add(r) => { map.add(&r).unwrap(); oracle[slice(&r)].fill(true); }
                    Change::Remove(r) => { map.remove(&r).unwrap(); oracle[slice(&r)].fill(false); }
                    Change::Set(r) => { map.set(&r); oracle.fill(false); oracle[slice(&r)].fill(true); }
                }
                let mut found = vec![false; BYTES as usize];
                let mut before = None;
                for run in runs(0..BYTES, |word| map.bits(word)) {
                    prop_assert!(before < Some(run.start) && !run.is_empty(), "runs are apart");
                    before = Some(run.end);
                    found[slice(&run)].fill(true);
                }
                prop_assert_eq!(&found, &oracle);
                let members: Vec<u32> = (0..BYTES).filter(|b| oracle[*b as usize]).collect();
                prop_assert_eq!(map.is_empty(), members.is_empty());
                if let (Some(first), Some(last)) = (members.first(), members.last()) {
                    prop_assert_eq!(map.hull(), *first..*last + 1);
                }
                if !asked.is_empty() {
                    prop_assert_eq!(map.contains(&asked), oracle[slice(&asked)].iter().all(|b| *b));
                }
                prop_assert_eq!(map.intersects(&asked), oracle[slice(&asked)].iter().any(|b| *b));
            }
        }
    }
}
