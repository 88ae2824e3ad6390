//! How a world runs: many nodes, the same again from the same seed, services, and how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use svmio_transport::back_end::{Wait, Waited};
use svmio_transport::sim::{SimError, SimOptions, SimReport, World};
use svmio_transport::{Interrupt, Rank, Time};

use crate::worlds::{FLAGS, anonymous, await_word, options, other, pair};

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
