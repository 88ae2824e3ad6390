//! Collectives over networks, against what one process computes by itself: by messages, and on two levels.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod background;
mod calls;
mod channels;
mod coming_and_going;
mod counting;
#[path = "../calls/data.rs"]
mod data;
#[path = "../../src/executor/failing.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod failing;
mod joining;
mod leaving;
mod lending;
mod over_channels;
mod refusing;
mod seats;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use calls::{Call, MOST, choices, done, done_on_two_levels, expected, operation, plan};
use proptest::prelude::*;
use seats::{SPACE, Seat, fresh_id, on_all, on_nodes};
use svmio_collectives::executor::network::{Choices, MessageCosts};
use svmio_collectives::executor::{
    Barrier, Fabrics, GroupSettings, NetworkGroup, NetworkSettings, TwoLevelGroup,
};
use svmio_collectives::{Algorithm, Partition};
use svmio_transport::sim::{Model, SimOptions, World};
use svmio_transport::{Rank, SegmentId, ofi, shm};

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

fn settings(choices: Choices) -> NetworkSettings {
    NetworkSettings { choices, segment: 512, ..NetworkSettings::default() }
}

/// How much a first member keeps for others: all that there is, or hardly anything, so that it takes many rounds.
fn held() -> impl Strategy<Value = usize> {
    prop_oneof![Just(NetworkSettings::default().held), 0_usize..100, 100_usize..2000]
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
    fn the_same_on_two_levels(
        (size, calls) in plan(MOST),
        choices in choices(),
        is_turned in any::<bool>(),
        held in held(),
    ) {
        thread_local! {
            static SEATS: Vec<Seat> = on_nodes(&["a", "a", "b", "c", "a", "c"]);
        }
        let mut members: Vec<Rank> = backwards(size);
        if is_turned {
            members.reverse();
        }
        let settings = NetworkSettings { held, ..settings(choices) };
        SEATS.with(|seats| compare_on_two_levels(seats, &members, &settings, &calls));
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
        let (id, came, left) = (fresh_id(), AtomicU64::new(0), AtomicU64::new(0));
        on_all(&seats, &members, |seat| {
            let mut barrier = Barrier::join_across(&seat.fabrics, &members, id, &schedule).unwrap();
            let own = u64::from(seat.fabrics.job().rank().0);
            for round in 0..10 {
                if round % 5 == own {
                    while came.load(Ordering::SeqCst) < round * 5 + 4 {
                        thread::yield_now();
                    }
                    // Many times what a signal takes from node to node.
                    let since = Instant::now();
                    while since.elapsed() < Duration::from_millis(3) {
                        assert!(left.load(Ordering::SeqCst) <= round * 5, "{name}: somebody left early");
                        thread::yield_now();
                    }
                }
                came.fetch_add(1, Ordering::SeqCst);
                barrier.wait().unwrap();
                assert!(came.load(Ordering::SeqCst) >= 5 * (round + 1), "{name}: it left before all came");
                left.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
}

#[test]
fn on_two_levels_all_learn_what_messages_between_nodes_cost() {
    let seats = seats::on_nodes(&["a", "b", "a", "b", "a"]);
    let (members, id, within) = (backwards(5), fresh_id(), GroupSettings::default());
    let known = MessageCosts { latency: 1.5, per_short_byte: 0.5, per_byte: 2.5, per_copied_byte: 3.5 };
    let found = on_all(&seats, &members, |seat| {
        let (fabrics, messenger) = (&seat.fabrics, &seat.messenger);
        let between = NetworkSettings::default();
        let mut group = TwoLevelGroup::join(fabrics, messenger, &members, id, within, between).unwrap();
        let mut data = vec![seat.fabrics.job().rank().0 as u8; 3000];
        let learned = [None, Some(known)].map(|known| {
            let costs = group.learn_costs(known).unwrap().expect("there are two nodes");
            group.bcast(2, &mut data).unwrap();
            costs
        });
        (learned, data)
    });
    let ([measured, told], data) = &found[0];
    assert!(*measured != known && measured.latency > 0.0 && measured.per_copied_byte > 0.0, "{measured:?}");
    assert!(*told == known && *data == vec![members[2].0 as u8; 3000]);
    assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
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
        let costs = group.learn_costs(None).unwrap();
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
    let all_have_left = std::sync::Barrier::new(4);
    on_all(&seats, &members, |seat| {
        let (fabrics, messenger) = (&seat.fabrics, &seat.messenger);
        messenger.watch(&members);
        let (within, between) = (GroupSettings::default(), NetworkSettings::default());
        let mut group = TwoLevelGroup::join(fabrics, messenger, &members, id, within, between).unwrap();
        group.barrier().unwrap();
        all_have_left.wait();
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
