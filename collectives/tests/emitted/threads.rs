//! Threads that look after each barrier whether all have come.

use std::sync::atomic::{AtomicU32, Ordering};

const ROUNDS: u32 = 300;

fn holds<M: Sync>(ranks: usize, memory: &M, wait: fn(&M, usize)) {
    let come: Vec<_> = (0..ranks).map(|_| AtomicU32::new(0)).collect();
    let come = &come;
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            scope.spawn(move || {
                let mut chance = rank as u32 + 1;
                for round in 1..=ROUNDS {
                    chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    if chance >> 30 == 0 {
                        std::thread::yield_now();
                    }
                    come[rank].store(round, Ordering::Relaxed);
                    wait(memory, rank);
                    for (other, come) in come.iter().enumerate() {
                        assert!(
                            come.load(Ordering::Relaxed) >= round,
                            "rank {rank} left before rank {other} came"
                        );
                    }
                }
            });
        }
    });
}
