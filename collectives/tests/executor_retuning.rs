//! Barriers that are changed for others while they are in use.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use svmio_collectives::executor::{Error, Fabrics, RetuningSettings, TunedBarrier, Tuning};
use svmio_collectives::profile::SurveySettings;
use svmio_collectives::{Algorithm, Schedule};
use svmio_transport::back_end::Backing;
use svmio_transport::faulty::{FaultPlan, Faulty};
use svmio_transport::{Fabric, LocalSegment, Rank, SegmentId, shm};

const SPACE: u32 = 81;

/// The first segment that a barrier takes after it was joined.
const FIRST_BUILT: u32 = 2;

const ALGORITHMS: [&str; 8] =
    ["linear", "tree:2", "dissemination", "hsb:3,2", "nx:3", "nx2", "x1tree", "two-level:2:dissemination"];

fn schedule(name: &str, size: u32) -> Schedule {
    name.parse::<Algorithm>().unwrap().schedule(size).unwrap()
}

/// The linear barrier, again and again: nobody would choose it.
fn poor(size: u32) -> Schedule {
    let steps = schedule("linear", size).descriptions();
    let poor = Schedule::new(size, (0..8).flat_map(|_| steps.clone())).unwrap();
    assert!(poor.is_barrier());
    poor
}

/// What takes little time and comes to conclusions soon.
fn hasty() -> RetuningSettings {
    let survey = SurveySettings { repetitions: 2, ..RetuningSettings::default().survey };
    RetuningSettings { every: 50, burst: 8, window: 5, windows: 2, share: 1.0, survey, ..Default::default() }
}

/// What never comes to a conclusion by itself.
fn content() -> RetuningSettings {
    RetuningSettings { factor: 1e9, ..hasty() }
}

fn join(fabric: &Fabric, schedule: &Schedule, predicted: f64, settings: RetuningSettings) -> TunedBarrier {
    let members: Vec<Rank> = (0..fabric.size()).map(Rank).collect();
    let tuning = Tuning { schedule: schedule.clone(), predicted, settings };
    TunedBarrier::join(&Fabrics::of_job(fabric), &members, SegmentId::new(SPACE, 0), tuning).unwrap()
}

/// What each of so many threads that are a job comes to.
fn each<T: Send>(size: u32, run: impl Fn(&Fabric) -> T + Sync) -> Vec<T> {
    each_on(&shm::within_process(size), run)
}

fn each_on<T: Send>(fabrics: &[Fabric], run: impl Fn(&Fabric) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let threads: Vec<_> = fabrics.iter().map(|fabric| scope.spawn(|| run(fabric))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Has the segment that a barrier is going to take, so that this member cannot join it.
fn in_the_way(fabric: &Fabric, number: u32) -> LocalSegment {
    fabric.create(SegmentId::new(SPACE, number), &Backing::Anonymous { length: 64 }).unwrap()
}

/// How far all ranks are: how many have come to, and left, any barrier.
#[derive(Default)]
struct Progress {
    came: AtomicU64,
    left: AtomicU64,
}

/// Ends this process should its thread panic: the other ranks wait for it, in a barrier that none of them can leave.
struct EndsAll;

impl Drop for EndsAll {
    fn drop(&mut self) {
        if thread::panicking() {
            // Past what the test has captured, and would lose.
            let told =
                b"a rank has failed and the others wait for it: run the test with --nocapture to see why\n";
            let _ = std::io::Write::write_all(&mut std::io::stderr(), told);
            std::process::abort();
        }
    }
}

impl Progress {
    /// A barrier, to which one of the ranks comes when all others are inside, and finds that none has left.
    fn hold(&self, barrier: &mut TunedBarrier, own: u32, round: u64) {
        let _others_wait = EndsAll;
        let size = barrier.size() as u64;
        if round % size == u64::from(own) {
            while self.came.load(Ordering::SeqCst) < round * size + size - 1 {
                thread::yield_now();
            }
            for _ in 0..5 {
                assert!(self.left.load(Ordering::SeqCst) <= round * size, "somebody left early");
                thread::yield_now();
            }
        }
        self.came.fetch_add(1, Ordering::SeqCst);
        barrier.wait().unwrap();
        assert!(self.came.load(Ordering::SeqCst) >= (round + 1) * size, "it left before all came");
        self.left.fetch_add(1, Ordering::SeqCst);
    }
}

/// After some barriers, another schedule, which a member may not be able to join.
#[derive(Debug, Clone)]
struct Change {
    after: u64,
    algorithm: &'static str,
    prevented_by: Option<u32>,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let prevented_by = prop::option::weighted(0.3, 0_u32..6);
    let change = (0_u64..9, prop::sample::select(&ALGORITHMS[..]), prevented_by);
    let change =
        change.prop_map(|(after, algorithm, prevented_by)| Change { after, algorithm, prevented_by });
    prop::collection::vec(change, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_rank_is_held_until_the_last_has_come_whenever_the_barrier_changes(
        size in 2_u32..7, changes in changes()
    ) {
        let progress = Progress::default();
        let prevented_by = |change: &Change| change.prevented_by.map(|member| member % size);
        let all = each(size, |fabric| {
            let own = fabric.rank().0;
            let prevented: Vec<_> = (FIRST_BUILT..)
                .zip(&changes)
                .filter(|(_, change)| prevented_by(change) == Some(own))
                .map(|(number, _)| in_the_way(fabric, number))
                .collect();
            let mut barrier = join(fabric, &schedule("linear", size), 1000.0, content());
            let (mut round, mut in_use) = (0, schedule("linear", size));
            for change in &changes {
                for _ in 0..change.after {
                    progress.hold(&mut barrier, own, round);
                    round += 1;
                }
                let wanted = schedule(change.algorithm, size);
                let has_switched = barrier.switch(&wanted, 1000.0).unwrap();
                assert_eq!(has_switched, change.prevented_by.is_none(), "{change:?}");
                let left = progress.left.load(Ordering::SeqCst);
                assert!(left >= round * u64::from(size), "somebody is still in the old one: {left} in {round}");
                if has_switched {
                    in_use = wanted;
                }
                assert_eq!(*barrier.schedule(), in_use);
            }
            for _ in 0..2 * size {
                progress.hold(&mut barrier, own, round);
                round += 1;
            }
            drop(prevented);
            barrier.retunings()
        });
        let failures = changes.iter().filter(|change| change.prevented_by.is_some()).count() as u64;
        for retunings in all {
            prop_assert_eq!((retunings.failures, retunings.attempts), (failures, 0));
            prop_assert_eq!(retunings.switches, changes.len() as u64 - failures);
        }
    }
}

#[test]
fn a_poor_barrier_is_left_for_a_better_one_by_all_at_once() {
    for size in [2, 4] {
        let all = each(size, |fabric| {
            let mut barrier = join(fabric, &poor(size), 1.0, hasty());
            let mut calls = 0_u64;
            while barrier.retunings().switches == 0 {
                assert!(calls < 50_000, "{:?}", barrier.retunings());
                barrier.wait().unwrap();
                calls += 1;
            }
            (calls, barrier.schedule().clone(), barrier.retunings())
        });
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        let (calls, chosen, retunings) = &all[0];
        assert!(*chosen != poor(size) && chosen.is_barrier());
        // Two windows of five bursts, each after fifty barriers: not before.
        assert!(*calls >= 500 && retunings.attempts >= 1, "{calls} {retunings:?}");
    }
}

#[test]
fn a_barrier_that_costs_what_is_expected_is_left_alone() {
    let progress = Progress::default();
    let all = each(3, |fabric| {
        let mut barrier = join(fabric, &schedule("linear", 3), 1000.0, content());
        for round in 0..1200 {
            progress.hold(&mut barrier, fabric.rank().0, round);
        }
        assert_eq!(*barrier.schedule(), schedule("linear", 3));
        barrier.retunings()
    });
    for retunings in all {
        assert_eq!((retunings.attempts, retunings.switches, retunings.failures), (0, 0, 0));
        assert!(retunings.cost.is_some_and(|cost| cost > 0.0));
    }
}

#[test]
fn what_drifts_waits_for_its_budget() {
    // Expected to cost next to nothing, but no time may be spent on it.
    let all = each(2, |fabric| {
        let settings = RetuningSettings { share: 0.0, ..hasty() };
        let mut barrier = join(fabric, &schedule("linear", 2), 1e-9, settings);
        for _ in 0..3000 {
            barrier.wait().unwrap();
        }
        barrier.retunings()
    });
    assert!(all.iter().all(|retunings| retunings.attempts == 0 && retunings.cost.is_some()), "{all:?}");
}

#[test]
fn where_the_machine_cannot_be_measured_all_keep_what_they_have() {
    let progress = Progress::default();
    let all = each(3, |fabric| {
        let own = fabric.rank().0;
        let in_the_way = (own == 1).then(|| in_the_way(fabric, FIRST_BUILT));
        let mut barrier = join(fabric, &poor(3), 1.0, content());
        assert!(!barrier.retune().unwrap());
        assert_eq!(*barrier.schedule(), poor(3));
        for round in 0..12 {
            progress.hold(&mut barrier, own, round);
        }
        drop(in_the_way);
        // The next time it can.
        let before = barrier.retunings();
        barrier.retune().unwrap();
        (before, barrier.retunings(), barrier.schedule().clone())
    });
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    let (before, after, _) = &all[0];
    assert_eq!((before.attempts, before.failures, before.switches), (1, 1, 0));
    assert_eq!((after.attempts, after.failures), (2, 1));
}

#[test]
fn a_fabric_that_maps_nothing_and_loses_writes_is_tuned_for_too() {
    let faulty = |fabric: Fabric| {
        let late_by = Duration::from_micros(50);
        let plan =
            FaultPlan { seed: u64::from(fabric.rank().0), dropped: 0.05, late: 0.1, repeated: 0.1, late_by };
        Fabric::new(Faulty::new(Arc::clone(fabric.back_end()), plan))
    };
    let fabrics: Vec<Fabric> = shm::within_process(3).into_iter().map(faulty).collect();
    let survey = SurveySettings { largest_message: 16, longest_burst: 2, repetitions: 1, ..hasty().survey };
    let settings = RetuningSettings { survey, burst: 4, ..content() };
    let progress = Progress::default();
    let all = each_on(&fabrics, |fabric| {
        let mut barrier = join(fabric, &poor(3), 1000.0, settings.clone());
        for round in 0..9 {
            progress.hold(&mut barrier, fabric.rank().0, round);
            if round % 3 == 2 {
                barrier.retune().unwrap();
            }
        }
        (barrier.retunings(), barrier.schedule().clone())
    });
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    assert_eq!((all[0].0.attempts, all[0].0.failures), (3, 0));
}

#[test]
fn a_member_that_is_lost_while_it_is_tuned_again_ends_that_for_all() {
    // A measurement takes long enough for the loss to come in the midst of them.
    let survey = SurveySettings { repetitions: 200, ..RetuningSettings::default().survey };
    let settings = RetuningSettings { survey, ..content() };
    for turns in [0, 300, 3000, 30_000] {
        let inside = AtomicU64::new(0);
        let fabrics = shm::within_process(3);
        thread::scope(|scope| {
            for fabric in &fabrics {
                let (inside, settings) = (&inside, settings.clone());
                scope.spawn(move || {
                    let mut barrier = join(fabric, &poor(3), 1000.0, settings);
                    barrier.wait().unwrap();
                    inside.fetch_add(1, Ordering::SeqCst);
                    let error = (0..1000).find_map(|_| barrier.retune().err()).unwrap();
                    let Error::Fabric(error) = error else { panic!("{error}") };
                    // The one that is lost to the others has lost one of them.
                    let lost = if fabric.rank() == Rank(2) { Rank(0) } else { Rank(2) };
                    assert_eq!(error.lost_peer(), Some(lost));
                });
            }
            while inside.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
            (0..turns).for_each(|_| thread::yield_now());
            for fabric in &fabrics {
                let lost = if fabric.rank() == Rank(2) { Rank(0) } else { Rank(2) };
                fabric.membership().declare_lost(lost, "it is told so");
            }
        });
    }
}

#[test]
fn settings_that_differ_or_make_no_sense_are_refused_by_all() {
    let refused = |fabric: &Fabric, settings| {
        let members = [Rank(0), Rank(1)];
        let tuning = Tuning { schedule: schedule("linear", 2), predicted: 1000.0, settings };
        let refused =
            TunedBarrier::join(&Fabrics::of_job(fabric), &members, SegmentId::new(SPACE, 0), tuning)
                .unwrap_err();
        refused.to_string()
    };
    for problem in each(2, |fabric| {
        refused(fabric, RetuningSettings { every: 10 + u64::from(fabric.rank().0), ..Default::default() })
    }) {
        assert!(problem.contains("settings"), "{problem}");
    }
    for problem in each(2, |fabric| refused(fabric, RetuningSettings { window: 0, ..Default::default() })) {
        assert!(problem.contains("from 1 on"), "{problem}");
    }
}

#[test]
fn a_member_alone_has_nothing_to_measure() {
    let all = each(1, |fabric| {
        let mut barrier = join(fabric, &schedule("linear", 1), 0.0, hasty());
        for _ in 0..5000 {
            barrier.wait().unwrap();
        }
        barrier.retune().unwrap();
        barrier.retunings()
    });
    assert_eq!(all[0].switches, 0);
}
