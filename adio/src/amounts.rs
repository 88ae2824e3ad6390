//! How many bytes are written where: of one rank, and of all of them by node.
//!
//! A file is divided into units, which are segments or parts of segments.

use std::collections::BTreeMap;

use svmio_svm::{NodeIndex, SegmentSize};

use crate::flatten::{Cursor, Runs};
use crate::view::{Extent, View};

/// How many bytes one rank writes in each unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// Bytes per unit.
    unit: u64,
    of_units: BTreeMap<u32, u64>,
}

impl Amounts {
    /// Nothing yet, by units of `unit` bytes.
    pub(crate) fn by(unit: u64) -> Amounts {
        Amounts { unit, of_units: BTreeMap::new() }
    }

    /// What lies in `extent` of a view, by units of that size.
    pub(crate) fn of(view: &View, extent: &Extent, unit: SegmentSize) -> Amounts {
        let mut amounts = Amounts::by(unit.bytes());
        let mut cursor = Cursor::at(view.shape(), extent.position);
        let mut left = extent.bytes;
        while left > 0 {
            let ahead = cursor.ahead();
            let runs = match left / ahead.length {
                0 => Runs::one(ahead.at, left),
                count => Runs { count: count.min(ahead.count), ..ahead },
            };
            amounts.add_runs(&runs);
            left -= runs.length * runs.count;
            cursor.advance(runs.length * runs.count);
        }
        amounts
    }

    /// Counts `length` bytes from `start` on.
    pub(crate) fn add(&mut self, start: u64, length: u64) {
        let end = start.saturating_add(length);
        let mut start = start;
        while start < end {
            let number = start / self.unit;
            let until = (number + 1).saturating_mul(self.unit).min(end);
            // Further on there are no segments; the write itself fails.
            let Ok(unit) = u32::try_from(number) else { return };
            let of_unit = self.of_units.entry(unit).or_default();
            *of_unit = of_unit.saturating_add(until - start);
            start = until;
        }
    }

    /// Counts runs of bytes at equal distances, each within the file.
    pub(crate) fn add_runs(&mut self, runs: &Runs) {
        let (mut at, mut left) = (runs.at.unsigned_abs(), runs.count.unsigned_abs());
        let (length, stride) = (runs.length.unsigned_abs(), runs.stride.unsigned_abs());
        while left > 0 {
            // So many end in the unit in which the next one begins.
            let room = self.unit - at % self.unit;
            let count = match stride {
                _ if room < length => 0,
                0 => left,
                stride => ((room - length) / stride + 1).min(left),
            };
            if let (1.., Ok(unit)) = (count, u32::try_from(at / self.unit)) {
                let of_unit = self.of_units.entry(unit).or_default();
                *of_unit = of_unit.saturating_add(count * length);
            } else {
                self.add(at, length);
            }
            let done = count.max(1);
            (at, left) = (at + stride * done, left - done);
        }
    }

    /// The units in which anything is written, in ascending order.
    pub(crate) fn units(&self) -> impl Iterator<Item = u32> + '_ {
        self.of_units.keys().copied()
    }

    /// Forgets what lies in units for which `stays` is `false`.
    pub(crate) fn retain(&mut self, stays: impl Fn(u32) -> bool) {
        self.of_units.retain(|unit, _| stays(*unit));
    }

    /// The same by units that are `times` as large.
    pub(crate) fn coarser(&self, times: u32) -> Amounts {
        let mut amounts = Amounts::by(self.unit.saturating_mul(times.into()));
        for (unit, bytes) in &self.of_units {
            let of_unit = amounts.of_units.entry(unit / times.max(1)).or_default();
            *of_unit = of_unit.saturating_add(*bytes);
        }
        amounts
    }

    /// Whether nothing is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.of_units.is_empty()
    }

    /// For the other ranks. Neighbouring units of which the same is written take no more room than one.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut runs: Vec<Run> = Vec::new();
        for (&unit, &bytes) in &self.of_units {
            match runs.last_mut() {
                Some(run) if run.bytes == bytes && run.first + run.units == unit => run.units += 1,
                _ => runs.push(Run { first: unit, units: 1, bytes }),
            }
        }
        runs.iter().flat_map(Run::to_bytes).collect()
    }
}

/// Units that follow each other, and what is written in each.
struct Run {
    first: u32,
    units: u32,
    bytes: u64,
}

impl Run {
    const LENGTH: usize = 16;

    fn to_bytes(&self) -> [u8; Run::LENGTH] {
        let mut bytes = [0; Run::LENGTH];
        bytes[..4].copy_from_slice(&self.first.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.units.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.bytes.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Run {
        let four = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let last = bytes[8..Run::LENGTH].try_into().expect("eight bytes");
        Run { first: four(0), units: four(4), bytes: u64::from_ne_bytes(last) }
    }
}

/// How many bytes the ranks of which nodes write in each unit in which any is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Writers(BTreeMap<u32, Vec<(NodeIndex, u64)>>);

impl Writers {
    /// Of what ranks told by [`Amounts::to_bytes`], and where they run.
    pub(crate) fn of<'a>(ranks: impl IntoIterator<Item = (NodeIndex, &'a [u8])>) -> Writers {
        let mut writers = Writers::default();
        for (node, told) in ranks {
            for run in told.chunks_exact(Run::LENGTH).map(Run::from_bytes) {
                (run.first..run.first.saturating_add(run.units)).for_each(|unit| {
                    writers.add(unit, node, run.bytes);
                });
            }
        }
        writers
    }

    fn add(&mut self, unit: u32, node: NodeIndex, bytes: u64) {
        let amounts = self.0.entry(unit).or_default();
        match amounts.iter_mut().find(|(known, _)| known.0 == node.0) {
            Some((_, known)) => *known = known.saturating_add(bytes),
            None => amounts.push((node, bytes)),
        }
    }

    /// The same by units that are `times` as large.
    pub(crate) fn coarser(&self, times: u32) -> Writers {
        let mut writers = Writers::default();
        for (unit, amounts) in &self.0 {
            amounts.iter().for_each(|(node, bytes)| writers.add(unit / times.max(1), *node, *bytes));
        }
        writers
    }

    /// The units in ascending order, and who writes how much of each.
    pub(crate) fn units(&self) -> impl ExactSizeIterator<Item = (u32, &[(NodeIndex, u64)])> {
        self.0.iter().map(|(unit, amounts)| (*unit, &amounts[..]))
    }

    /// How many bytes are written.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.values().flatten().map(|(_, bytes)| bytes).sum()
    }

    /// How many bytes are written to other nodes, where each unit lies on the node that writes most of it.
    pub(crate) fn remote_bytes(&self) -> u64 {
        let most =
            |amounts: &Vec<(NodeIndex, u64)>| amounts.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        self.bytes() - self.0.values().map(most).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn writers_are_who_wrote_each_byte(
            ranges in proptest::collection::vec((0u32..4, 0u64..300, 0u64..60), 0..20),
            (unit, times) in (1u64..40, 1u32..5),
        ) {
            let mut ranks = [(); 4].map(|()| Amounts::by(unit));
            for (rank, start, length) in &ranges {
                ranks[*rank as usize].add(*start, *length);
            }
            let coarse = ranks.each_ref().map(|amounts| amounts.coarser(times).to_bytes());
            let told = ranks.each_ref().map(Amounts::to_bytes);
            // Two ranks on each node.
            let node = |rank: u32| NodeIndex(rank / 2);
            let writers = Writers::of((0..4).zip(&told).map(|(rank, told)| (node(rank), &told[..]))).coarser(times);
            let mut expected: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            for (rank, start, length) in &ranges {
                for byte in *start..start + length {
                    *expected.entry(((byte / unit) as u32 / times, node(*rank).0)).or_default() += 1;
                }
            }
            let by_ranks = Writers::of((0..4).zip(&coarse).map(|(rank, told)| (node(rank), &told[..])));
            let each = |writers: &Writers| -> BTreeMap<(u32, u32), u64> {
                let of_unit = |(unit, amounts): (u32, &[(NodeIndex, u64)])| {
                    amounts.iter().map(|(node, bytes)| ((unit, node.0), *bytes)).collect::<Vec<_>>()
                };
                writers.units().flat_map(of_unit).collect()
            };
            prop_assert_eq!(&each(&writers), &expected);
            prop_assert_eq!(&each(&by_ranks), &expected);
            let most = |unit| (0..2).filter_map(|node| expected.get(&(unit, node))).max().unwrap_or(&0);
            let local: u64 = (0..400).map(most).sum();
            prop_assert_eq!(writers.bytes(), ranges.iter().map(|(_, _, length)| length).sum::<u64>());
            prop_assert_eq!(writers.remote_bytes(), writers.bytes() - local);
        }

        #[test]
        fn runs_are_counted_as_one_by_one(at in 0i64..100, length in 1i64..40, stride in 0i64..50, count in 1i64..30, unit in 1u64..60) {
            let (mut together, mut each) = (Amounts::by(unit), Amounts::by(unit));
            together.add_runs(&Runs { at, length, stride, count });
            (0..count).for_each(|number| each.add((at + number * stride) as u64, length as u64));
            prop_assert_eq!(together, each);
        }
    }
}
