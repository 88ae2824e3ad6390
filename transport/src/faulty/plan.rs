//! What goes wrong how often, and chance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::units::Rank;

/// What goes wrong how often. Probabilities are between 0 and 1, each for one fragment of a write, and cases of their
/// own: a fragment is dropped, or late, or repeated, or arrives as it should. A chain of DMA, whose end is told, cannot
/// lose anything in silence: it ends with an error as likely as a fragment is dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultPlan {
    /// From what chance begins: the same seed, the same faults.
    pub seed: u64,
    /// How likely a fragment never arrives, and how likely a chain ends with an error, a part of its bytes moved.
    pub dropped: f64,
    /// How likely a fragment arrives late.
    pub late: f64,
    /// How likely a fragment arrives in time, and once more late.
    pub repeated: f64,
    /// How late at most, unless a store barrier ends it.
    pub late_by: Duration,
}

impl Default for FaultPlan {
    /// Nothing goes wrong; what is made to be late is late by up to 200 µs, many times what a write takes.
    fn default() -> Self {
        Self { seed: 0, dropped: 0.0, late: 0.0, repeated: 0.0, late_by: Duration::from_micros(200) }
    }
}

/// What went wrong, counted in fragments of writes and in chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FaultCounts {
    /// All fragments.
    pub fragments: u64,
    /// Those that never arrived.
    pub dropped: u64,
    /// Those that arrived late.
    pub late: u64,
    /// Those that arrived twice.
    pub repeated: u64,
    /// Chains of DMA that were posted.
    pub chains: u64,
    /// Those that ended with an error, having done a part of their work.
    pub failed_chains: u64,
}

/// What becomes of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    IsDropped,
    /// How late.
    IsLate(Duration),
    /// How late for the second time.
    ArrivesTwice(Duration),
}

/// Chance, for the writes to each peer, and what it has done.
#[derive(Debug)]
pub(super) struct Chance {
    plan: FaultPlan,
    peers: Vec<PeerChance>,
}

#[derive(Debug)]
struct PeerChance {
    state: Mutex<(fastrand::Rng, FaultCounts)>,
    /// As in the counts, to be read without the lock.
    dropped: AtomicU64,
}

impl Chance {
    /// By `plan`, in a job of `size`.
    pub(super) fn new(plan: FaultPlan, size: u32) -> Self {
        let mut seeds = fastrand::Rng::with_seed(plan.seed);
        let peer = |_| PeerChance {
            state: Mutex::new((seeds.fork(), FaultCounts::default())),
            dropped: AtomicU64::new(0),
        };
        Self { plan, peers: (0..size).map(peer).collect() }
    }

    /// What becomes of the next fragment that goes to `peer`.
    pub(super) fn fate(&self, peer: Rank) -> Fate {
        let FaultPlan { dropped, late, repeated, late_by, .. } = self.plan;
        let Some(peer) = self.peers.get(peer.index()) else {
            return Fate::Arrives;
        };
        let (chance, counts) = &mut *peer.state();
        counts.fragments += 1;
        let lot = chance.f64();
        let late_by = late_by.mul_f64(chance.f64());
        if lot < dropped {
            counts.dropped += 1;
            // Release: pairs with the load in `dropped`, after which the check of a sequence is decided.
            peer.dropped.fetch_add(1, Ordering::Release);
            Fate::IsDropped
        } else if lot < dropped + late {
            counts.late += 1;
            Fate::IsLate(late_by)
        } else if lot < dropped + late + repeated {
            counts.repeated += 1;
            Fate::ArrivesTwice(late_by)
        } else {
            Fate::Arrives
        }
    }

    /// One of `count` places where a piece that goes to `peer` can be cut.
    pub(super) fn cut(&self, peer: Rank, count: u64) -> u64 {
        self.peers.get(peer.index()).map_or(0, |peer| peer.state().0.u64(0..count.max(1)))
    }

    /// How many of the `length` bytes of the next chain to `peer` are moved before it ends with an error: at least one
    /// and at most all; `None` where it goes well.
    pub(super) fn chain_fate(&self, peer: Rank, length: u64) -> Option<u64> {
        let peer = self.peers.get(peer.index())?;
        let (chance, counts) = &mut *peer.state();
        counts.chains += 1;
        if chance.f64() >= self.plan.dropped || length == 0 {
            return None;
        }
        counts.failed_chains += 1;
        Some(chance.u64(1..=length))
    }

    /// How many fragments to `peer` never arrived.
    pub(super) fn dropped(&self, peer: Rank) -> u64 {
        self.peers.get(peer.index()).map_or(0, |peer| peer.dropped.load(Ordering::Acquire))
    }

    /// What went wrong so far.
    pub(super) fn counts(&self) -> FaultCounts {
        self.peers.iter().fold(FaultCounts::default(), |sum, peer| {
            let counts = peer.state().1;
            FaultCounts {
                fragments: sum.fragments + counts.fragments,
                dropped: sum.dropped + counts.dropped,
                late: sum.late + counts.late,
                repeated: sum.repeated + counts.repeated,
                chains: sum.chains + counts.chains,
                failed_chains: sum.failed_chains + counts.failed_chains,
            }
        })
    }
}

impl PeerChance {
    fn state(&self) -> MutexGuard<'_, (fastrand::Rng, FaultCounts)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
