//! Where test programs run.

use std::sync::Arc;
use std::time::Duration;

use super::{MessageSettings, Messenger, Port};
use crate::back_end::BackEnd;
use crate::fabric::Fabric;
use crate::faulty::{FaultPlan, Faulty};
use crate::ofi;
use crate::shm;
use crate::sim::{FaultOptions, Model, SimOptions, World};

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

/// Runs `body` for each of `size` ranks with a messenger. No fabric is closed before all have ended.
pub(super) fn run(
    ground: &Ground,
    size: u32,
    settings: &MessageSettings,
    body: impl Fn(&Fabric, Messenger) + Sync,
) {
    let open = |fabric: &Fabric| Messenger::open(fabric, Port::FIRST, settings).unwrap();
    match ground {
        Ground::Threads => run_threads(&shm::within_process(size), |fabric| body(fabric, open(fabric))),
        Ground::FaultyThreads(plan) => {
            let fabrics = faulty(size, plan);
            run_threads(&fabrics, |fabric| body(fabric, open(fabric)));
        }
        Ground::Tcp => {
            let fabrics = ofi::within_process(size, "tcp").unwrap();
            run_threads(&fabrics, |fabric| body(fabric, open(fabric)));
        }
        Ground::Simulated { model, seed, faults } => {
            let mut options = SimOptions::new(size, Model::named(model).unwrap());
            options.seed = *seed;
            if *faults {
                let (dropped, late, repeated) = (0.02, 0.02, 0.02);
                options.faults = FaultOptions { dropped, late, repeated, ..FaultOptions::default() };
            }
            // A rank that panics leaves a thread behind that counts as panicking.
            let run = || World::new(options).run(|fabric| body(&fabric, open(&fabric))).map(drop);
            std::thread::scope(|scope| scope.spawn(run).join().unwrap()).unwrap();
        }
    }
}

/// Fabrics of one process over shared memory whose writes go wrong.
pub(super) fn faulty(size: u32, plan: &FaultPlan) -> Vec<Fabric> {
    let wrap = |(index, fabric): (usize, Fabric)| {
        let plan = FaultPlan { seed: plan.seed.wrapping_add(index as u64), ..*plan };
        let back_end: Arc<dyn BackEnd> = Faulty::new(Arc::clone(fabric.back_end()), plan);
        Fabric::new(back_end)
    };
    shm::within_process(size).into_iter().enumerate().map(wrap).collect()
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
