//! Every algorithm's schedule, executed: nobody leaves before the last has come; losses end waits.
//!
//! With `SVMIO_FULL=1` (`cargo xtask soak`) by 1 to 64 ranks each, and many at random by up to 150; without, by as many
//! as take some seconds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod any_algorithm;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use any_algorithm::any_algorithm;
use proptest::prelude::*;
use svmio_collectives::executor::{Barrier, Error, Group, GroupSettings};
use svmio_collectives::{Algorithm, Schedule, Signal};
use svmio_transport::faulty::{FaultPlan, Faulty};
use svmio_transport::{Fabric, Rank, SegmentId, shm};

const ALGORITHMS: [&str; 15] = [
    "linear",
    "tree:2",
    "tree:4",
    "dissemination",
    "hsb:3,2",
    "hsb",
    "nx:2",
    "nx:3",
    "nx:6",
    "nx",
    "nx2:3",
    "nx2",
    "x1tree",
    "two-level:3:dissemination",
    "two-level:2:x1tree",
];

const SPACE: u32 = 77;

/// What all ranks do, one after the other or side by side.
trait Hold: Send {
    fn hold(&mut self) -> Result<(), Error>;
}

impl Hold for Barrier {
    fn hold(&mut self) -> Result<(), Error> {
        self.wait()
    }
}

impl Hold for Group {
    fn hold(&mut self) -> Result<(), Error> {
        self.barrier()
    }
}

/// How far all ranks are: how many have come to, and left, any barrier.
#[derive(Default)]
struct Progress {
    came: AtomicU64,
    left: AtomicU64,
}

/// Ends this process should its thread panic: the other ranks wait for it, in a barrier that none of them can leave.
struct EndsAll<'w> {
    /// What they are in.
    what: &'w str,
}

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // Past what the test has captured, and would lose.
            let told = format!(
                "a rank has failed in {}, and the others wait for it: run the test with --nocapture to see why\n",
                self.what
            );
            let _ = std::io::Write::write_all(&mut std::io::stderr(), told.as_bytes());
            std::process::abort();
        }
    }
}

/// Runs barriers in which each rank is late in turn: it comes when all others are inside, and finds that none has left.
fn hold_all(what: &str, fabrics: &[Fabric], join: impl Fn(&Fabric, &[Rank]) -> Box<dyn Hold> + Sync) {
    let members: Vec<Rank> = (0..fabrics.len() as u32).map(Rank).collect();
    let size = fabrics.len() as u64;
    let progress = Progress::default();
    thread::scope(|scope| {
        for fabric in fabrics {
            let (members, join, progress) = (&members, &join, &progress);
            scope.spawn(move || {
                let _others_wait = EndsAll { what };
                let mut barrier = join(fabric, members);
                for round in 0..2 * size {
                    if round % size == u64::from(fabric.rank().0) {
                        while progress.came.load(Ordering::SeqCst) < round * size + size - 1 {
                            thread::yield_now();
                        }
                        for _ in 0..10 {
                            // The others' last exchange is over: none of them left this one.
                            assert!(
                                progress.left.load(Ordering::SeqCst) <= round * size,
                                "somebody left early"
                            );
                            thread::yield_now();
                        }
                    }
                    progress.came.fetch_add(1, Ordering::SeqCst);
                    barrier.hold().unwrap();
                    assert!(
                        progress.came.load(Ordering::SeqCst) >= (round + 1) * size,
                        "it left before all came"
                    );
                    progress.left.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
}

/// The same fabric, with a tenth to a fifth of all writes lost, late or repeated.
fn faulty(fabric: &Fabric) -> Fabric {
    let late_by = Duration::from_micros(50);
    let plan =
        FaultPlan { seed: u64::from(fabric.rank().0), dropped: 0.1, late: 0.2, repeated: 0.1, late_by };
    Fabric::new(Faulty::new(Arc::clone(fabric.back_end()), plan))
}

fn is_full_run() -> bool {
    std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1")
}

/// Of how many ranks groups are.
fn sizes() -> Vec<u32> {
    match is_full_run() {
        true => (1..=64).collect(),
        false => (1..=12).chain([16, 33]).collect(),
    }
}

/// All of them, with their names, and segments of their own.
fn schedules(size: u32) -> impl Iterator<Item = (&'static str, SegmentId, Schedule)> {
    ALGORITHMS.into_iter().zip(0..).map(move |(name, number)| {
        let schedule = name.parse::<Algorithm>().unwrap().schedule(size).unwrap();
        assert!(schedule.is_barrier(), "{name} for {size}");
        (name, SegmentId::new(SPACE, number), schedule)
    })
}

#[test]
fn every_schedule_holds_every_rank_until_the_last_has_come() {
    for size in sizes() {
        let fabrics = shm::within_process(size);
        for (name, id, schedule) in schedules(size) {
            hold_all(name, &fabrics, |fabric, members| {
                Box::new(Barrier::join(fabric, members, id, &schedule).unwrap())
            });
        }
    }
}

/// Of how many ranks groups at random are at most: what they cost grows with the square.
fn most() -> u32 {
    if is_full_run() { 150 } else { 40 }
}

proptest! {
    // Those that fail end this process: there is nothing to be made smaller.
    #![proptest_config(ProptestConfig { cases: if is_full_run() { 300 } else { 6 }, ..ProptestConfig::default() })]

    #[test]
    fn any_schedule_holds_every_rank_until_the_last_has_come(algorithm in any_algorithm(), size in 1..=most()) {
        let (schedule, id) = (algorithm.schedule(size).unwrap(), SegmentId::new(SPACE, 0));
        hold_all(&format!("{algorithm} of {size}"), &shm::within_process(size), |fabric, members| {
            Box::new(Barrier::join(fabric, members, id, &schedule).unwrap())
        });
    }
}

#[test]
fn a_group_holds_every_rank_until_the_last_has_come() {
    for size in sizes() {
        let fabrics = shm::within_process(size);
        let id = SegmentId::new(SPACE, 0);
        hold_all("a group", &fabrics, |fabric, members| {
            Box::new(Group::join(fabric, members, id, GroupSettings::default()).unwrap())
        });
    }
}

#[test]
fn every_schedule_holds_where_writes_are_lost_late_and_repeated() {
    for size in [2, 3, 5] {
        let fabrics: Vec<Fabric> =
            shm::within_process(size).into_iter().map(|fabric| faulty(&fabric)).collect();
        for (name, id, schedule) in schedules(size) {
            hold_all(name, &fabrics, |fabric, members| {
                Box::new(Barrier::join(fabric, members, id, &schedule).unwrap())
            });
        }
    }
}

#[test]
fn who_signals_and_who_is_elsewhere_at_the_same_time_do_not_disturb_each_other() {
    // All, the even and the odd, and pairs of neighbours: nested and disjoint.
    let fabrics = shm::within_process(6);
    thread::scope(|scope| {
        for fabric in &fabrics {
            scope.spawn(move || {
                let own = fabric.rank().0;
                let groups = [
                    (0..6).collect::<Vec<u32>>(),
                    (own % 2..6).step_by(2).collect(),
                    vec![own / 2 * 2, own / 2 * 2 + 1],
                ];
                let join = |(number, group): (u32, &Vec<u32>)| {
                    let members: Vec<Rank> = group.iter().copied().map(Rank).collect();
                    let schedule = Algorithm::Dissemination.schedule(members.len() as u32).unwrap();
                    let barrier =
                        Barrier::join(fabric, &members, SegmentId::new(SPACE, 2 * number), &schedule)
                            .unwrap();
                    let id = SegmentId::new(SPACE, 2 * number + 1);
                    let group = Group::join(fabric, &members, id, GroupSettings::default()).unwrap();
                    (barrier, group, members)
                };
                let mut joined: Vec<_> = (0..).zip(&groups).map(join).collect();
                for round in 0..100_u64 {
                    for (barrier, group, members) in &mut joined {
                        let mut seen = vec![0; 8 * members.len()];
                        group.allgather(&(round * 10 + u64::from(own)).to_ne_bytes(), &mut seen).unwrap();
                        for (member, seen) in members.iter().zip(seen.chunks(8)) {
                            assert_eq!(seen, (round * 10 + u64::from(member.0)).to_ne_bytes());
                        }
                        barrier.wait().unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn a_lost_member_ends_the_wait_of_all_others() {
    for is_mapped in [true, false] {
        let fabrics: Vec<Fabric> = shm::within_process(3);
        let fabrics: Vec<Fabric> = fabrics
            .into_iter()
            .map(|fabric| match is_mapped {
                true => fabric,
                false => faulty(&fabric),
            })
            .collect();
        let members: Vec<Rank> = (0..3).map(Rank).collect();
        // Rank 1 awaits rank 0 alone, which awaits the lost one.
        let schedule =
            Schedule::new(3, [vec![Signal::new(2, 0)], vec![Signal::new(0, 1)], vec![Signal::new(1, 2)]])
                .unwrap();
        let all_joined = std::sync::Barrier::new(3);
        thread::scope(|scope| {
            for fabric in &fabrics {
                let (members, schedule, all_joined) = (&members, &schedule, &all_joined);
                scope.spawn(move || {
                    let mut barrier =
                        Barrier::join(fabric, members, SegmentId::new(SPACE, 0), schedule).unwrap();
                    let mut group = is_mapped.then(|| {
                        Group::join(fabric, members, SegmentId::new(SPACE, 1), GroupSettings::default())
                            .unwrap()
                    });
                    all_joined.wait();
                    if fabric.rank() == Rank(2) {
                        return;
                    }
                    thread::scope(|scope| {
                        scope.spawn(|| fabric.membership().declare_lost(Rank(2), "it is told so"));
                        let lost = |error: Error| match error {
                            Error::Fabric(error) => error.lost_peer(),
                            _ => None,
                        };
                        assert_eq!(lost(barrier.wait().unwrap_err()), Some(Rank(2)));
                        if let Some(group) = &mut group {
                            assert_eq!(lost(group.barrier().unwrap_err()), Some(Rank(2)));
                        }
                    });
                });
            }
        });
    }
}

#[test]
fn what_is_no_group_is_refused() {
    let fabrics = shm::within_process(1);
    let (fabric, id) = (&fabrics[0], SegmentId::new(SPACE, 0));
    for members in [&[Rank(0), Rank(0)][..], &[Rank(1)]] {
        let refused = Group::join(fabric, members, id, GroupSettings::default()).unwrap_err();
        assert!(matches!(refused, Error::Members { .. }), "{refused}");
    }
    let schedule = Algorithm::Linear.schedule(2).unwrap();
    let refused = Barrier::join(fabric, &[Rank(0)], id, &schedule).unwrap_err();
    assert!(refused.to_string().contains("a schedule for 2"), "{refused}");
}
