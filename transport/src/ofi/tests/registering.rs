//! Memory that is registered and given back while peers write.

use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::hanging::{quick, ranks_by};
use super::{PROVIDERS, SEGMENT, anonymous, connect, connect_to, on_each, other, until};
use crate::memory::UserMemory;
use crate::ofi::sys;
use crate::{Rank, SegmentId};

/// Transfers, not messages, arrive while keys come and go: libfabric's `tcp` looked for the ones amid the others.
#[test]
fn keys_come_and_go_while_transfers_arrive() {
    // A thread that sleeps in the provider makes way at once, or it does not in any attempt. A busy machine keeps a
    // thread from its turn now and then.
    let is_soon = |longest: Duration| {
        println!("registering took {longest:?} at the longest");
        longest < Duration::from_secs(1)
    };
    assert!((0..3).map(|_| longest_while_transfers_arrive()).any(is_soon));
}

/// How long a key took at the longest.
fn longest_while_transfers_arrive() -> Duration {
    const LENGTH: usize = 72 << 10;
    const ROUNDS: u64 = 200;
    let longest_of_all = Mutex::new(Duration::ZERO);
    on_each(2, |fabric| {
        let own = fabric.create(SEGMENT, &anonymous(LENGTH as u64 + 8)).unwrap();
        let remote = connect(&fabric, other(&fabric));
        let has_written = AtomicBool::new(false);
        let mut longest = Duration::ZERO;
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    remote.write(0, &[round as u8; LENGTH]).unwrap();
                    remote.write(LENGTH as u64, &round.to_ne_bytes()).unwrap();
                }
                has_written.store(true, Ordering::Relaxed);
            });
            let memory = vec![0_u8; 64 * 64];
            let mut kept = Vec::new();
            let mut random = fastrand::Rng::with_seed(u64::from(fabric.rank().0));
            while !has_written.load(Ordering::Relaxed) {
                let begun = Instant::now();
                if kept.len() < 64 && random.bool() {
                    let start = NonNull::from(&memory[kept.len() * 64]);
                    // SAFETY: the memory lives longer than the registration, whose key no peer is told.
                    kept.push(unsafe { fabric.register(UserMemory { start, length: 64 }) }.unwrap());
                } else if !kept.is_empty() {
                    drop(kept.swap_remove(random.usize(..kept.len())));
                }
                longest = longest.max(begun.elapsed());
            }
        });
        until(&fabric, || own.memory().word64(LENGTH as u64).unwrap().load(Ordering::Acquire) == ROUNDS);
        let mut longest_of_all = longest_of_all.lock().unwrap();
        *longest_of_all = longest.max(*longest_of_all);
        own
    });
    longest_of_all.into_inner().unwrap()
}

/// Of memory that is not exported any more nothing is read, and nothing else is lost by that: what was under way with
/// the same peer, in either direction, arrives.
#[test]
fn a_short_read_of_what_is_gone_is_refused_and_disturbs_nothing() {
    const WRITES: u64 = 400;
    const GONE: SegmentId = SegmentId::new(7, 2);
    const DONE: SegmentId = SegmentId::new(7, 3);
    on_each(2, |fabric| {
        let own = fabric.create(SEGMENT, &anonymous(8)).unwrap();
        let done = fabric.create(DONE, &anonymous(8)).unwrap();
        let gone = fabric.create(GONE, &anonymous(64)).unwrap();
        let remote = connect(&fabric, other(&fabric));
        let remote_done = connect_to(&fabric, other(&fabric), DONE);
        let remote_gone = connect_to(&fabric, other(&fabric), GONE);
        remote_gone.write(8, &[7; 8]).unwrap();
        let mut found = [1; 24];
        remote_gone.read(0, &mut found).unwrap();
        assert_eq!(found.map(u64::from).iter().sum::<u64>(), 56, "{found:?}");
        remote_done.write(0, &1_u64.to_ne_bytes()).unwrap();
        until(&fabric, || done.memory().word64(0).unwrap().load(Ordering::Acquire) >= 1);
        drop(gone);
        remote_done.write(0, &2_u64.to_ne_bytes()).unwrap();
        until(&fabric, || done.memory().word64(0).unwrap().load(Ordering::Acquire) == 2);
        for round in 1..=WRITES {
            remote.write(0, &round.to_ne_bytes()).unwrap();
            if round % 40 == 0 {
                let refused = remote_gone.read(0, &mut [0; 64]).unwrap_err();
                assert!(matches!(refused, crate::Error::OutOfBounds { .. }), "{refused}");
            }
        }
        until(&fabric, || own.memory().word64(0).unwrap().load(Ordering::Acquire) == WRITES);
        (own, done)
    });
}

/// Keys are chosen by chance, so that one may be chosen that is taken.
#[test]
fn memory_whose_key_is_taken_gets_another_one() {
    for provider in PROVIDERS {
        let [(zero, adapter), (one, _)] = ranks_by(&quick(provider, 20));
        // What the provider itself says of such a key, whatever the number is called.
        let taken = -(sys::FI_ENOKEY as i32);
        let fail = |count| {
            adapter.with_endpoint(|endpoint| {
                endpoint.domain().faults().fail_registrations(vec![taken; count]);
                Ok(())
            })
        };
        fail(1).unwrap();
        let segment = zero.create(SEGMENT, &anonymous(8)).unwrap();
        one.connect(Rank(0), SEGMENT).unwrap().write(0, &[7; 8]).unwrap();
        one.store_barrier(Rank(0)).unwrap();
        assert_eq!(segment.memory().word64(0).unwrap().load(Ordering::Acquire), u64::from_ne_bytes([7; 8]));
        // None of many is free: that is no chance any more.
        fail(4).unwrap();
        let error = zero.create(SegmentId::new(7, 2), &anonymous(8)).unwrap_err();
        assert!(matches!(error, crate::Error::Provider { .. }), "{provider}: {error}");
        drop(segment);
        [zero, one].iter().for_each(crate::Fabric::close);
    }
}
