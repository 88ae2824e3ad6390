//! A member whose fabric fails once, wherever the tuning is at that time: nobody waits for it.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use svmio_transport::back_end::BackEnd;
use svmio_transport::{Fabric, Rank, SegmentId, shm};

use super::{Fabrics, RetuningSettings, TunedBarrier, Tuning};
use crate::algorithm::Algorithm;
use crate::executor::error::Error;
use crate::executor::failing::Failing;
use crate::profile::SurveySettings;
use crate::schedule::Schedule;

/// Nobody waits so long for anybody who comes.
const LIMIT: Duration = Duration::from_secs(25);

const SIZE: u32 = 3;

/// At how many points of the whole way.
const CASES: u64 = 4;

/// At how many of its beginning, one after the other: who is a step ahead does something else there.
const FIRST: u64 = 8;

/// The linear barrier, again and again: others are tried.
fn poor() -> Schedule {
    let steps = "linear".parse::<Algorithm>().unwrap().schedule(SIZE).unwrap().descriptions();
    Schedule::new(SIZE, (0..2).flat_map(|_| steps.clone())).unwrap()
}

/// Takes another schedule's barrier into use, by tuning or without.
type Change = fn(&mut TunedBarrier) -> Result<bool, Error>;

/// Which member's fabric fails, and after how many writes.
#[derive(Clone, Copy)]
struct Failure {
    member: u32,
    writes: u64,
}

/// What each member comes to, in the order of ranks, in a change, and in waiting then, where one of them has a write fail;
/// and how many that one has made in the change.
fn changed(change: Change, failure: Failure) -> (Vec<Result<(), Error>>, u64) {
    // As little as there is of each: every signal takes a turn of each of two members.
    let survey = SurveySettings {
        largest_message: 8,
        longest_burst: 2,
        repetitions: 1,
        ..RetuningSettings::default().survey
    };
    let settings = RetuningSettings {
        survey,
        burst: 1,
        window: 1,
        factor: 1e9,
        candidates: 1,
        ..RetuningSettings::default()
    };
    let tuning = Tuning { schedule: poor(), predicted: 1000.0, settings };
    let (sender, ended) = mpsc::channel();
    for fabric in shm::within_process(SIZE) {
        let (sender, tuning) = (sender.clone(), tuning.clone());
        thread::spawn(move || {
            let back_end = Failing::new(Arc::clone(fabric.back_end()));
            let fabric = Fabric::new(Arc::clone(&back_end) as Arc<dyn BackEnd>);
            let members: Vec<Rank> = (0..SIZE).map(Rank).collect();
            let first = SegmentId::new(82, 0);
            let mut barrier = TunedBarrier::join(&Fabrics::of_job(&fabric), &members, first, tuning).unwrap();
            barrier.wait().unwrap();
            let own = fabric.rank().0;
            if own == failure.member {
                back_end.fail_after(failure.writes);
            }
            let changed = change(&mut barrier);
            let made = back_end.made_of(failure.writes);
            // Who had all that it needed from the one that failed, hears of it in a later call.
            let waited = changed.and_then(|_| (0..20).try_for_each(|_| barrier.wait()));
            // Nobody's memory goes before all have ended.
            sender.send((own, waited, made, barrier)).unwrap();
        });
    }
    let Failure { member, writes } = failure;
    let come = |_| {
        let come = ended.recv_timeout(LIMIT);
        come.unwrap_or_else(|_| panic!("one waits for ever, after {writes} writes of member {member}"))
    };
    let mut all: Vec<_> = (0..SIZE).map(come).collect();
    all.sort_by_key(|(rank, ..)| *rank);
    let made = all[member as usize].2;
    (all.into_iter().map(|(_, waited, ..)| waited).collect(), made)
}

/// Has each member fail in turn, at many points.
fn nobody_waits(change: Change) {
    for member in 0..SIZE {
        let (all, made) = changed(change, Failure { member, writes: u64::MAX });
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        let mut failures = 0;
        let later = (FIRST..made).step_by((made / CASES).max(1) as usize);
        for writes in (0..made.min(FIRST)).chain(later) {
            let (all, _) = changed(change, Failure { member, writes });
            // Who could not join something is told to all, who go on without.
            if all[member as usize].is_ok() {
                assert!(all.iter().all(Result::is_ok), "member {member}, after {writes} writes: {all:?}");
                continue;
            }
            failures += 1;
            for waited in all.iter().enumerate().filter(|(rank, _)| *rank != member as usize) {
                let is_told =
                    matches!(waited.1, Err(Error::Refused { member: told, .. }) if *told == member as usize);
                assert!(is_told, "member {member}, after {writes} writes: {all:?}");
            }
        }
        assert!(failures > 0, "member {member}: none of {made}");
    }
}

#[test]
fn who_fails_wherever_it_is_in_tuning_has_nobody_wait() {
    nobody_waits(TunedBarrier::retune);
}

#[test]
fn who_fails_in_changing_schedules_has_nobody_wait() {
    nobody_waits(|barrier| {
        let other = "dissemination".parse::<Algorithm>().unwrap().schedule(SIZE).unwrap();
        barrier.switch(&other, 1000.0)
    });
}
