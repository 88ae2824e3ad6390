//! The wrapper over shared memory.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{FaultCounts, FaultPlan, Faulty, fragments};
use crate::back_end::{Backing, Piece, Sequence};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::segment::{LocalSegment, RemoteSegment};
use crate::shm;
use crate::units::{Rank, SegmentId};

const SEGMENT: SegmentId = SegmentId::new(1, 1);
const LENGTH: usize = 4096;
/// So late that only a barrier brings it.
const AT_THE_BARRIER: Duration = Duration::from_secs(3600);

struct Pair {
    fabric: Fabric,
    faulty: Arc<Faulty>,
    remote: RemoteSegment,
    segment: LocalSegment,
    // Closes when it is dropped.
    _owner: Fabric,
}

/// A sender that has faults, and the memory of a receiver.
fn pair(plan: FaultPlan) -> Pair {
    let mut fabrics = shm::within_process(2).into_iter();
    let (sender, owner) = (fabrics.next().unwrap(), fabrics.next().unwrap());
    let segment = owner.create(SEGMENT, &Backing::Anonymous { length: LENGTH as u64 }).unwrap();
    let faulty = Faulty::new(Arc::clone(sender.back_end()), plan);
    let fabric = Fabric::new(faulty.clone());
    let remote = fabric.connect(Rank(1), SEGMENT).unwrap();
    Pair { fabric, faulty, remote, segment, _owner: owner }
}

impl Pair {
    fn found(&self) -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        self.segment.memory().read(0, &mut bytes).unwrap();
        bytes
    }
}

#[test]
fn without_a_plan_nothing_goes_wrong_but_little_is_promised() {
    let pair = pair(FaultPlan::default());
    let capabilities = pair.fabric.capabilities();
    assert!(!capabilities.direct_mapping && !capabilities.is_reliable);
    assert!(pair.remote.mapping().is_none());
    let mark = pair.fabric.mark(Rank(1));
    pair.remote.write(10, b"hello").unwrap();
    assert_eq!(pair.fabric.check_sequence(Rank(1), mark).unwrap(), Sequence::Intact);
    assert_eq!(&pair.found()[10..15], b"hello");
    assert_eq!(pair.faulty.counts(), FaultCounts { fragments: 1, ..FaultCounts::default() });
}

#[test]
fn what_is_dropped_breaks_the_sequence_and_nothing_else() {
    let pair = pair(FaultPlan { dropped: 1.0, ..FaultPlan::default() });
    let before = pair.fabric.mark(Rank(1));
    pair.remote.write(0, b"hello").unwrap();
    let after = pair.fabric.mark(Rank(1));
    assert_eq!(pair.fabric.check_sequence(Rank(1), before).unwrap(), Sequence::Broken);
    assert_eq!(pair.fabric.check_sequence(Rank(1), after).unwrap(), Sequence::Intact);
    assert_eq!(pair.fabric.check_sequence(Rank(0), pair.fabric.mark(Rank(0))).unwrap(), Sequence::Intact);
    assert_eq!(pair.found()[..5], [0; 5]);
    let result = pair.fabric.write_checked(Rank(1), || pair.remote.write(0, b"hello"));
    assert!(matches!(result, Err(Error::Unreachable { peer: Rank(1), .. })));
    assert_eq!(pair.faulty.counts().dropped, 1 + 32);
}

#[test]
fn what_is_late_comes_at_the_barrier_at_the_latest() {
    let pair = pair(FaultPlan { late: 1.0, late_by: AT_THE_BARRIER, ..FaultPlan::default() });
    pair.remote.write(0, b"hello").unwrap();
    assert_eq!(pair.found()[..5], [0; 5]);
    pair.fabric.store_barrier(Rank(1)).unwrap();
    assert_eq!(&pair.found()[..5], b"hello");
    // What is out of bounds is refused now, not later.
    let beyond = pair.fabric.back_end().write(
        &pair.remote.remote(),
        &[Piece { offset: 0, bytes: b"x" }, Piece { offset: LENGTH as u64 - 1, bytes: b"yz" }],
    );
    assert!(matches!(beyond, Err(Error::OutOfBounds { .. })));
    pair.fabric.store_barrier(Rank(1)).unwrap();
    assert_eq!(&pair.found()[..5], b"hello");
    // A connection that goes takes nothing with it.
    pair.remote.write(0, b"jelly").unwrap();
    let Pair { remote, segment, .. } = &pair;
    let connection = remote.remote().place;
    let crate::back_end::Place::Segment(connection) = connection else { unreachable!() };
    pair.fabric.back_end().disconnect(connection);
    let mut bytes = [0; 5];
    segment.memory().read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"jelly");
}

#[test]
fn what_is_late_comes_by_itself_and_rings() {
    let pair = pair(FaultPlan { late: 1.0, late_by: Duration::from_millis(20), ..FaultPlan::default() });
    let word = pair.segment.memory().word64(0).unwrap();
    for round in 1..20_u64 {
        pair.remote.write(0, &round.to_ne_bytes()).unwrap();
        // The receiver's waiter, who sleeps: nobody rings but the late write itself.
        let mut ready = || word.load(std::sync::atomic::Ordering::Acquire) == round;
        let wait = crate::back_end::Wait { deadline: None, attends: None, ready: &mut ready };
        assert_eq!(pair._owner.wait_until(wait), crate::back_end::Waited::Ready);
    }
}

#[test]
fn what_is_repeated_overwrites_what_came_meanwhile_but_not_after_a_barrier() {
    let pair = pair(FaultPlan { repeated: 1.0, late_by: AT_THE_BARRIER, ..FaultPlan::default() });
    pair.remote.write(0, b"old").unwrap();
    assert_eq!(&pair.found()[..3], b"old");
    pair.segment.memory().write(0, b"own").unwrap();
    pair.fabric.store_barrier(Rank(1)).unwrap();
    assert_eq!(&pair.found()[..3], b"old");
    pair.segment.memory().write(0, b"own").unwrap();
    pair.fabric.store_barrier(Rank(1)).unwrap();
    assert_eq!(&pair.found()[..3], b"own");
}

#[test]
fn the_same_seed_brings_the_same_faults() {
    let faults = |seed| {
        let plan = FaultPlan { seed, dropped: 0.3, late: 0.3, repeated: 0.2, ..FaultPlan::default() };
        let pair = pair(plan);
        for at in 0..200 {
            pair.remote.write(at * 8, &[at as u8; 300]).unwrap();
        }
        pair.faulty.counts()
    };
    let counts = faults(1);
    assert_eq!(counts, faults(1));
    assert_ne!(counts, faults(2));
    assert!(counts.dropped > 0 && counts.late > 0 && counts.repeated > 0);
    assert!(counts.dropped + counts.late + counts.repeated < counts.fragments);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Transfers that are repeated until their sequence is intact leave what they would leave in an array.
    #[test]
    fn checked_writes_arrive_whatever_goes_wrong(
        seed in any::<u64>(),
        writes in prop::collection::vec(
            prop::collection::vec((0..3500_u64, prop::collection::vec(any::<u8>(), 0..500)), 1..4), 1..15),
    ) {
        let plan = FaultPlan { seed, dropped: 0.1, late: 0.3, repeated: 0.3, ..FaultPlan::default() };
        let pair = pair(plan);
        let mut expected = vec![0; LENGTH];
        for pieces in &writes {
            // Pieces of one sequence must not overlap: nothing orders them.
            for (offset, bytes) in pieces {
                expected[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
                pair.fabric.write_checked(Rank(1), || pair.remote.write(*offset, bytes)).unwrap();
            }
        }
        prop_assert_eq!(pair.found(), expected);
        let (counts, statistics) = (pair.faulty.counts(), pair.fabric.statistics());
        prop_assert_eq!(statistics.broken_sequences, statistics.repeated_writes);
        prop_assert!(statistics.broken_sequences <= counts.dropped);
        prop_assert_eq!(statistics.broken_sequences == 0, counts.dropped == 0);
    }

    /// Fragments are the piece, and are cut at aligned blocks only.
    #[test]
    fn fragments_are_the_piece(offset in 0..1000_u64, length in 0..1000_usize, chosen in any::<prop::sample::Index>()) {
        let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let piece = Piece { offset, bytes: &bytes };
        let all: Vec<_> = fragments(&piece, 64, |count| chosen.index(count as usize) as u64).collect();
        let together: Vec<u8> = all.iter().flat_map(|fragment| fragment.bytes).copied().collect();
        prop_assert_eq!(&together, &bytes);
        let mut next = offset;
        for (number, fragment) in all.iter().enumerate() {
            prop_assert_eq!(fragment.offset, next);
            prop_assert!(number == 0 || fragment.offset % 64 == 0);
            next += fragment.bytes.len() as u64;
        }
    }
}
