//! Where test programs run.

use std::sync::Arc;
use std::time::Duration;

use super::{MessageSettings, Messenger, Port};
use crate::back_end::BackEnd;
use crate::fabric::Fabric;
use crate::faulty::{FaultCounts, FaultPlan, Faulty};
use crate::ofi;
use crate::shm;
use crate::sim::{FaultOptions, Model, SimOptions, World};
use crate::statistics::Statistics;

/// What a program runs on.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ground {
    /// Threads, over shared memory.
    Threads,
    /// Threads, over shared memory whose writes go wrong.
    FaultyThreads(FaultPlan),
    /// Threads, over libfabric's provider for TCP.
    Tcp,
    /// Coroutines, over a simulated fabric.
    Simulated { model: &'static str, seed: u64, faults: bool },
}

/// What went wrong on purpose, in fragments of writes or in transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Faults {
    pub(super) dropped: u64,
    pub(super) late: u64,
    pub(super) repeated: u64,
}

impl Faults {
    pub(super) fn plus(self, other: Faults) -> Faults {
        Faults {
            dropped: self.dropped + other.dropped,
            late: self.late + other.late,
            repeated: self.repeated + other.repeated,
        }
    }
}

/// What came of a program.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) faults: Faults,
    /// By rank.
    pub(super) statistics: Vec<Statistics>,
}

/// Runs `body` for each of `size` ranks with a messenger. No fabric is closed before all have ended.
pub(super) fn run(
    ground: &Ground,
    size: u32,
    settings: &MessageSettings,
    body: impl Fn(&Fabric, Messenger) + Sync,
) -> Outcome {
    let open = |fabric: &Fabric| Messenger::open(fabric, Port::FIRST, settings).unwrap();
    let on_threads = |fabrics: &[Fabric]| {
        run_threads(fabrics, |fabric| body(fabric, open(fabric)));
        fabrics.iter().map(Fabric::statistics).collect()
    };
    match ground {
        Ground::Threads => {
            Outcome { faults: Faults::default(), statistics: on_threads(&shm::within_process(size)) }
        }
        Ground::FaultyThreads(plan) => {
            let back_ends = faulty_back_ends(size, plan);
            let statistics = on_threads(&fabrics_of(&back_ends));
            let counts = back_ends.iter().map(|back_end| {
                let FaultCounts { dropped, late, repeated, .. } = back_end.counts();
                Faults { dropped, late, repeated }
            });
            Outcome { faults: counts.fold(Faults::default(), Faults::plus), statistics }
        }
        Ground::Tcp => {
            let fabrics = ofi::within_process(size, "tcp").unwrap();
            Outcome { faults: Faults::default(), statistics: on_threads(&fabrics) }
        }
        Ground::Simulated { model, seed, faults } => {
            let mut options = SimOptions::new(size, Model::named(model).unwrap());
            options.seed = *seed;
            if *faults {
                let (dropped, late, repeated) = (0.02, 0.02, 0.02);
                options.faults = FaultOptions { dropped, late, repeated, ..FaultOptions::default() };
            }
            let body = |fabric: Fabric| {
                body(&fabric, open(&fabric));
                fabric.statistics()
            };
            // A rank that panics leaves a thread behind that counts as panicking.
            let run = || World::new(options).run(body);
            let report = std::thread::scope(|scope| scope.spawn(run).join().unwrap()).unwrap();
            let counts = report.faults;
            let faults = Faults { dropped: counts.dropped, late: counts.late, repeated: counts.repeated };
            Outcome { faults, statistics: report.results.into_iter().flatten().collect() }
        }
    }
}

/// Fabrics of one process over shared memory whose writes go wrong.
pub(super) fn faulty(size: u32, plan: &FaultPlan) -> Vec<Fabric> {
    fabrics_of(&faulty_back_ends(size, plan))
}

fn faulty_back_ends(size: u32, plan: &FaultPlan) -> Vec<Arc<Faulty>> {
    let wrap = |(index, fabric): (usize, Fabric)| {
        let plan = FaultPlan { seed: plan.seed.wrapping_add(index as u64), ..*plan };
        Faulty::new(Arc::clone(fabric.back_end()), plan)
    };
    shm::within_process(size).into_iter().enumerate().map(wrap).collect()
}

fn fabrics_of(back_ends: &[Arc<Faulty>]) -> Vec<Fabric> {
    let fabric = |back_end: &Arc<Faulty>| Fabric::new(Arc::clone(back_end) as Arc<dyn BackEnd>);
    back_ends.iter().map(fabric).collect()
}

/// Runs `body` on a thread for each fabric.
pub(super) fn run_threads(fabrics: &[Fabric], body: impl Fn(&Fabric) + Sync) {
    std::thread::scope(|scope| {
        for fabric in fabrics {
            let body = &body;
            scope.spawn(move || body(fabric));
        }
    });
}

/// A plan by which much goes wrong.
pub(super) fn bad_plan(seed: u64) -> FaultPlan {
    FaultPlan { seed, dropped: 0.05, late: 0.05, repeated: 0.05, late_by: Duration::from_micros(200) }
}
