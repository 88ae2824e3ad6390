//! Collectives over networks, against what one process computes by itself: by messages, and on two levels.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "calls/data.rs"]
mod data;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use data::{affine, blocks, combined, given};
use proptest::prelude::*;
use svmio_collectives::executor::network::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, Choices, CollectAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm,
};
use svmio_collectives::executor::{
    Barrier, Elementwise, Error, Fabrics, GroupSettings, NetworkGroup, NetworkSettings, Operation,
    TwoLevelGroup,
};
use svmio_collectives::{Algorithm, Partition};
use svmio_transport::back_end::Prepared;
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::ofi::{self, OfiSettings};
use svmio_transport::sim::{Model, SimOptions, World};
use svmio_transport::{Fabric, JobSecret, Membership, Rank, SegmentId, shm};

const MOST: usize = 6;
const SPACE: u32 = 79;

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
    Gatherv {
        root: usize,
        lengths: Vec<usize>,
    },
    Scatterv {
        root: usize,
        lengths: Vec<usize>,
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
    /// What member `i` sends to member `j` has `lengths[(i + 2 * j) % MOST]` elements.
    Alltoallv {
        lengths: Vec<usize>,
    },
    Reduce {
        root: usize,
        length: usize,
        commutes: bool,
    },
    Allreduce {
        length: usize,
        commutes: bool,
    },
    ReduceScatter {
        lengths: Vec<usize>,
        commutes: bool,
    },
    Scan {
        length: usize,
    },
    Exscan {
        length: usize,
    },
}

/// Where the order of operands matters, or sums.
fn operation(commutes: bool) -> Box<dyn Operation> {
    if commutes {
        Box::new(Elementwise::<u64, _>::commutative(u64::wrapping_add))
    } else {
        Box::new(affine())
    }
}

fn sent_by(member: usize, size: usize, lengths: &[usize]) -> Vec<usize> {
    (0..size).map(|to| lengths[(member + 2 * to) % MOST]).collect()
}

fn sent_to(member: usize, size: usize, lengths: &[usize]) -> Vec<usize> {
    (0..size).map(|from| lengths[(from + 2 * member) % MOST]).collect()
}

/// What a member has after a call, by messages.
fn done(group: &mut NetworkGroup, call: &Call, number: usize) -> Result<Vec<u8>, Error> {
    let (own, size) = (group.member(), group.size());
    let give = |length| given(own, number, length);
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
        Call::Gatherv { root, lengths } => {
            let blocks = if own == *root { blocks(&lengths[..size]) } else { Vec::new() };
            let mut into = vec![0; blocks.last().map_or(0, |block| block.end)];
            group.gatherv(*root, &give(lengths[own]), &mut into, &blocks).map(|()| into)
        }
        Call::Scatterv { root, lengths } => {
            let mut into = vec![0; 8 * lengths[own]];
            let data = if own == *root { give(lengths[..size].iter().sum()) } else { Vec::new() };
            let blocks = if own == *root { blocks(&lengths[..size]) } else { Vec::new() };
            group.scatterv(*root, &data, &blocks, &mut into).map(|()| into)
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
        Call::Alltoallv { lengths } => {
            let (sent, received) =
                (blocks(&sent_by(own, size, lengths)), blocks(&sent_to(own, size, lengths)));
            let mut into = vec![0; received[size - 1].end];
            group.alltoallv(&give(sent[size - 1].end / 8), &sent, &mut into, &received).map(|()| into)
        }
        Call::Reduce { root, length, commutes } => {
            let mut data = give(*length);
            group.reduce(*root, &mut data, &*operation(*commutes)).map(|()| data)
        }
        Call::Allreduce { length, commutes } => {
            let mut data = give(*length);
            group.allreduce(&mut data, &*operation(*commutes)).map(|()| data)
        }
        Call::ReduceScatter { lengths, commutes } => {
            let counts: Vec<usize> = lengths[..size].iter().map(|length| 8 * length).collect();
            let mut into = vec![0; counts[own]];
            let data = give(lengths[..size].iter().sum());
            group.reduce_scatter(&data, &counts, &mut into, &*operation(*commutes)).map(|()| into)
        }
        Call::Scan { length } => {
            let mut data = give(*length);
            group.scan(&mut data, &*operation(false)).map(|()| data)
        }
        Call::Exscan { length } => {
            let mut data = give(*length);
            group.exscan(&mut data, &*operation(false)).map(|()| data)
        }
    }
}

/// The same on two levels, where it has them.
fn done_on_two_levels(group: &mut TwoLevelGroup, call: &Call, number: usize) -> Result<Vec<u8>, Error> {
    let (own, size) = (group.member(), group.size());
    let give = |length| given(own, number, length);
    match call {
        Call::Barrier => group.barrier().map(|()| Vec::new()),
        Call::Bcast { root, length } => {
            let mut data = if own == *root { give(*length) } else { vec![0; 8 * length] };
            group.bcast(*root, &mut data).map(|()| data)
        }
        Call::Allgather { length } => {
            let mut into = vec![0; 8 * length * size];
            group.allgather(&give(*length), &mut into).map(|()| into)
        }
        Call::Allgatherv { lengths } => {
            let mut parts: Vec<Vec<u8>> = lengths[..size].iter().map(|length| vec![0; 8 * length]).collect();
            parts[own] = give(lengths[own]);
            group
                .allgather_blocks(&mut parts.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())
                .map(|()| parts.concat())
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
        Call::Alltoall { length } => {
            let mut into = vec![0; 8 * length * size];
            group.alltoall(&give(length * size), &mut into).map(|()| into)
        }
        Call::Reduce { root, length, commutes } => {
            let mut data = give(*length);
            group.reduce(*root, &mut data, &*operation(*commutes)).map(|()| data)
        }
        Call::Allreduce { length, commutes } => {
            let mut data = give(*length);
            group.allreduce(&mut data, &*operation(*commutes)).map(|()| data)
        }
        Call::ReduceScatter { lengths, commutes } => {
            let counts: Vec<usize> = lengths[..size].iter().map(|length| 8 * length).collect();
            let mut into = vec![0; counts[own]];
            let data = give(lengths[..size].iter().sum());
            group.reduce_scatter(&data, &counts, &mut into, &*operation(*commutes)).map(|()| into)
        }
        other => done(group.flat(), other, number),
    }
}

/// The same by one process that has all data.
fn expected(own: usize, size: usize, call: &Call, number: usize) -> Vec<u8> {
    let all = |length| (0..size).map(|member| given(member, number, length)).collect::<Vec<_>>();
    let each = |lengths: &[usize]| {
        (0..size).map(|member| given(member, number, lengths[member])).collect::<Vec<_>>().concat()
    };
    match call {
        Call::Barrier => Vec::new(),
        Call::Bcast { root, length } => given(*root, number, *length),
        Call::Gather { root, .. } | Call::Gatherv { root, .. } if own != *root => Vec::new(),
        Call::Gather { length, .. } | Call::Allgather { length } => all(*length).concat(),
        Call::Gatherv { lengths, .. } | Call::Allgatherv { lengths } => each(lengths),
        Call::Scatter { root, length } => {
            given(*root, number, length * size)[own * 8 * length..][..8 * length].to_vec()
        }
        Call::Scatterv { root, lengths } => {
            given(*root, number, lengths[..size].iter().sum())[blocks(&lengths[..size])[own].clone()].to_vec()
        }
        Call::Alltoall { length } => {
            let parts =
                all(length * size).into_iter().map(|data| data[own * 8 * length..][..8 * length].to_vec());
            parts.collect::<Vec<_>>().concat()
        }
        Call::Alltoallv { lengths } => {
            let from = |member: usize| {
                let lengths = sent_by(member, size, lengths);
                given(member, number, lengths.iter().sum())[blocks(&lengths)[own].clone()].to_vec()
            };
            (0..size).map(from).collect::<Vec<_>>().concat()
        }
        Call::Reduce { root, length, .. } if own != *root => given(own, number, *length),
        Call::Reduce { length, commutes, .. } | Call::Allreduce { length, commutes } => {
            combined(&*operation(*commutes), &all(*length))
        }
        Call::ReduceScatter { lengths, commutes } => {
            let sum = combined(&*operation(*commutes), &all(lengths[..size].iter().sum()));
            sum[blocks(&lengths[..size])[own].clone()].to_vec()
        }
        Call::Scan { length } => combined(&*operation(false), &all(*length)[..=own]),
        Call::Exscan { length } if own == 0 => given(own, number, *length),
        Call::Exscan { length } => combined(&*operation(false), &all(*length)[..own]),
    }
}

fn call(size: usize) -> impl Strategy<Value = Call> {
    // Nothing, a word, less than a segment, several segments.
    let length = || prop_oneof![Just(0_usize), Just(1), 2_usize..10, 10_usize..70, 70_usize..2000];
    let root = move || 0..size;
    let lengths = move || prop::collection::vec(length(), MOST);
    let commutes = any::<bool>;
    prop_oneof![
        Just(Call::Barrier),
        (root(), length()).prop_map(|(root, length)| Call::Bcast { root, length }),
        (root(), length()).prop_map(|(root, length)| Call::Gather { root, length }),
        (root(), length()).prop_map(|(root, length)| Call::Scatter { root, length }),
        (root(), lengths()).prop_map(|(root, lengths)| Call::Gatherv { root, lengths }),
        (root(), lengths()).prop_map(|(root, lengths)| Call::Scatterv { root, lengths }),
        length().prop_map(|length| Call::Allgather { length }),
        lengths().prop_map(|lengths| Call::Allgatherv { lengths }),
        length().prop_map(|length| Call::Alltoall { length }),
        lengths().prop_map(|lengths| Call::Alltoallv { lengths }),
        (root(), length(), commutes()).prop_map(|(root, length, commutes)| Call::Reduce {
            root,
            length,
            commutes
        }),
        (length(), commutes()).prop_map(|(length, commutes)| Call::Allreduce { length, commutes }),
        (lengths(), commutes()).prop_map(|(lengths, commutes)| Call::ReduceScatter { lengths, commutes }),
        length().prop_map(|length| Call::Scan { length }),
        length().prop_map(|length| Call::Exscan { length }),
    ]
}

/// All algorithms, and the tuner's choice.
fn choices() -> impl Strategy<Value = Choices> {
    fn one_of<A: Copy + std::fmt::Debug + 'static>(all: &[A]) -> impl Strategy<Value = Option<A>> + use<A> {
        prop::sample::select(all.iter().copied().map(Some).chain([None]).collect::<Vec<_>>())
    }
    use AllreduceAlgorithm as Allreduce;
    let collect = || one_of(&[CollectAlgorithm::Binomial, CollectAlgorithm::Linear]);
    (
        one_of(&[BcastAlgorithm::Binomial, BcastAlgorithm::Pipelined, BcastAlgorithm::ScatterAllgather]),
        collect(),
        collect(),
        one_of(&[AllgatherAlgorithm::Bruck, AllgatherAlgorithm::Ring]),
        one_of(&[AlltoallAlgorithm::Bruck, AlltoallAlgorithm::Pairwise]),
        one_of(&[ReduceAlgorithm::Binomial, ReduceAlgorithm::Rabenseifner]),
        one_of(&[Allreduce::RecursiveDoubling, Allreduce::Rabenseifner, Allreduce::Ring]),
        one_of(&[ReduceScatterAlgorithm::Allreduce, ReduceScatterAlgorithm::Pairwise]),
    )
        .prop_map(|(bcast, gather, scatter, allgather, alltoall, reduce, allreduce, reduce_scatter)| {
            Choices { bcast, gather, scatter, allgather, alltoall, reduce, allreduce, reduce_scatter }
        })
}

/// Calls of a group of so many members, who they are not in the order of ranks.
fn plan(most: usize) -> impl Strategy<Value = (usize, Vec<Call>)> {
    (1..=most).prop_flat_map(|size| (Just(size), prop::collection::vec(call(size), 1..25)))
}

fn fresh_id() -> SegmentId {
    static GROUPS: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only other numbers for each group and its parts.
    SegmentId::new(SPACE, GROUPS.fetch_add(8, Ordering::Relaxed))
}

/// A rank with what it keeps from one group to the next.
struct Seat {
    fabrics: Fabrics,
    messenger: Arc<Messenger>,
}

impl Seat {
    fn new(fabrics: Fabrics) -> Self {
        let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
        let messenger = Arc::new(Messenger::open(fabrics.job(), Port::FIRST, &settings).unwrap());
        Self { fabrics, messenger }
    }

    fn of_jobs(fabrics: Vec<Fabric>) -> Vec<Self> {
        fabrics.iter().map(|fabric| Self::new(Fabrics::of_job(fabric))).collect()
    }
}

/// Runs the calls in all members of a group and compares what each has after each.
fn compare(seats: &[Seat], members: &[Rank], settings: &NetworkSettings, calls: &[Call]) {
    let id = fresh_id();
    on_all(seats, members, |seat| {
        let mut group =
            NetworkGroup::join(&seat.fabrics, &seat.messenger, members, id, settings.clone()).unwrap();
        for (number, call) in calls.iter().enumerate() {
            let found = done(&mut group, call, number).unwrap();
            let own = group.member();
            assert!(
                found == expected(own, members.len(), call, number),
                "call {number}, member {own}: {call:?}"
            );
        }
    });
}

fn compare_on_two_levels(seats: &[Seat], members: &[Rank], settings: &NetworkSettings, calls: &[Call]) {
    let id = fresh_id();
    on_all(seats, members, |seat| {
        let within = GroupSettings { slot: 512, ..GroupSettings::default() };
        let (fabrics, messenger) = (&seat.fabrics, &seat.messenger);
        let mut group =
            TwoLevelGroup::join(fabrics, messenger, members, id, within, settings.clone()).unwrap();
        for (number, call) in calls.iter().enumerate() {
            let found = done_on_two_levels(&mut group, call, number).unwrap();
            let own = group.member();
            assert!(
                found == expected(own, members.len(), call, number),
                "call {number}, member {own}: {call:?}"
            );
        }
    });
}

fn on_all(seats: &[Seat], members: &[Rank], body: impl Fn(&Seat) + Sync) {
    thread::scope(|scope| {
        for member in members {
            let (seat, body) = (&seats[member.index()], &body);
            scope.spawn(move || body(seat));
        }
    });
}

/// Ranks over the loopback interface, on the nodes of those names, with shared memory within each.
fn on_nodes(nodes: &[&str]) -> Vec<Seat> {
    let secret = JobSecret::random().unwrap();
    let settings = OfiSettings { address: "127.0.0.1".into(), ..OfiSettings::default() };
    let prepared: Vec<_> = nodes.iter().map(|_| ofi::prepare(&settings, &secret).unwrap()).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address()).collect();
    let names: Vec<String> = nodes.iter().map(|&node| node.to_owned()).collect();
    let join = |(rank, prepared): (u32, Box<dyn Prepared>)| {
        let membership = Arc::new(Membership::new(Rank(rank), names.clone()));
        Fabric::new(prepared.join(membership, addresses.clone()).unwrap())
    };
    let jobs: Vec<Fabric> = (0..nodes.len() as u32).zip(prepared).map(join).collect();
    thread::scope(|scope| {
        let seat =
            |job| scope.spawn(move || Seat::new(Fabrics::join(job, SegmentId::new(SPACE + 1, 0)).unwrap()));
        let seats: Vec<_> = jobs.iter().map(seat).collect();
        seats.into_iter().map(|seat| seat.join().unwrap()).collect()
    })
}

fn settings(choices: Choices) -> NetworkSettings {
    NetworkSettings { choices, segment: 512, ..NetworkSettings::default() }
}

fn backwards(size: usize) -> Vec<Rank> {
    (0..size as u32).rev().map(Rank).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn collectives_by_messages_give_what_one_process_computes((size, calls) in plan(MOST), choices in choices()) {
        thread_local! {
            static SEATS: Vec<Seat> = Seat::of_jobs(shm::within_process(MOST as u32));
        }
        SEATS.with(|seats| compare(seats, &backwards(size), &settings(choices), &calls));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_same_over_sockets((size, calls) in plan(4), choices in choices()) {
        thread_local! {
            static SEATS: Vec<Seat> = Seat::of_jobs(ofi::within_process(4, "").unwrap());
        }
        SEATS.with(|seats| compare(seats, &backwards(size), &settings(choices), &calls));
    }

    #[test]
    fn the_same_on_two_levels((size, calls) in plan(MOST), choices in choices(), is_turned in any::<bool>()) {
        thread_local! {
            static SEATS: Vec<Seat> = on_nodes(&["a", "a", "b", "c", "a", "c"]);
        }
        let mut members: Vec<Rank> = backwards(size);
        if is_turned {
            members.reverse();
        }
        SEATS.with(|seats| compare_on_two_levels(seats, &members, &settings(choices), &calls));
    }
}

/// Nobody leaves a barrier over both fabrics before the last has come, whatever the schedule.
#[test]
fn barriers_across_nodes_hold_every_rank_until_the_last_has_come() {
    let seats = on_nodes(&["a", "a", "b", "b", "c"]);
    let members: Vec<Rank> = (0..5).map(Rank).collect();
    let nodes = Partition::of_nodes(["a", "a", "b", "b", "c"]);
    for name in
        ["linear", "tree:2", "dissemination", "hsb:3,2", "nx:3", "nx2", "x1tree", "two-level:dissemination"]
    {
        let schedule = name.parse::<Algorithm>().unwrap().schedule_on(&nodes).unwrap();
        let (id, came) = (fresh_id(), AtomicU64::new(0));
        on_all(&seats, &members, |seat| {
            let mut barrier = Barrier::join_across(&seat.fabrics, &members, id, &schedule).unwrap();
            let own = u64::from(seat.fabrics.job().rank().0);
            for round in 0..10 {
                if round % 5 == own {
                    while came.load(Ordering::SeqCst) < round * 5 + 4 {
                        thread::yield_now();
                    }
                }
                came.fetch_add(1, Ordering::SeqCst);
                barrier.wait().unwrap();
                assert!(came.load(Ordering::SeqCst) >= 5 * (round + 1), "{name}: it left before all came");
            }
        });
    }
}

#[test]
fn measured_costs_are_the_same_for_all() {
    let seats = Seat::of_jobs(shm::within_process(3));
    let (members, id) = (backwards(3), fresh_id());
    let found = std::sync::Mutex::new(Vec::new());
    on_all(&seats, &members, |seat| {
        let mut group =
            NetworkGroup::join(&seat.fabrics, &seat.messenger, &members, id, NetworkSettings::default())
                .unwrap();
        let costs = group.measure_costs().unwrap();
        found.lock().unwrap().push(costs);
    });
    let found = found.into_inner().unwrap();
    assert!(found[0].latency > 0.0 && found[0].per_byte >= 0.0);
    assert!(found.iter().all(|costs| *costs == found[0]), "{found:?}");
}

#[test]
fn collectives_in_virtual_time_give_what_one_process_computes() {
    let lengths = vec![3, 0, 700, 1, 70, 9];
    let calls = [
        Call::Barrier,
        Call::Bcast { root: 1, length: 1500 },
        Call::Gather { root: 4, length: 20 },
        Call::Scatterv { root: 2, lengths: lengths.clone() },
        Call::Allgatherv { lengths: lengths.clone() },
        Call::Alltoall { length: 33 },
        Call::Allreduce { length: 900, commutes: false },
        Call::Allreduce { length: 900, commutes: true },
        Call::Reduce { root: 3, length: 5, commutes: false },
        Call::ReduceScatter { lengths, commutes: true },
        Call::Exscan { length: 10 },
    ];
    for model in ["sci-switch", "infiniband-hdr"] {
        let calls = calls.clone();
        let options = SimOptions::new(5, Model::named(model).unwrap());
        let report = World::new(options).run(move |fabric| {
            let seat = Seat::new(Fabrics::join(&fabric, SegmentId::new(SPACE + 1, 0)).unwrap());
            let (members, id) = (backwards(5), SegmentId::new(SPACE, 0));
            let settings = settings(Choices::default());
            let mut group =
                NetworkGroup::join(&seat.fabrics, &seat.messenger, &members, id, settings).unwrap();
            let own = group.member();
            let mut is_right = |(number, call): (usize, &Call)| {
                done(&mut group, call, number).unwrap() == expected(own, 5, call, number)
            };
            let are_right: Vec<bool> = calls.iter().enumerate().map(&mut is_right).collect();
            group.barrier().unwrap();
            are_right
        });
        for results in report.unwrap().results {
            assert_eq!(results, Some(vec![true; 11]), "{model}");
        }
    }
}

/// Whoever waits within a node learns that somebody is lost on another one.
#[test]
fn a_loss_on_another_node_ends_all_waits() {
    let seats = on_nodes(&["a", "a", "b", "b"]);
    let (members, id) = (backwards(4), fresh_id());
    on_all(&seats, &members, |seat| {
        let (fabrics, messenger) = (&seat.fabrics, &seat.messenger);
        let (within, between) = (GroupSettings::default(), NetworkSettings::default());
        let mut group = TwoLevelGroup::join(fabrics, messenger, &members, id, within, between).unwrap();
        group.barrier().unwrap();
        let lost = Rank(3);
        if fabrics.job().rank() == lost {
            for seat in &seats {
                seat.fabrics.job().membership().declare_lost(lost, "the test says so");
            }
            return;
        }
        let ended = group.allreduce(&mut [0; 8], &*operation(true));
        assert!(ended.is_err(), "rank {} has not noticed", fabrics.job().rank());
    });
}
