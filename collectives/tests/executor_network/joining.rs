//! Groups that one member cannot join: all others hear of it at once, and who it was.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use svmio_collectives::Algorithm;
use svmio_collectives::executor::{
    Barrier, Error, Fabrics, GroupSettings, NetworkGroup, NetworkSettings, TwoLevelGroup,
};
use svmio_transport::back_end::Backing;
use svmio_transport::faulty::{FaultPlan, Faulty};
use svmio_transport::{Fabric, Rank, SegmentId, shm};

use crate::seats::{Seat, fresh_id, on_all, on_nodes};

/// Below the time limit of joining, 30 s.
const SOON: Duration = Duration::from_secs(25);

/// Has all members join, of whom `failing` cannot, and looks what the others are told.
fn all_fail(
    seats: &[Seat],
    failing: Rank,
    reason: &str,
    join: impl Fn(&Seat, &[Rank], bool) -> Result<(), Error> + Sync,
) {
    let members: Vec<Rank> = (0..seats.len() as u32).map(Rank).collect();
    let begun = Instant::now();
    let outcomes = on_all(seats, &members, |seat| join(seat, &members, seat.fabrics.job().rank() == failing));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    for (rank, outcome) in members.iter().zip(outcomes) {
        let told = outcome.unwrap_err().to_string();
        let names = *rank == failing || told.contains(&format!("rank {failing}"));
        assert!(names && told.contains(reason), "rank {rank}: {told}");
    }
}

fn linear(size: usize) -> svmio_collectives::Schedule {
    "linear".parse::<Algorithm>().unwrap().schedule(size as u32).unwrap()
}

/// Most members of a linear barrier are connected to none but the first.
fn barrier_of_another_size(seats: &[Seat]) {
    let id = fresh_id();
    all_fail(seats, Rank(2), "a schedule for 7", |seat, members, fails| {
        let schedule = linear(if fails { 7 } else { members.len() });
        Barrier::join_across(&seat.fabrics, members, id, &schedule).map(|_| ())
    });
}

fn faulty(fabric: &Fabric, seed: u64) -> Fabric {
    let late_by = Duration::from_micros(50);
    let plan = FaultPlan { seed, dropped: 0.3, late: 0.2, repeated: 0.1, late_by };
    Fabric::new(Faulty::new(Arc::clone(fabric.back_end()), plan))
}

#[test]
fn a_barrier_that_one_member_cannot_join_none_waits_for() {
    barrier_of_another_size(&Seat::of_jobs(shm::within_process(5)));
    barrier_of_another_size(&on_nodes(&["a", "a", "b", "b", "c"]));
}

#[test]
fn nor_where_writes_are_lost() {
    let fabrics = shm::within_process(4);
    barrier_of_another_size(&Seat::of_jobs(fabrics.iter().map(|fabric| faulty(fabric, 3)).collect()));
}

#[test]
fn a_group_of_messages_that_one_member_cannot_join_none_waits_for() {
    let id = fresh_id();
    all_fail(
        &Seat::of_jobs(shm::within_process(4)),
        Rank(3),
        "segments without bytes",
        |seat, members, fails| {
            let segment = if fails { 0 } else { 512 };
            let settings = NetworkSettings { segment, ..NetworkSettings::default() };
            NetworkGroup::join(&seat.fabrics, &seat.messenger, members, id, settings).map(|_| ())
        },
    );
}

#[test]
fn of_two_levels_all_hear_of_what_fails_within_a_node_or_between() {
    let seats = on_nodes(&["a", "a", "b", "b", "c"]);
    // In the node of rank 1, between the first members of nodes, and of all.
    for (failing, part) in [(Rank(1), 1), (Rank(2), 2), (Rank(3), 0)] {
        let (id, kept) = (fresh_id(), Mutex::new(Vec::new()));
        // Who connects to it finds that it has another length.
        all_fail(&seats, failing, "segment", |seat, members, fails| {
            let fabrics = &seat.fabrics;
            let fabric = if part == 1 { fabrics.mapped().unwrap_or(fabrics.job()) } else { fabrics.job() };
            // Of a length that no group has.
            let in_the_way = fails.then(|| {
                let id = SegmentId::new(id.space, id.number + part);
                fabric.create(id, &Backing::Anonymous { length: 24 }).unwrap()
            });
            let (within, between) = (GroupSettings::default(), NetworkSettings::default());
            let joined = TwoLevelGroup::join(fabrics, &seat.messenger, members, id, within, between);
            kept.lock().unwrap().extend(in_the_way);
            joined.map(|_| ())
        });
    }
}

/// What a node's processes tell each other comes whole, whatever becomes of single writes.
#[test]
fn a_nodes_processes_find_each_other_over_a_fabric_that_tears_and_loses_writes() {
    for seed in 0..20 {
        let jobs = shm::within_process(3);
        let jobs: Vec<Fabric> = jobs.iter().map(|fabric| faulty(fabric, seed)).collect();
        std::thread::scope(|scope| {
            let join = |job| scope.spawn(move || Fabrics::join(job, SegmentId::new(90, 0)).unwrap());
            let threads: Vec<_> = jobs.iter().map(join).collect();
            let seats: Vec<_> = threads.into_iter().map(|thread| Seat::new(thread.join().unwrap())).collect();
            assert!(seats.iter().all(|seat| seat.fabrics.mapped().is_some()));
            let members: Vec<Rank> = (0..3).map(Rank).collect();
            on_all(&seats, &members, |seat| {
                let id = SegmentId::new(90, 1);
                let mut barrier = Barrier::join_across(&seat.fabrics, &members, id, &linear(3)).unwrap();
                barrier.wait().unwrap();
            });
        });
    }
}
