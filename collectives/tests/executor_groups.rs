//! Collectives against what one process computes by itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use proptest::prelude::*;
use svmio_collectives::executor::{Elementwise, Error, Group, GroupSettings, Operation};
use svmio_transport::shm::ShmSettings;
use svmio_transport::{Fabric, Rank, SegmentId, shm};

const SPACE: u32 = 78;

/// A collective with its arguments; lengths in elements of 8 bytes.
#[derive(Debug, Clone)]
enum Call {
    Barrier,
    Bcast {
        root: usize,
        length: usize,
    },
    Gather {
        root: usize,
        length: usize,
    },
    Scatter {
        root: usize,
        length: usize,
    },
    Allgather {
        length: usize,
    },
    Allgatherv {
        lengths: Vec<usize>,
    },
    Alltoall {
        length: usize,
    },
    Gatherv {
        root: usize,
        lengths: Vec<usize>,
    },
    Scatterv {
        root: usize,
        lengths: Vec<usize>,
    },
    /// What member `i` sends to member `j` has `lengths[(i + 2 * j) % MOST]` elements.
    Alltoallv {
        lengths: Vec<usize>,
    },
    Reduce {
        root: usize,
        length: usize,
    },
    Allreduce {
        length: usize,
    },
    ReduceScatter {
        lengths: Vec<usize>,
    },
    Scan {
        length: usize,
    },
    Exscan {
        length: usize,
    },
}

/// Affine functions x ↦ ax + b modulo 2³², to be put into each other: associative, and their order matters.
fn affine() -> impl Operation {
    Elementwise::<u64, _>::ordered(|first, then| {
        let parts = |function: u64| (function as u32, (function >> 32) as u32);
        let ((a, b), (c, d)) = (parts(first), parts(then));
        let scale = c.wrapping_mul(a);
        let shift = c.wrapping_mul(b).wrapping_add(d);
        u64::from(scale) | u64::from(shift) << 32
    })
}

fn combined(operation: &dyn Operation, data: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = data[0].clone();
    for data in &data[1..] {
        let mut right = data.clone();
        operation.combine(&sum, &mut right);
        sum = right;
    }
    sum
}

/// What a member gives to the call of that number.
fn given(member: usize, number: usize, length: usize) -> Vec<u8> {
    let mut seed = fastrand::Rng::with_seed((member * 1_000_003 + number) as u64);
    (0..8 * length).map(|_| seed.u8(..)).collect()
}

fn blocks(lengths: &[usize]) -> Vec<Range<usize>> {
    let begins = lengths.iter().scan(0, |end, length| {
        *end += 8 * length;
        Some(*end - 8 * length..*end)
    });
    begins.collect()
}

/// How much a member sends to each, in a call of alltoallv.
fn sent_by(member: usize, size: usize, lengths: &[usize]) -> Vec<usize> {
    (0..size).map(|to| lengths[(member + 2 * to) % MOST]).collect()
}

/// How much a member gets from each.
fn sent_to(member: usize, size: usize, lengths: &[usize]) -> Vec<usize> {
    (0..size).map(|from| lengths[(from + 2 * member) % MOST]).collect()
}

/// What a member has after a call, by the engine.
fn done(group: &mut Group, call: &Call, number: usize) -> Result<Vec<u8>, Error> {
    let (own, size) = (group.member(), group.size());
    let give = |length| given(own, number, length);
    let operation = affine();
    match call {
        Call::Barrier => group.barrier().map(|()| Vec::new()),
        Call::Bcast { root, length } => {
            let mut data = if own == *root { give(*length) } else { vec![0; 8 * length] };
            group.bcast(*root, &mut data).map(|()| data)
        }
        Call::Gather { root, length } => {
            let mut into = vec![0; if own == *root { 8 * length * size } else { 0 }];
            group.gather(*root, &give(*length), &mut into).map(|()| into)
        }
        Call::Scatter { root, length } => {
            let mut into = vec![0; 8 * length];
            let data = if own == *root { give(length * size) } else { Vec::new() };
            group.scatter(*root, &data, &mut into).map(|()| into)
        }
        Call::Allgather { length } => {
            let mut into = vec![0; 8 * length * size];
            group.allgather(&give(*length), &mut into).map(|()| into)
        }
        Call::Allgatherv { lengths } => {
            let blocks = blocks(&lengths[..size]);
            let mut data = vec![0; blocks[size - 1].end];
            data[blocks[own].clone()].copy_from_slice(&give(lengths[own]));
            group.allgatherv(&mut data, &blocks).map(|()| data)
        }
        Call::Alltoall { length } => {
            let mut into = vec![0; 8 * length * size];
            group.alltoall(&give(length * size), &mut into).map(|()| into)
        }
        Call::Gatherv { root, lengths } => {
            let blocks = blocks(&lengths[..size]);
            let mut into = vec![0; if own == *root { blocks[size - 1].end } else { 0 }];
            group.gatherv(*root, &give(lengths[own]), &mut into, &blocks).map(|()| into)
        }
        Call::Scatterv { root, lengths } => {
            let mut into = vec![0; 8 * lengths[own]];
            let data = if own == *root { give(lengths[..size].iter().sum()) } else { Vec::new() };
            group.scatterv(*root, &data, &blocks(&lengths[..size]), &mut into).map(|()| into)
        }
        Call::Alltoallv { lengths } => {
            let (sent, received) =
                (blocks(&sent_by(own, size, lengths)), blocks(&sent_to(own, size, lengths)));
            let mut into = vec![0; received[size - 1].end];
            group.alltoallv(&give(sent[size - 1].end / 8), &sent, &mut into, &received).map(|()| into)
        }
        Call::Reduce { root, length } => {
            let mut data = give(*length);
            group.reduce(*root, &mut data, &operation).map(|()| data)
        }
        Call::Allreduce { length } => {
            let mut data = give(*length);
            group.allreduce(&mut data, &operation).map(|()| data)
        }
        Call::ReduceScatter { lengths } => {
            let counts: Vec<usize> = lengths[..size].iter().map(|length| 8 * length).collect();
            let mut into = vec![0; counts[own]];
            let data = give(lengths[..size].iter().sum());
            group.reduce_scatter(&data, &counts, &mut into, &operation).map(|()| into)
        }
        Call::Scan { length } => {
            let mut data = give(*length);
            group.scan(&mut data, &operation).map(|()| data)
        }
        Call::Exscan { length } => {
            let mut data = give(*length);
            group.exscan(&mut data, &operation).map(|()| data)
        }
    }
}

/// The same by one process that has all data.
fn expected(own: usize, size: usize, call: &Call, number: usize) -> Vec<u8> {
    let all = |length| (0..size).map(|member| given(member, number, length)).collect::<Vec<_>>();
    let operation = affine();
    match call {
        Call::Barrier => Vec::new(),
        Call::Bcast { root, length } => given(*root, number, *length),
        Call::Gather { root, .. } if own != *root => Vec::new(),
        Call::Gather { length, .. } | Call::Allgather { length } => all(*length).concat(),
        Call::Scatter { root, length } => {
            given(*root, number, length * size)[own * 8 * length..][..8 * length].to_vec()
        }
        Call::Allgatherv { lengths } => {
            let all = (0..size).map(|member| given(member, number, lengths[member]));
            all.collect::<Vec<_>>().concat()
        }
        Call::Alltoall { length } => {
            let parts =
                all(length * size).into_iter().map(|data| data[own * 8 * length..][..8 * length].to_vec());
            parts.collect::<Vec<_>>().concat()
        }
        Call::Gatherv { root, .. } if own != *root => Vec::new(),
        Call::Gatherv { lengths, .. } => {
            let all = (0..size).map(|member| given(member, number, lengths[member]));
            all.collect::<Vec<_>>().concat()
        }
        Call::Scatterv { root, lengths } => {
            given(*root, number, lengths[..size].iter().sum())[blocks(&lengths[..size])[own].clone()].to_vec()
        }
        Call::Alltoallv { lengths } => {
            let from = |member: usize| {
                let lengths = sent_by(member, size, lengths);
                given(member, number, lengths.iter().sum())[blocks(&lengths)[own].clone()].to_vec()
            };
            (0..size).map(from).collect::<Vec<_>>().concat()
        }
        Call::Reduce { root, length } if own != *root => given(own, number, *length),
        Call::Reduce { length, .. } | Call::Allreduce { length } => combined(&operation, &all(*length)),
        Call::ReduceScatter { lengths } => {
            let sum = combined(&operation, &all(lengths[..size].iter().sum()));
            sum[blocks(&lengths[..size])[own].clone()].to_vec()
        }
        Call::Scan { length } => combined(&operation, &all(*length)[..=own]),
        Call::Exscan { length } if own == 0 => given(own, number, *length),
        Call::Exscan { length } => combined(&operation, &all(*length)[..own]),
    }
}

const MOST: usize = 6;

fn call() -> impl Strategy<Value = Call> {
    // Nothing, a word, what fits a card and just does not, a slot, several slots.
    let length = || prop_oneof![Just(0_usize), Just(1), 6_usize..10, 10_usize..70, 70_usize..400];
    let root = || 0..MOST;
    let lengths = || prop::collection::vec(length(), MOST);
    prop_oneof![
        Just(Call::Barrier),
        (root(), length()).prop_map(|(root, length)| Call::Bcast { root, length }),
        (root(), length()).prop_map(|(root, length)| Call::Gather { root, length }),
        (root(), length()).prop_map(|(root, length)| Call::Scatter { root, length }),
        length().prop_map(|length| Call::Allgather { length }),
        lengths().prop_map(|lengths| Call::Allgatherv { lengths }),
        length().prop_map(|length| Call::Alltoall { length }),
        (root(), lengths()).prop_map(|(root, lengths)| Call::Gatherv { root, lengths }),
        (root(), lengths()).prop_map(|(root, lengths)| Call::Scatterv { root, lengths }),
        lengths().prop_map(|lengths| Call::Alltoallv { lengths }),
        (root(), length()).prop_map(|(root, length)| Call::Reduce { root, length }),
        length().prop_map(|length| Call::Allreduce { length }),
        lengths().prop_map(|lengths| Call::ReduceScatter { lengths }),
        length().prop_map(|length| Call::Scan { length }),
        length().prop_map(|length| Call::Exscan { length }),
    ]
}

fn with_root(call: Call, size: usize) -> Call {
    match call {
        Call::Bcast { root, length } => Call::Bcast { root: root % size, length },
        Call::Gather { root, length } => Call::Gather { root: root % size, length },
        Call::Scatter { root, length } => Call::Scatter { root: root % size, length },
        Call::Reduce { root, length } => Call::Reduce { root: root % size, length },
        Call::Gatherv { root, lengths } => Call::Gatherv { root: root % size, lengths },
        Call::Scatterv { root, lengths } => Call::Scatterv { root: root % size, lengths },
        other => other,
    }
}

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
                for (number, call) in calls.iter().enumerate() {
                    let found = done(&mut group, call, number).unwrap();
                    let expected = expected(group.member(), size, call, number);
                    assert!(
                        found == expected,
                        "call {number}, member {} of {size}: {call:?}",
                        group.member()
                    );
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn collectives_give_what_one_process_computes(
        size in 1..=MOST,
        slot in prop_oneof![Just(64_usize), Just(512), Just(1 << 16)],
        direct in prop_oneof![Just(usize::MAX), Just(256_usize)],
        copies in any::<bool>(),
        reduced_alone in prop_oneof![Just(0_usize), Just(8 << 10)],
        calls in prop::collection::vec(call(), 1..40),
    ) {
        thread_local! {
            static FABRICS: [Vec<Fabric>; 2] = [true, false].map(|copy_between_processes| {
                let settings = ShmSettings { copy_between_processes, ..ShmSettings::default() };
                shm::within_process_with(MOST as u32, &settings)
            });
        }
        let settings = GroupSettings { slot, direct, reduced_alone, ..GroupSettings::default() };
        let calls: Vec<Call> = calls.into_iter().map(|call| with_root(call, size)).collect();
        FABRICS.with(|fabrics| compare(&fabrics[usize::from(copies)], size, settings, &calls));
    }
}

#[test]
fn roots_that_run_ahead_overwrite_nothing() {
    let fabrics = shm::within_process(3);
    let calls: Vec<Call> = (0..2000)
        .map(|number| match number % 7 {
            0 => Call::Scan { length: 3 },
            1..=4 => Call::Bcast { root: number / 500 % 3, length: 1 + number % 40 },
            5 => Call::Gather { root: 1, length: 20 },
            _ => Call::Reduce { root: 2, length: 2 },
        })
        .collect();
    compare(&fabrics, 3, GroupSettings { slot: 512, ..GroupSettings::default() }, &calls);
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
