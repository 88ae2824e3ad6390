//! The wrapper over shared memory.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{FaultCounts, FaultPlan, Faulty, fragments};
use crate::back_end::{Backing, Piece, Sequence};
use crate::capabilities::Capabilities;
use crate::dma::{Completion, Direction, Transfer};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::memory::UserMemory;
use crate::message::{MessageSettings, Messenger, Mode, Port};
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
fn who_pins_memory_says_so_and_exports_no_more_than_can_be_locked() {
    let mut fabrics = shm::within_process(2).into_iter();
    let (writer, owner) = (fabrics.next().unwrap(), fabrics.next().unwrap());
    let inner = Arc::clone(owner.back_end());
    let pinning = Fabric::new(Faulty::pinning(Arc::clone(&inner), LENGTH as u64));
    let expected = Capabilities {
        pins_memory: true,
        direct_mapping: false,
        provider: pinning.capabilities().provider.clone(),
        ..inner.capabilities().clone()
    };
    assert_eq!(*pinning.capabilities(), expected);
    let create = |length| pinning.create(SEGMENT, &Backing::Anonymous { length });
    let refused = create(LENGTH as u64 + 1);
    assert!(matches!(refused, Err(Error::Memory { .. })), "{refused:?}");
    let segment = create(LENGTH as u64).unwrap();
    writer.connect(Rank(1), SEGMENT).unwrap().write(10, b"hello").unwrap();
    writer.store_barrier(Rank(1)).unwrap();
    let mut found = [0; 5];
    segment.memory().read(10, &mut found).unwrap();
    assert_eq!(&found, b"hello");
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

/// Writes `length` bytes from user memory to the front of the segment by one chain of two transfers.
fn post(pair: &Pair, bytes: &[u8], offset: u64) -> Result<()> {
    let memory = UserMemory::of(bytes);
    let half = bytes.len() / 2;
    let transfer = |local, offset| {
        let remote = pair.remote.remote();
        Transfer { direction: Direction::Write, local, remote, offset }
    };
    let chain = vec![
        transfer(memory.part(0, half), offset),
        transfer(memory.part(half, bytes.len()), offset.saturating_add(half as u64)),
    ];
    let done = Arc::new(Completion::new());
    // SAFETY: `bytes` outlives the wait below.
    unsafe { pair.fabric.post(chain, &done) }?;
    pair.fabric.wait_for(&done)
}

#[test]
fn a_chain_fails_with_a_part_of_it_done_by_the_seed() {
    let run = |seed| {
        let pair = pair(FaultPlan { seed, dropped: 0.5, ..FaultPlan::default() });
        let mut reached = Vec::new();
        for round in 1..=40_u8 {
            let bytes = [round; 1000];
            let before = pair.found();
            let result = post(&pair, &bytes, 0);
            let found = pair.found();
            let moved = found.iter().take_while(|byte| **byte == round).count();
            assert_eq!(found[moved..], before[moved..], "bytes beyond what was moved");
            match result {
                Ok(()) => assert_eq!(moved, bytes.len()),
                Err(Error::System { .. }) => assert!((1..=bytes.len()).contains(&moved)),
                Err(other) => panic!("{other}"),
            }
            reached.push(moved);
        }
        let counts = pair.faulty.counts();
        assert_eq!(counts.chains, 40);
        assert!((5..=35).contains(&counts.failed_chains), "{counts:?}");
        reached
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn messages_by_dma_arrive_although_chains_fail() {
    const LENGTH: usize = 3_000_000;
    let modes = [Mode::RendezvousStaged, Mode::RendezvousHalfStaged, Mode::RendezvousDirect];
    let faulty: Vec<_> = (0_u64..)
        .zip(shm::within_process(2))
        .map(|(seed, fabric)| {
            let plan = FaultPlan { seed, dropped: 0.2, ..FaultPlan::default() };
            (Faulty::new(Arc::clone(fabric.back_end()), plan), fabric)
        })
        .collect();
    let settings = MessageSettings::default();
    let sides: Vec<_> = faulty
        .iter()
        .map(|(faulty, _)| {
            let fabric = Fabric::new(faulty.clone());
            let messenger = Messenger::open(&fabric, Port::FIRST, &settings).unwrap();
            (fabric, messenger)
        })
        .collect();
    let content = |round: usize| -> Vec<u8> { (0..LENGTH).map(|at| (at / 7 + round) as u8).collect() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (round, mode) in modes.into_iter().cycle().take(9).enumerate() {
                sides[0].1.send_by(mode, Rank(1), &content(round)).unwrap();
            }
        });
        let mut place = vec![0; LENGTH];
        for round in 0..9 {
            assert_eq!(sides[1].1.receive(Rank(0), &mut place).unwrap(), LENGTH);
            assert!(place == content(round), "message {round}");
            place.fill(0xee);
        }
    });
    let failed = faulty[0].0.counts().failed_chains;
    let repeated = sides[0].0.statistics().repeated_writes;
    assert!(failed > 10 && repeated >= failed, "{failed} chains failed, {repeated} writes were repeated");
}

#[test]
fn a_chain_out_of_bounds_is_refused_as_such_whatever_chance_says() {
    let pair = pair(FaultPlan { dropped: 1.0, ..FaultPlan::default() });
    for round in 0..20 {
        let result = post(&pair, &[7; 100], LENGTH as u64 - 99);
        assert!(matches!(result, Err(Error::OutOfBounds { .. })), "{round}: {result:?}");
    }
    assert_eq!(pair.found(), [0; LENGTH]);
    assert!(matches!(post(&pair, &[7; 100], 0), Err(Error::System { .. })));
}
