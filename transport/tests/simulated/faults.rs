//! Writes that go wrong, and processes that die or hang.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;
use svmio_transport::back_end::{Provider, Wait};
use svmio_transport::dma::{Completion, Direction, Transfer};
use svmio_transport::sim::{FaultCounts, FaultOptions, SimOptions, SimReport, World};
use svmio_transport::{
    Error, Fabric, Interrupt, LocalSegment, Rank, RemoteSegment, SegmentId, Time, UserMemory,
};

use crate::worlds::{FLAGS, anonymous, await_word, options, other, pair};

/// Writes 200 blocks with checks, as a protocol would; returns how often it had to repeat.
fn checked_blocks(faults: FaultOptions, seed: u64) -> SimReport<u64> {
    let options = SimOptions { seed, faults, ..options(2, "sci-switch") };
    let report = World::new(options).run(|fabric| {
        let (local, remote) = pair(&fabric, other(&fabric), 4096);
        if fabric.rank() == Rank(1) {
            for number in 1..=200_u64 {
                await_word(&fabric, &local, 4088, number);
                let mut block = [0; 2048];
                local.memory().read(0, &mut block).unwrap();
                assert_eq!(block, [number as u8; 2048], "block {number}");
                remote.write(0, &number.to_ne_bytes()).unwrap();
                fabric.write_checked(Rank(0), || remote.write(0, &number.to_ne_bytes())).unwrap();
            }
            return 0;
        }
        for number in 1..=200_u64 {
            fabric.write_checked(Rank(1), || remote.write(0, &[number as u8; 2048])).unwrap();
            fabric.write_checked(Rank(1), || remote.write(4088, &number.to_ne_bytes())).unwrap();
            await_word(&fabric, &local, 0, number);
        }
        fabric.statistics().repeated_writes
    });
    report.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn dropped_late_and_repeated_writes_are_found_and_mended_and_depend_on_the_seed() {
    let faults = FaultOptions { dropped: 0.02, late: 0.05, repeated: 0.05, ..FaultOptions::default() };
    let report = checked_blocks(faults.clone(), 7);
    assert!(report.faults.dropped > 20 && report.faults.late > 100 && report.faults.repeated > 100);
    assert!(report.results[0].unwrap() > 20);
    assert_eq!(report, checked_blocks(faults.clone(), 7));
    assert_ne!(report, checked_blocks(faults, 8));
    let none = checked_blocks(FaultOptions::default(), 7);
    assert_eq!((none.faults.dropped, none.results[0]), (0, Some(0)));
}

#[test]
fn a_store_barrier_outlasts_late_and_repeated_writes() {
    let faults = FaultOptions { late: 0.3, repeated: 0.3, ..FaultOptions::default() };
    let options = SimOptions { faults, ..options(2, "sci-ring") };
    let report = World::new(options).run(|fabric| {
        let (local, remote) = pair(&fabric, other(&fabric), 4096);
        for round in 0..100_u64 {
            // Two values for one place, a barrier between: the second one stays.
            for value in [2 * round, 2 * round + 1] {
                remote.write(0, &value.to_ne_bytes()).unwrap();
                fabric.store_barrier(other(&fabric)).unwrap();
            }
            // The other's marks come likewise; after them nothing is under way.
            remote.write(64, &(round + 1).to_ne_bytes()).unwrap();
            fabric.store_barrier(other(&fabric)).unwrap();
            await_word(&fabric, &local, 64, round + 1);
            assert_eq!(local.memory().word64(0).unwrap().load(Ordering::Acquire), 2 * round + 1);
            remote.write(128, &(round + 1).to_ne_bytes()).unwrap();
            fabric.store_barrier(other(&fabric)).unwrap();
            await_word(&fabric, &local, 128, round + 1);
        }
    });
    assert!(report.unwrap().faults.late > 50);
}

/// How a process is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Dies,
    Hangs,
}

/// Faults by which `victim` is lost at `time`.
fn loses(victim: Rank, time: Time, loss: Loss) -> FaultOptions {
    let lost = vec![(victim, time)];
    match loss {
        Loss::Dies => FaultOptions { kill: lost, ..FaultOptions::default() },
        Loss::Hangs => FaultOptions { hang: lost, ..FaultOptions::default() },
    }
}

#[test]
fn survivors_learn_of_a_death_whatever_they_wait_for() {
    let faults = check_survivors(Loss::Dies);
    assert_eq!((faults.killed, faults.hung), (1, 0));
}

#[test]
fn the_others_learn_that_one_hangs_whatever_they_wait_for() {
    let faults = check_survivors(Loss::Hangs);
    assert_eq!((faults.killed, faults.hung), (0, 1));
}

fn check_survivors(loss: Loss) -> FaultCounts {
    let faults = loses(Rank(1), Time(0).after(Duration::from_millis(200)), loss);
    let options = SimOptions { faults, ..options(7, "sci-switch") };
    let report = World::new(options).run(|fabric| {
        let local = fabric.create(FLAGS, &anonymous(1 << 23)).unwrap();
        fabric.back_end().sleep(Duration::from_millis(1));
        if fabric.rank() == Rank(1) {
            fabric.back_end().sleep(Duration::from_secs(1));
            unreachable!("it is lost by then");
        }
        let victim = Rank(1);
        let remote = fabric.connect(victim, FLAGS).unwrap();
        fabric.back_end().sleep(Duration::from_millis(199));
        let error = match fabric.rank().0 {
            // Each has something under way when the victim is lost, or begins just after.
            0 => loop {
                if let Err(error) = remote.write(0, &[1; 4096]).and_then(|()| fabric.store_barrier(victim)) {
                    break error;
                }
            },
            2 => loop {
                if let Err(error) = remote.fetch_add(0, 1) {
                    break error;
                }
            },
            3 => {
                let start = std::ptr::NonNull::new(local.memory().as_ptr()).unwrap();
                let from = UserMemory { start, length: 1 << 23 };
                let transfer =
                    Transfer { direction: Direction::Write, local: from, remote: remote.remote(), offset: 0 };
                let done = Arc::new(Completion::new());
                // SAFETY: the segment stays, unchanged, until the wait has ended.
                unsafe { fabric.post(vec![transfer], &done) }.unwrap();
                fabric.wait_for(&done).unwrap_err()
            }
            4 => {
                while fabric.wait_interrupt(Interrupt(1), None).unwrap() > 0 {}
                fabric.membership().check(victim).unwrap_err()
            }
            5 => {
                // It is asked, and does not answer.
                fabric.back_end().sleep(Duration::from_millis(1));
                fabric.connect(victim, SegmentId::new(9, 9)).unwrap_err()
            }
            _ => {
                let membership = fabric.membership();
                let mut ready = || membership.check(victim).is_err();
                let _ = fabric.wait_until(Wait { deadline: None, attends: None, ready: &mut ready });
                fabric.connect(victim, SegmentId::new(9, 9)).unwrap_err()
            }
        };
        assert_eq!(error.lost_peer(), Some(victim), "{error}");
        fabric.now()
    });
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    for (rank, ended) in report.results.iter().enumerate() {
        match ended {
            None => assert_eq!(rank, 1),
            Some(ended) => {
                let after = ended.since(Time(0));
                let expected = Duration::from_millis(210)..Duration::from_millis(211);
                assert!(expected.contains(&after), "{rank}: {ended:?}");
            }
        }
    }
    report.faults
}

#[test]
fn what_is_written_to_one_who_hangs_arrives_until_the_others_know() {
    let hangs = Time(0).after(Duration::from_millis(200));
    let options = SimOptions { faults: loses(Rank(1), hangs, Loss::Hangs), ..options(2, "sci-switch") };
    let report = World::new(options).run(|fabric| {
        let (_local, remote) = pair(&fabric, other(&fabric), 4096);
        if fabric.rank() == Rank(1) {
            fabric.back_end().sleep(Duration::from_secs(1));
            unreachable!("it hangs by then");
        }
        fabric.back_end().sleep(Duration::from_millis(95));
        assert!(fabric.now() > hangs, "{:?}", fabric.now());
        fabric.write_checked(Rank(1), || remote.write(0, &7_u64.to_ne_bytes())).unwrap();
        let mut word = [0; 8];
        remote.read(0, &mut word).unwrap();
        assert_eq!(u64::from_ne_bytes(word), 7);
        fabric.back_end().sleep(Duration::from_millis(10));
        assert_eq!(remote.write(0, &[0; 8]).unwrap_err().lost_peer(), Some(Rank(1)));
    });
    report.unwrap_or_else(|error| panic!("{error}"));
}

/// What a survivor does until it learns of the loss: everything, with everybody.
fn survive(fabric: &Fabric, flags: &LocalSegment, peers: &[RemoteSegment]) -> Error {
    let mut turn = u64::from(fabric.rank().0);
    loop {
        turn += 1;
        let peer = &peers[turn as usize % peers.len()];
        let owner = peer.owner();
        let step = || -> Result<(), Error> {
            match turn % 5 {
                0 => fabric.write_checked(owner, || peer.write(0, &[turn as u8; 700])),
                1 => peer.fetch_add(1024, 1).map(drop),
                2 => fabric.trigger(owner, Interrupt(1)),
                3 => peer.read(0, &mut [0; 100]),
                _ => {
                    let start = std::ptr::NonNull::new(flags.memory().span(2048, 2048)?);
                    let local = UserMemory { start: start.unwrap(), length: 2048 };
                    let (direction, remote) = (Direction::Write, peer.remote());
                    let done = Arc::new(Completion::new());
                    let transfer = Transfer { direction, local, remote, offset: 0 };
                    // SAFETY: the segment stays until the wait has ended.
                    unsafe { fabric.post(vec![transfer], &done) }?;
                    fabric.wait_for(&done)
                }
            }
        };
        if let Err(error) = step() {
            return error;
        }
        // Woken by whoever triggered, or by time.
        let deadline = fabric.now().after(Duration::from_micros(40));
        fabric.wait_interrupt(Interrupt(1), Some(deadline)).unwrap();
    }
}

/// 64 cases, unless the environment asks for another number, as usual with proptest.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { usual.cases } else { 64 };
    ProptestConfig { cases, ..usual }
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn wherever_a_process_dies_or_hangs_the_others_learn_of_it_in_time(
        at in 7_000_000_u64..8_000_000,
        victim in 0_u32..5,
        loss in prop::sample::select(vec![Loss::Dies, Loss::Hangs]),
        seed: u64,
        dropped in prop::sample::select(vec![0.0, 0.01]),
        model in prop::sample::select(vec!["sci-switch", "sci-torus", "infiniband-hdr"]),
    ) {
        let detection = Duration::from_millis(1);
        let faults = FaultOptions { dropped, detection, ..loses(Rank(victim), Time(at), loss) };
        let options = SimOptions { seed, faults, time_limit: Duration::from_secs(1), ..options(5, model) };
        let report = World::new(options).run(|fabric| {
            let flags = fabric.create(FLAGS, &anonymous(4096)).unwrap();
            fabric.back_end().sleep(Duration::from_millis(1));
            let others = fabric.membership().ranks().filter(|&rank| rank != fabric.rank());
            let peers: Vec<_> = others.map(|rank| fabric.connect(rank, FLAGS).unwrap()).collect();
            let error = survive(&fabric, &flags, &peers);
            (error.lost_peer(), fabric.now())
        });
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        for (rank, result) in report.results.iter().enumerate() {
            prop_assert_eq!(result.is_none(), rank == victim as usize);
            if let Some((lost, ended)) = result {
                prop_assert_eq!(*lost, Some(Rank(victim)));
                // The detection's time, and not much more.
                prop_assert!(ended.0 >= at + 1_000_000 && ended.0 < at + 1_500_000, "{:?}", ended);
            }
        }
    }
}

/// Panics when it is asked for a segment.
struct Panicking;

impl Provider for Panicking {
    fn provide(&self, _: Rank, _: SegmentId) {
        panic!("the test says so");
    }
}

#[test]
fn whoever_makes_segments_may_panic_and_others_are_answered() {
    let report = World::new(options(2, "sci-ring")).run(|fabric| {
        if fabric.rank() == Rank(1) {
            fabric.set_provider(40, Arc::new(Panicking));
        }
        let pair = pair(&fabric, other(&fabric), 64);
        if fabric.rank() == Rank(0) {
            for number in 0..2 {
                let refused = fabric.connect(Rank(1), SegmentId::new(40, number));
                assert!(matches!(refused, Err(Error::UnknownSegment { .. })), "{refused:?}");
            }
            pair.1.write(0, &1_u64.to_ne_bytes()).unwrap();
        } else {
            await_word(&fabric, &pair.0, 0, 1);
        }
    });
    report.unwrap_or_else(|error| panic!("{error}"));
}
