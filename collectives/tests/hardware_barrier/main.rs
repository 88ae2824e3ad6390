//! The hardware barrier over its devices: emulated controllers between threads and between processes, and parallel
//! ports as a model of registers and cables.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod emulated;
mod ports;
mod processes;

use std::sync::atomic::{AtomicU64, Ordering};

use svmio_collectives::hardware::{Barrier, Error};

/// Who has come, to hold against who has left.
#[derive(Debug)]
struct Register {
    nodes: u64,
    come: AtomicU64,
}

impl Register {
    fn new(nodes: usize) -> Self {
        Self { nodes: nodes as u64, come: AtomicU64::new(0) }
    }

    /// Goes through barriers; in each, all have come before any leaves.
    fn attend(&self, barrier: &mut Barrier, rounds: u64) {
        for round in 1..=rounds {
            self.attend_one(barrier, round);
        }
    }

    /// Goes through barrier number `round`, counted from 1.
    fn attend_one(&self, barrier: &mut Barrier, round: u64) {
        // Relaxed: the barrier has to order it.
        self.come.fetch_add(1, Ordering::Relaxed);
        barrier.wait(|| Ok::<(), Error>(())).unwrap();
        let come = self.come.load(Ordering::Relaxed);
        assert!(come >= round * self.nodes, "round {round}: {come} had come of {}", self.nodes);
    }
}
