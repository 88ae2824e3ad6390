//! Which segment size suits what is written first.
//!
//! A segment lies on one node, so what several nodes write in it crosses the wire for all but one of them. Small
//! segments follow the writers more closely, and cost more: each is opened and mapped for itself, some ten
//! microseconds, which is about what copying 64 KiB takes. So the largest size is chosen that keeps nearly as much
//! local as any does.
//!
//! * At most [`TOLERABLE`] of the bytes remote is good enough: halving them again would hardly be felt, since all
//!   nodes write their own at the same time.
//! * Else within [`CLOSE`] of the best size: where writers alternate by few bytes, no size helps, and all are about as
//!   good. Then what counts is that all nodes take part at the same time: each access of that length should meet
//!   several segments of each node, or most of its bytes go to one node at a time, by that node's link.
//! * Less than [`LEAST`] bytes are a header, from which nothing follows for the data.
//!
//! Where a placement spreads segments over nodes, whoever writes them, all that counts is that all nodes take part.
//!
//! Sizes are only made smaller: the default is large enough for its cost not to be felt.

use std::collections::BTreeSet;

use svmio_svm::SegmentSize;

use crate::amounts::Writers;

/// Per cent of the bytes.
const TOLERABLE: u128 = 10;
/// Per cent of the bytes.
const CLOSE: u128 = 5;
/// Bytes.
const LEAST: u64 = 1 << 20;
/// More units than these within the bounds of an access are not counted: the smallest sizes are out of question then.
const MOST_UNITS: u64 = 1 << 14;

/// A segment size that is better than that in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) size: SegmentSize,
    /// Bytes of the access.
    pub(crate) bytes: u64,
    pub(crate) reason: Reason,
}

/// Why a size is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// So many bytes are remote with it, and would be with the size in force.
    Nearness { remote: u64, remote_before: u64 },
    /// So many nodes get parts, as the placement wants it.
    Spreading { nodes: usize },
}

/// The smallest segment size to look at for an access whose bounds are `span` bytes apart, where `now` is in force.
pub(crate) fn smallest(span: u64, now: SegmentSize) -> SegmentSize {
    let bytes = (span / MOST_UNITS).next_power_of_two().clamp(SegmentSize::MIN.bytes(), now.bytes());
    SegmentSize::new(bytes).unwrap_or(now)
}

/// The size to choose; `None` where `now` is as good as any. `writers` are by units of `smallest`.
pub(crate) fn choose(writers: &Writers, smallest: SegmentSize, now: SegmentSize) -> Option<Choice> {
    let bytes = writers.bytes();
    if bytes < LEAST {
        return None;
    }
    // From small to large; remote bytes grow with the size.
    let mut sizes = Vec::new();
    let mut size = smallest.bytes();
    while size <= now.bytes() {
        let times = u32::try_from(size / smallest.bytes()).ok()?;
        sizes.push((SegmentSize::new(size).ok()?, writers.coarser(times).remote_bytes()));
        size *= 2;
    }
    let spreading = SegmentSize::to_spread(written(writers, smallest), nodes_of(writers), now);
    let best = sizes.iter().map(|(_, remote)| *remote).min()?;
    let (_, remote_before) = *sizes.last()?;
    let limit = share(bytes, TOLERABLE).max(best + share(bytes, CLOSE));
    let is_good = |(size, remote): &(SegmentSize, u64)| {
        *remote <= limit && (*remote <= share(bytes, TOLERABLE) || size.bytes() <= spreading.bytes())
    };
    // Where even the smallest ones are too few for all nodes, they are the best there is.
    let smallest = sizes.first().copied()?;
    let (size, remote) = sizes.into_iter().rfind(is_good).unwrap_or(smallest);
    let reason = Reason::Nearness { remote, remote_before };
    (size != now).then_some(Choice { size, bytes, reason })
}

/// The same where segments are spread over `nodes` nodes, whoever writes them.
pub(crate) fn choose_to_spread(
    writers: &Writers,
    smallest: SegmentSize,
    now: SegmentSize,
    nodes: usize,
) -> Option<Choice> {
    let bytes = writers.bytes();
    let spreading = SegmentSize::to_spread(written(writers, smallest), nodes, now);
    let size = if spreading.bytes() < smallest.bytes() { smallest } else { spreading };
    (bytes >= LEAST && size != now).then_some(Choice { size, bytes, reason: Reason::Spreading { nodes } })
}

/// Bytes of the units in which something is written.
fn written(writers: &Writers, unit: SegmentSize) -> u64 {
    writers.units().len() as u64 * unit.bytes()
}

/// How many nodes write.
fn nodes_of(writers: &Writers) -> usize {
    let nodes: BTreeSet<u32> =
        writers.units().flat_map(|(_, of)| of.iter().map(|(node, _)| node.0)).collect();
    nodes.len()
}

fn share(bytes: u64, per_cent: u128) -> u64 {
    u64::try_from(u128::from(bytes) * per_cent / 100).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use svmio_svm::NodeIndex;

    use super::*;
    use crate::amounts::Amounts;

    const UNIT: u64 = 64 << 10;

    /// `pieces` pieces of `length` bytes, of which each node in turn writes one.
    fn interleaved(nodes: u32, length: u64, pieces: u64) -> Writers {
        let mut amounts: Vec<Amounts> = (0..nodes).map(|_| Amounts::by(UNIT)).collect();
        for piece in 0..pieces {
            amounts[(piece % u64::from(nodes)) as usize].add(piece * length, length);
        }
        let told: Vec<Vec<u8>> = amounts.iter().map(Amounts::to_bytes).collect();
        Writers::of((0..).map(NodeIndex).zip(told.iter().map(|told| &told[..])))
    }

    fn chosen(writers: &Writers) -> Option<u64> {
        choose(writers, SegmentSize::MIN, SegmentSize::DEFAULT).map(|choice| choice.size.bytes())
    }

    #[test]
    fn the_size_is_that_of_the_pieces() {
        for shift in 16..24 {
            assert_eq!(chosen(&interleaved(4, 1 << shift, 64)), Some(1 << shift), "{shift}");
        }
    }

    #[test]
    fn what_no_size_helps_is_spread_over_the_nodes() {
        assert_eq!(chosen(&interleaved(4, 1280, 1 << 14)), Some(1 << 20), "20 MiB");
        assert_eq!(chosen(&interleaved(4, 8, 1 << 17)), Some(64 << 10), "1 MiB");
        assert_eq!(chosen(&interleaved(2, 1280, 1 << 18)), None, "320 MiB");
    }

    #[test]
    fn what_is_good_stays() {
        assert_eq!(chosen(&interleaved(4, 1 << 24, 16)), None, "as large as segments are");
        assert_eq!(chosen(&interleaved(1, 1 << 17, 256)), None, "one node");
        assert_eq!(chosen(&interleaved(2, 1 << 16, 8)), None, "little");
        assert_eq!(chosen(&Writers::default()), None, "nothing");
    }

    #[test]
    fn pieces_beside_the_boundaries_get_small_segments() {
        let choice = choose(&interleaved(4, 300_000, 64), SegmentSize::MIN, SegmentSize::DEFAULT);
        let choice = choice.expect("there is much to gain");
        assert_eq!((choice.size.bytes(), choice.bytes), (64 << 10, 64 * 300_000));
        let Reason::Nearness { remote, remote_before } = choice.reason else { panic!("{choice:?}") };
        assert!(remote * 100 < choice.bytes * 15 && remote_before * 100 > choice.bytes * 70, "{choice:?}");
    }

    #[test]
    fn placements_that_spread_get_segments_for_all_nodes() {
        let chosen = |writers: &Writers, nodes| {
            let choice = choose_to_spread(writers, SegmentSize::MIN, SegmentSize::DEFAULT, nodes);
            choice.map(|choice| choice.size.bytes())
        };
        let one_writes = |mebibytes| interleaved(1, 1 << 20, mebibytes);
        assert_eq!(chosen(&one_writes(8), 4), Some(512 << 10));
        assert_eq!(chosen(&one_writes(8), 3), Some(512 << 10), "a power of two");
        assert_eq!(chosen(&one_writes(1), 64), Some(64 << 10), "no smaller ones are possible");
        assert_eq!(chosen(&one_writes(256), 4), None, "each node gets four of the largest");
        assert_eq!(chosen(&interleaved(2, 1000, 100), 4), None, "a header");
    }

    proptest! {
        #[test]
        fn units_are_few(span in any::<u64>()) {
            let size = smallest(span, SegmentSize::DEFAULT);
            prop_assert!(span / size.bytes() <= MOST_UNITS || size == SegmentSize::DEFAULT);
            prop_assert!(size == SegmentSize::MIN || span / size.bytes() >= MOST_UNITS / 4);
        }

        #[test]
        fn a_choice_is_nearly_the_best(length in 1u64..3 << 20, pieces in 4u64..64, nodes in 1u32..6) {
            let writers = interleaved(nodes, length, pieces);
            let remote = |times| writers.coarser(times).remote_bytes();
            let most = writers.units().len() as u64 * UNIT / (4 * nodes_of(&writers) as u64);
            let limit = (writers.bytes() / 10).max(remote(1) + writers.bytes() / 20);
            let is_good = |times: u32| {
                let is_local = remote(times) <= writers.bytes() / 10;
                remote(times) <= limit && (is_local || u64::from(times) << 16 <= most)
            };
            let Some(choice) = choose(&writers, SegmentSize::MIN, SegmentSize::DEFAULT) else {
                prop_assert!(writers.bytes() < LEAST || is_good(256));
                return Ok(());
            };
            let times = u32::try_from(choice.size.bytes() / UNIT).expect("it is small");
            let reason = Reason::Nearness { remote: remote(times), remote_before: remote(256) };
            prop_assert_eq!(choice.reason, reason);
            prop_assert!(is_good(times) || times == 1);
            prop_assert!((1..=8).map(|shift| 1 << shift).all(|larger| larger <= times || !is_good(larger)));
        }
    }
}
