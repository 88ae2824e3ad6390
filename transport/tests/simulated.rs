//! The simulated fabric through its public face.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;
use svmio_transport::back_end::{Backing, Sequence, Wait, Waited};
use svmio_transport::dma::{Completion, Direction, Transfer};
use svmio_transport::sim::{FaultOptions, Model, SimError, SimOptions, SimReport, World};
use svmio_transport::{
    Error, Fabric, Interrupt, LocalSegment, Rank, RemoteSegment, SegmentId, Time, UserMemory,
};

const FLAGS: SegmentId = SegmentId::new(1, 0);

fn options(size: u32, model: &str) -> SimOptions {
    SimOptions::new(size, Model::named(model).unwrap())
}

fn anonymous(length: u64) -> Backing {
    Backing::Anonymous { length }
}

/// Creates a segment, waits until all have, by virtual time, and connects to the peer's.
fn pair(fabric: &Fabric, peer: Rank, length: u64) -> (LocalSegment, RemoteSegment) {
    let local = fabric.create(FLAGS, &anonymous(length)).unwrap();
    fabric.back_end().sleep(Duration::from_millis(10));
    let remote = fabric.connect(peer, FLAGS).unwrap();
    fabric.back_end().sleep(Duration::from_millis(100));
    (local, remote)
}

fn other(fabric: &Fabric) -> Rank {
    Rank(1 - fabric.rank().0)
}

/// Waits until the word at `offset` is `value`.
fn await_word(fabric: &Fabric, segment: &LocalSegment, offset: u64, value: u64) {
    let word = segment.memory().word64(offset).unwrap();
    let mut ready = || word.load(Ordering::Acquire) == value;
    assert_eq!(fabric.wait_until(Wait { deadline: None, attends: None, ready: &mut ready }), Waited::Ready);
}

/// All of 2,000 write to the peer at distance 1, 2, 4, … and wait for the one at that distance behind them.
fn exchange(size: u32, options: SimOptions) -> SimReport<Duration> {
    World::new(options)
        .run(|fabric| {
            let rank = fabric.rank().0;
            let flags = fabric.create(FLAGS, &anonymous(64 * 16)).unwrap();
            fabric.back_end().sleep(Duration::from_millis(1));
            let rounds = size.next_power_of_two().trailing_zeros();
            let peers: Vec<_> = (0..rounds)
                .map(|round| fabric.connect(Rank((rank + (1 << round)) % size), FLAGS).unwrap())
                .collect();
            fabric.back_end().sleep(Duration::from_millis(100));
            let begun = fabric.now();
            for (round, peer) in peers.iter().enumerate() {
                let offset = 64 * round as u64;
                peer.write(offset, &1_u64.to_ne_bytes()).unwrap();
                await_word(&fabric, &flags, offset, 1);
            }
            fabric.now().since(begun)
        })
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn two_thousand_nodes_exchange() {
    let report = exchange(2000, options(2000, "infiniband-hdr"));
    assert!(report.results.iter().all(Option::is_some));
    let longest = report.results.iter().flatten().max().unwrap();
    // 11 rounds of some microseconds at most.
    assert!(*longest > Duration::from_micros(5) && *longest < Duration::from_micros(60), "{longest:?}");
    assert!(report.ranks.iter().all(|rank| rank.writes == 11));
}

#[test]
fn runs_of_one_seed_are_equal_and_others_differ() {
    let run = |seed| {
        let mut options = options(24, "sci-torus");
        options.seed = seed;
        exchange(24, options)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

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

#[test]
fn the_costs_of_checks_are_those_of_the_paper() {
    World::new(options(2, "sci-torus"))
        .run(|fabric| {
            if fabric.rank() == Rank(1) {
                let (_local, _remote) = pair(&fabric, Rank(0), 4096);
                fabric.back_end().sleep(Duration::from_secs(1));
                return;
            }
            let (_local, remote) = pair(&fabric, Rank(1), 4096);
            let took = |action: &dyn Fn()| {
                let begun = fabric.now();
                action();
                fabric.now().since(begun)
            };
            let store = took(&|| remote.write(124, &[1; 4]).unwrap());
            assert!((200..300).contains(&store.as_nanos()), "{store:?}");
            let check = took(&|| {
                let mark = fabric.mark(Rank(1));
                remote.write(124, &[1; 4]).unwrap();
                assert_eq!(fabric.check_sequence(Rank(1), mark).unwrap(), Sequence::Intact);
            });
            assert!((5000..6000).contains(&check.as_nanos()), "{check:?}");
            remote.write(124, &[1; 4]).unwrap();
            let both = took(&|| {
                let mark = fabric.mark(Rank(1));
                fabric.store_barrier(Rank(1)).unwrap();
                assert_eq!(fabric.check_sequence(Rank(1), mark).unwrap(), Sequence::Intact);
            });
            assert!((3000..4000).contains(&both.as_nanos()), "{both:?}");
            // 1.5 to 2 µs faster, as the paper says; the check above had a store within.
            let saved = check - store - both;
            assert!((1400..2100).contains(&saved.as_nanos()), "{saved:?}");
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_word_needs_two_microseconds_and_reads_need_more() {
    let report = World::new(options(2, "sci-switch")).run(|fabric| {
        let (local, remote) = pair(&fabric, other(&fabric), 4096);
        let begun = fabric.now();
        for round in 1..=100_u64 {
            if fabric.rank() == Rank(0) {
                remote.write(120, &round.to_ne_bytes()).unwrap();
            }
            await_word(&fabric, &local, 120, round);
            if fabric.rank() == Rank(1) {
                remote.write(120, &round.to_ne_bytes()).unwrap();
            }
        }
        let half_round_trip = fabric.now().since(begun) / 200;
        let begun = fabric.now();
        let mut word = [0; 8];
        remote.read(120, &mut word).unwrap();
        (half_round_trip, fabric.now().since(begun))
    });
    let (write, read) = report.unwrap().results[0].unwrap();
    assert!((2000..3000).contains(&write.as_nanos()), "{write:?}");
    assert!((5000..8000).contains(&read.as_nanos()), "{read:?}");
}

#[test]
fn interrupts_take_the_papers_35_6_microseconds() {
    let report = World::new(options(2, "sci-switch")).run(|fabric| {
        let (mine, theirs) = (Interrupt(3), Interrupt(3));
        fabric.back_end().sleep(Duration::from_millis(1));
        let begun = fabric.now();
        for _ in 0..50 {
            if fabric.rank() == Rank(0) {
                fabric.trigger(Rank(1), theirs).unwrap();
                assert_eq!(fabric.wait_interrupt(mine, None).unwrap(), 1);
            } else {
                assert_eq!(fabric.wait_interrupt(mine, None).unwrap(), 1);
                fabric.trigger(Rank(0), theirs).unwrap();
            }
        }
        fabric.now().since(begun) / 100
    });
    let latency = report.unwrap().results[0].unwrap().as_secs_f64() * 1e6;
    assert!((latency - 35.6).abs() < 0.1, "{latency} µs");
}

#[test]
fn an_attended_interrupt_does_not_wake_the_service() {
    let report = World::new(options(2, "sci-switch")).run(|fabric| {
        let woken = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let counter = Arc::clone(&woken);
        let _service = fabric.on_interrupt(Interrupt(0), move |count| {
            counter.fetch_add(count, Ordering::Relaxed);
        });
        let (local, remote) = pair(&fabric, other(&fabric), 4096);
        if fabric.rank() == Rank(0) {
            for number in 1..=2_u64 {
                remote.write(120, &number.to_ne_bytes()).unwrap();
                fabric.store_barrier(Rank(1)).unwrap();
                fabric.trigger(Rank(1), Interrupt(0)).unwrap();
                fabric.back_end().sleep(Duration::from_millis(10));
            }
            return 0;
        }
        let word = local.memory().word64(120).unwrap();
        let mut seen = 0;
        let mut ready = || {
            seen += 1;
            word.load(Ordering::Acquire) == 1 && seen > 1
        };
        let wait = Wait { deadline: None, attends: Some(Interrupt(0)), ready: &mut ready };
        assert_eq!(fabric.wait_until(wait), Waited::Ready);
        // The first came while it was attended (if it comes after the word, the service gets it: wait for it).
        fabric.back_end().sleep(Duration::from_millis(5));
        let first = woken.load(Ordering::Relaxed);
        fabric.back_end().sleep(Duration::from_millis(20));
        woken.load(Ordering::Relaxed) - first
    });
    assert_eq!(report.unwrap().results[1], Some(1));
}

#[test]
fn dma_has_the_papers_bandwidth_and_leaves_the_processor_alone() {
    const LENGTH: usize = 1 << 20;
    let report = World::new(options(2, "sci-switch")).run(|fabric| {
        let (local, remote) = pair(&fabric, other(&fabric), 2 * LENGTH as u64);
        if fabric.rank() == Rank(1) {
            await_word(&fabric, &local, LENGTH as u64 - 8, u64::MAX);
            return (Duration::ZERO, Duration::ZERO);
        }
        local.memory().write(LENGTH as u64, &[0xff; LENGTH]).unwrap();
        let start = std::ptr::NonNull::new(local.memory().span(LENGTH as u64, LENGTH).unwrap()).unwrap();
        let from = UserMemory { start, length: LENGTH };
        let transfer =
            Transfer { direction: Direction::Write, local: from, remote: remote.remote(), offset: 0 };
        let done = Arc::new(Completion::new());
        let begun = fabric.now();
        // SAFETY: the segment stays, unchanged, until the wait below has ended.
        unsafe { fabric.post(vec![transfer], &done) }.unwrap();
        let posted = fabric.now().since(begun);
        fabric.back_end().compute(Duration::from_millis(10));
        fabric.wait_for(&done).unwrap();
        (posted, fabric.now().since(begun))
    });
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    let (posted, took) = report.results[0].unwrap();
    assert!(posted < Duration::from_micros(50), "{posted:?}");
    let bandwidth = 1.0 / took.as_secs_f64();
    assert!((bandwidth - 69.0).abs() < 0.2, "{bandwidth} MiB/s");
    // 10 ms of computation and a little for the rest, of 14.5 ms.
    assert!(report.ranks[0].processor < Duration::from_micros(10_500));
}

#[test]
fn user_memory_is_for_dma_only_where_the_model_says_so() {
    for (model, allowed) in [("sci-switch", false), ("infiniband-hdr", true)] {
        let report = World::new(options(2, model)).run(|fabric| {
            let (local, remote) = pair(&fabric, other(&fabric), 4096);
            if fabric.rank() == Rank(1) {
                fabric.back_end().sleep(Duration::from_millis(10));
                return local.memory().word64(8).unwrap().load(Ordering::Acquire) == 7;
            }
            let bytes = 7_u64.to_ne_bytes();
            let from = UserMemory::of(&bytes);
            let done = Arc::new(Completion::new());
            let transfer =
                |direction| Transfer { direction, local: from, remote: remote.remote(), offset: 8 };
            // SAFETY: `bytes` outlives the wait below.
            match unsafe { fabric.post(vec![transfer(Direction::Write)], &done) } {
                Ok(()) => fabric.wait_for(&done).unwrap(),
                Err(Error::Unsupported { .. }) => return false,
                Err(error) => panic!("{error}"),
            }
            let mut back = [0; 8];
            let into = UserMemory::of_mut(&mut back);
            let done = Arc::new(Completion::new());
            let transfer = Transfer { local: into, ..transfer(Direction::Read) };
            // SAFETY: `back` is not looked at before the wait has ended.
            unsafe { fabric.post(vec![transfer], &done) }.unwrap();
            fabric.wait_for(&done).unwrap();
            u64::from_ne_bytes(back) == 7
        });
        assert_eq!(report.unwrap().results, [Some(allowed), Some(allowed)], "{model}");
    }
}

#[test]
fn registered_memory_is_written_until_it_is_unregistered() {
    let report = World::new(options(2, "infiniband-hdr")).run(|fabric| {
        let (local, remote) = pair(&fabric, other(&fabric), 4096);
        let mut memory = vec![0_u8; 64];
        if fabric.rank() == Rank(0) {
            // SAFETY: `memory` stays until the registration is dropped, and is not touched meanwhile.
            let registration = unsafe { fabric.register(UserMemory::of_mut(&mut memory)) }.unwrap();
            let words: Vec<_> = registration.key().0.iter().flat_map(|word| word.to_ne_bytes()).collect();
            remote.write(0, &words).unwrap();
            remote.write(32, &1_u64.to_ne_bytes()).unwrap();
            await_word(&fabric, &local, 0, 1);
            drop(registration);
            assert_eq!(memory, [5; 64]);
            remote.write(32, &2_u64.to_ne_bytes()).unwrap();
            await_word(&fabric, &local, 0, 2);
            return memory;
        }
        await_word(&fabric, &local, 32, 1);
        let word = |index: u64| local.memory().word64(8 * index).unwrap().load(Ordering::Acquire);
        let key = svmio_transport::back_end::MemoryKey([word(0), word(1), word(2)]);
        let place = svmio_transport::back_end::Place::Registered(key);
        let memory = svmio_transport::back_end::Remote { owner: Rank(0), place };
        let piece = |byte| [byte; 64];
        let write = |bytes: &[u8], offset| {
            fabric.write(&memory, &[svmio_transport::back_end::Piece { offset, bytes }])
        };
        write(&piece(5), 0).unwrap();
        assert!(matches!(write(&piece(5), 1), Err(Error::OutOfBounds { .. })));
        remote.write(0, &1_u64.to_ne_bytes()).unwrap();
        await_word(&fabric, &local, 32, 2);
        write(&piece(6), 0).unwrap();
        remote.write(0, &2_u64.to_ne_bytes()).unwrap();
        Vec::new()
    });
    assert_eq!(report.unwrap().results[0].as_deref(), Some(&[5; 64][..]));
}

#[test]
fn atomics_count_to_the_last_one() {
    const SIZE: u32 = 50;
    let report = World::new(options(SIZE, "sci-torus")).run(|fabric| {
        let local = fabric.create(FLAGS, &anonymous(64)).unwrap();
        fabric.back_end().sleep(Duration::from_millis(10));
        let remote = fabric.connect(Rank(0), FLAGS).unwrap();
        for _ in 0..20 {
            remote.fetch_add(0, 1).unwrap();
            while remote.compare_swap(8, 0, 1).unwrap() != 0 {
                fabric.back_end().compute(Duration::from_micros(3));
            }
            assert_eq!(remote.compare_swap(8, 1, 0).unwrap(), 1);
        }
        assert!(matches!(remote.fetch_add(4, 1), Err(Error::Misaligned { .. })));
        if fabric.rank() == Rank(0) {
            await_word(&fabric, &local, 0, u64::from(20 * SIZE));
        }
    });
    report.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_deadlock_tells_who_waits_for_what() {
    let error = World::new(options(3, "sci-ring")).run(|fabric| match fabric.rank().0 {
        0 => drop(fabric.wait_interrupt(Interrupt(5), None)),
        1 => {
            fabric.back_end().sleep(Duration::from_micros(7));
            let mut never = || false;
            let _ = fabric.wait_until(Wait { deadline: None, attends: None, ready: &mut never });
        }
        _ => {}
    });
    let Err(SimError::Deadlock { waiting, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(waiting.len(), 2);
    assert_eq!(waiting[0].to_string(), "rank 0 (its program) waits for interrupt 5 since 0ns");
    assert_eq!((waiting[1].rank, waiting[1].what.as_str()), (Rank(1), "a condition"));
    assert!(waiting[1].since >= Time(7000));
}

#[test]
fn a_panic_is_reported_with_its_rank() {
    let error = World::new(options(4, "sci-ring")).run(|fabric| {
        fabric.back_end().sleep(Duration::from_micros(u64::from(fabric.rank().0)));
        assert_ne!(fabric.rank(), Rank(2), "that one");
        fabric.back_end().sleep(Duration::from_secs(1));
    });
    let Err(SimError::Panicked { rank: Rank(2), message, .. }) = error else { panic!("{error:?}") };
    assert!(message.contains("that one"), "{message}");
}

#[test]
fn what_never_ends_is_ended_by_the_time_limit() {
    let options = SimOptions { time_limit: Duration::from_secs(1), ..options(1, "sci-ring") };
    let error = World::new(options).run(|fabric| {
        loop {
            fabric.back_end().sleep(Duration::from_millis(1));
        }
    });
    assert!(matches!(error, Err::<SimReport<()>, _>(SimError::TimeLimit { .. })));
}

#[test]
fn survivors_learn_of_a_death_whatever_they_wait_for() {
    let faults = FaultOptions {
        kill: vec![(Rank(1), Time(0).after(Duration::from_millis(200)))],
        ..FaultOptions::default()
    };
    let options = SimOptions { faults, ..options(6, "sci-switch") };
    let report = World::new(options).run(|fabric| {
        let local = fabric.create(FLAGS, &anonymous(1 << 23)).unwrap();
        fabric.back_end().sleep(Duration::from_millis(1));
        if fabric.rank() == Rank(1) {
            fabric.back_end().sleep(Duration::from_secs(1));
            unreachable!("it is dead by then");
        }
        let victim = Rank(1);
        let remote = fabric.connect(victim, FLAGS).unwrap();
        fabric.back_end().sleep(Duration::from_millis(199));
        let error = match fabric.rank().0 {
            // Each has something under way when the victim dies, or begins just after.
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
    assert_eq!(report.faults.killed, 1);
    for (rank, ended) in report.results.iter().enumerate() {
        match ended {
            None => assert_eq!(rank, 1),
            Some(ended) => assert!(ended.since(Time(0)) < Duration::from_millis(211), "{rank}: {ended:?}"),
        }
    }
}

/// What a survivor does until it learns of the death: everything, with everybody.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn wherever_a_process_dies_the_others_learn_of_it_in_time(
        at in 7_000_000_u64..8_000_000,
        victim in 0_u32..5,
        seed: u64,
        dropped in prop::sample::select(vec![0.0, 0.01]),
        model in prop::sample::select(vec!["sci-switch", "sci-torus", "infiniband-hdr"]),
    ) {
        let detection = Duration::from_millis(1);
        let kill = vec![(Rank(victim), Time(at))];
        let faults = FaultOptions { kill, dropped, detection, ..FaultOptions::default() };
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
                prop_assert!(ended.0 > at && ended.0 < at + 1_500_000, "{:?}", ended);
            }
        }
    }
}

#[test]
fn segments_are_made_on_demand() {
    struct Maker {
        fabric: Fabric,
        made: std::sync::Mutex<Vec<LocalSegment>>,
    }
    impl svmio_transport::back_end::Provider for Maker {
        fn provide(&self, asker: Rank, id: SegmentId) {
            if id.number < 10 {
                let segment = self.fabric.create(id, &anonymous(64)).unwrap();
                segment.memory().write(0, &asker.0.to_ne_bytes()).unwrap();
                self.made.lock().unwrap().push(segment);
            }
        }
    }
    let report = World::new(options(3, "ethernet-25g")).run(|fabric| {
        let made = std::sync::Mutex::default();
        fabric.set_provider(4, Arc::new(Maker { fabric: fabric.clone(), made }));
        fabric.back_end().sleep(Duration::from_millis(1));
        assert!(fabric.connected_peers().is_empty());
        let next = Rank((fabric.rank().0 + 1) % 3);
        let remote = fabric.connect(next, SegmentId::new(4, 2)).unwrap();
        let mut word = [0; 4];
        remote.read(0, &mut word).unwrap();
        assert_eq!(u32::from_ne_bytes(word), fabric.rank().0);
        assert!(matches!(fabric.connect(next, SegmentId::new(4, 10)), Err(Error::UnknownSegment { .. })));
        assert!(matches!(fabric.connect(next, SegmentId::new(5, 0)), Err(Error::UnknownSegment { .. })));
        assert_eq!(fabric.connected_peers(), [next]);
        // The others may still ask.
        fabric.back_end().sleep(Duration::from_millis(10));
    });
    report.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn services_end_when_all_have_returned() {
    let report = World::new(options(2, "ethernet-1g")).run(|fabric| {
        let counted = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let counter = Arc::clone(&counted);
        let endless = fabric.on_interrupt(Interrupt(0), move |count| {
            counter.fetch_add(count, Ordering::Relaxed);
        });
        drop(endless);
        let back_end = Arc::clone(fabric.back_end());
        let sleeper = Box::new(move || back_end.sleep(Duration::from_millis(3)));
        let service = fabric.back_end().spawn("sleeper", sleeper).unwrap();
        fabric.back_end().sleep(Duration::from_micros(10));
        fabric.trigger(other(&fabric), Interrupt(0)).unwrap();
        service.join();
        counted.load(Ordering::Relaxed)
    });
    let report = report.unwrap();
    assert_eq!(report.results, [Some(1), Some(1)]);
    assert!(report.duration >= Duration::from_millis(3));
}

#[test]
fn ordered_fabrics_keep_the_order_of_writes() {
    World::new(options(2, "infiniband-hdr"))
        .run(|fabric| {
            let (local, remote) = pair(&fabric, other(&fabric), 1 << 20);
            if fabric.rank() == Rank(0) {
                for number in 1..=50_u64 {
                    remote.write(0, &vec![number as u8; 300_000]).unwrap();
                    remote.write(1 << 19, &number.to_ne_bytes()).unwrap();
                    await_word(&fabric, &local, 0, number);
                }
                return;
            }
            for number in 1..=50_u64 {
                await_word(&fabric, &local, 1 << 19, number);
                let mut bytes = vec![0; 300_000];
                local.memory().read(0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|&byte| byte == number as u8));
                remote.write(0, &number.to_ne_bytes()).unwrap();
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn processes_of_one_node_are_near() {
    let options = SimOptions { ranks_per_node: 2, ..options(4, "sci-switch") };
    let report = World::new(options).run(|fabric| {
        let rank = fabric.rank().0;
        assert_eq!(fabric.membership().node(fabric.rank()), format!("node{}", rank / 2));
        let local = fabric.create(FLAGS, &anonymous(64)).unwrap();
        fabric.back_end().sleep(Duration::from_millis(1));
        // 0 with 1 on the same node, 2 with 3 likewise; then 0 with 2 and 1 with 3 on different ones.
        let mut took = Vec::new();
        for (turn, peer) in [rank ^ 1, rank ^ 2].into_iter().enumerate() {
            let remote = fabric.connect(Rank(peer), FLAGS).unwrap();
            fabric.back_end().sleep(Duration::from_millis(10));
            let begun = fabric.now();
            remote.write(8 * turn as u64, &1_u64.to_ne_bytes()).unwrap();
            await_word(&fabric, &local, 8 * turn as u64, 1);
            took.push(fabric.now().since(begun));
        }
        took
    });
    for took in report.unwrap().results.into_iter().flatten() {
        assert!(took[0] < Duration::from_micros(1) && took[1] > Duration::from_micros(2), "{took:?}");
    }
}
