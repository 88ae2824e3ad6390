//! Collectives against what one process computes by itself: members are threads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod calls;

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use calls::{Call, Kind, MOST, affine, call};
use proptest::prelude::*;
use svmio_collectives::executor::{Error, Group, GroupSettings, Operation};
use svmio_transport::shm::ShmSettings;
use svmio_transport::{Fabric, Rank, SegmentId, shm};

const SPACE: u32 = 78;

/// Runs the calls in all members of a group and compares what each has after each.
fn compare(fabrics: &[Fabric], size: usize, settings: GroupSettings, calls: &[Call]) {
    static GROUPS: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only another number for each group.
    let id = SegmentId::new(SPACE, GROUPS.fetch_add(1, Ordering::Relaxed));
    // The members are not in the order of ranks, and not all ranks take part.
    let members: Vec<Rank> = (0..size as u32).rev().map(Rank).collect();
    thread::scope(|scope| {
        for fabric in &fabrics[..size] {
            let members = &members;
            scope.spawn(move || {
                let mut group = Group::join(fabric, members, id, settings).unwrap();
                calls::compare(&mut group, calls).unwrap();
            });
        }
    });
}

fn size_and_calls() -> impl Strategy<Value = (usize, Vec<Call>)> {
    (1..=MOST).prop_flat_map(|size| (Just(size), prop::collection::vec(call(size, 400), 1..40)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn collectives_give_what_one_process_computes(
        (size, calls) in size_and_calls(),
        slot in prop_oneof![Just(64_usize), Just(512), Just(1 << 16)],
        direct in prop_oneof![Just(usize::MAX), Just(256_usize)],
        copies in any::<bool>(),
        reduced_alone in prop_oneof![Just(0_usize), Just(8 << 10)],
    ) {
        thread_local! {
            static FABRICS: [Vec<Fabric>; 2] = [true, false].map(|copy_between_processes| {
                let settings = ShmSettings { copy_between_processes, ..ShmSettings::default() };
                shm::within_process_with(MOST as u32, &settings)
            });
        }
        let settings = GroupSettings { slot, direct, reduced_alone, ..GroupSettings::default() };
        FABRICS.with(|fabrics| compare(&fabrics[usize::from(copies)], size, settings, &calls));
    }
}

#[test]
fn roots_that_run_ahead_overwrite_nothing() {
    let fabrics = shm::within_process(3);
    for in_background in [false, true] {
        let calls: Vec<Call> = (0..2000)
            .map(|number| {
                let kind = match number % 7 {
                    0 => Kind::Scan { length: 3 },
                    1..=4 => Kind::Bcast { root: number / 500 % 3, length: 1 + number % 40 },
                    5 => Kind::Gather { root: 1, length: 20 },
                    _ => Kind::Reduce { root: 2, length: 2 },
                };
                Call { kind, in_place: false, in_background }
            })
            .collect();
        compare(&fabrics, 3, GroupSettings { slot: 512, ..GroupSettings::default() }, &calls);
    }
}

/// Enough calls that are alike for both ways to be tried, and one of them to be kept to.
#[test]
fn two_members_get_the_same_by_either_way() {
    let fabrics = shm::within_process(2);
    let settings = GroupSettings { slot: 512, direct: 2048, ..GroupSettings::default() };
    for root_of in [|_| 1, |call| call % 2, |call| call / 2 % 2] {
        let calls: Vec<Call> = (0..300)
            .map(|number| {
                let length = 256 + number % 256;
                let kind = match number % 6 {
                    0..=2 => Kind::Bcast { root: root_of(number), length },
                    3 => Kind::Allgather { length },
                    4 => {
                        let lengths = (0..MOST).map(|member| if member == number % 4 { 0 } else { length });
                        Kind::Allgatherv { lengths: lengths.collect() }
                    }
                    _ => Kind::Allreduce { length: number % 10 },
                };
                Call { kind, in_place: number % 4 == 0, in_background: number % 5 == 0 }
            })
            .collect();
        compare(&fabrics, 2, settings, &calls);
    }
}

#[test]
fn what_is_too_long_for_the_caches_comes_whole() {
    let fabrics = shm::within_process(3);
    let calls = [Kind::Bcast { root: 1, length: (9 << 17) + 5 }, Kind::Allgather { length: (3 << 17) + 5 }]
        .map(|kind| Call { kind, in_place: false, in_background: false });
    compare(&fabrics, 3, GroupSettings::default(), &calls);
}

/// More members than have their cards combined in one call of the operation.
#[test]
fn many_members_are_combined_in_their_order() {
    const MANY: usize = 34;
    let fabrics = shm::within_process(MANY as u32);
    for size in [17, 18, MANY] {
        let members: Vec<Rank> = (0..size as u32).map(Rank).collect();
        let id = SegmentId::new(SPACE + 1, size as u32);
        let vector = |member: usize, elements| -> Vec<u8> {
            (0..elements)
                .flat_map(|element| (0x1_0000_0003 * (member as u64 + 2) + element).to_ne_bytes())
                .collect()
        };
        thread::scope(|scope| {
            for (member, fabric) in fabrics[..size].iter().enumerate() {
                let members = &members;
                scope.spawn(move || {
                    let mut group = Group::join(fabric, members, id, GroupSettings::default()).unwrap();
                    for elements in [1, 7] {
                        let mut expected = vector(size - 1, elements);
                        for left in (0..size - 1).rev() {
                            affine().combine(&vector(left, elements), &mut expected);
                        }
                        let mut data = vector(member, elements);
                        group.allreduce(&mut data, &affine()).unwrap();
                        assert_eq!(data, expected, "allreduce, {size} members, {elements} elements");
                        let mut data = vector(member, elements);
                        group.reduce(size / 2, &mut data, &affine()).unwrap();
                        let reduced = if member == size / 2 { expected } else { vector(member, elements) };
                        assert_eq!(data, reduced, "reduce, {size} members, {elements} elements");
                    }
                });
            }
        });
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let fabrics = shm::within_process(1);
    let mut group =
        Group::join(&fabrics[0], &[Rank(0)], SegmentId::new(SPACE, 0), GroupSettings::default()).unwrap();
    assert!(matches!(group.allgather(&[1, 2], &mut [0]), Err(Error::Length { expected: 2, found: 1, .. })));
    assert!(matches!(group.bcast(1, &mut []), Err(Error::NoSuchMember { member: 1, size: 1 })));
    let refused = group.allreduce(&mut [0; 12], &affine());
    assert!(matches!(refused, Err(Error::Length { expected: 16, found: 12, .. })), "{refused:?}");
}
