//! Memory that is registered and given back while peers write.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{SEGMENT, anonymous, connect, on_each, other, until};
use crate::memory::UserMemory;

/// Transfers, not messages, arrive while keys come and go: libfabric's `tcp` looked for the ones amid the others.
#[test]
fn keys_come_and_go_while_transfers_arrive() {
    const LENGTH: usize = 72 << 10;
    const ROUNDS: u64 = 500;
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
        // A thread that sleeps in the provider makes way at once.
        assert!(longest < Duration::from_secs(1), "registering took {longest:?}");
        own
    });
}
