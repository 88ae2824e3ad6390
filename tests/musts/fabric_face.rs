//! The same suite of the fabric's face runs on all back ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use svmio_tests::{FabricJob, Hosts, face, is_full_run, ranks};
use svmio_transport::JobSecret;
use svmio_transport::back_end::BackEnd;
use svmio_transport::faulty::{FaultPlan, Faulty};
use svmio_transport::ofi::{self, OfiSettings};
use svmio_transport::shm::{self, ShmSettings};
use svmio_transport::sim::{FaultOptions, Model, SimOptions, World};

const PROCESS: &str = env!("CARGO_BIN_EXE_fabric_process");
const LIMIT: Duration = Duration::from_secs(120);

/// A back end as it is.
fn plain(back_end: Arc<dyn BackEnd>) -> Arc<dyn BackEnd> {
    back_end
}

/// The suite on a rank that is a thread.
fn suite(rank: &ranks::ThreadRank<'_>) {
    drop(face::run(&rank.fabric, || rank.gather()));
    face::end(&rank.fabric, || rank.gather());
}

#[test]
fn shm_in_threads() {
    for size in if is_full_run() { vec![2, 3, 4, 8] } else { vec![2, 4] } {
        let secret = JobSecret::random().unwrap();
        ranks::in_threads(size, |_| shm::prepare(&ShmSettings::default(), &secret).unwrap(), plain, suite);
    }
}

#[test]
fn shm_in_processes() {
    for what in ["face", "end"] {
        let job = FabricJob::new(PROCESS, &[what], 3);
        let reports = job.variable("SVMIO_FABRIC", "shm").start().succeed(LIMIT);
        check(&reports, "shm");
    }
}

#[test]
fn ofi_in_processes() {
    for what in ["face", "end"] {
        let job = FabricJob::new(PROCESS, &[what], 3);
        let reports = job.variable("SVMIO_FABRIC", "ofi").start().succeed(LIMIT);
        check(&reports, "ofi");
    }
}

/// The suite on libfabric in this process, over its loopback interface, with settings that few need: the longest write
/// that goes by messages, and whether threads sleep by the provider's wait objects. With the usual ones it runs in
/// processes.
fn ofi_in_threads(provider: &str, longest_store: usize, wait_objects: bool) {
    let secret = JobSecret::random().expect("the kernel has random numbers");
    let usual = OfiSettings { provider: provider.into(), ..OfiSettings::default() };
    let mut all = vec![OfiSettings { longest_store, wait_objects, ..usual.clone() }];
    if is_full_run() {
        let longest_store = 256 - longest_store;
        all.extend([OfiSettings { longest_store, wait_objects: !wait_objects, ..usual.clone() }, usual]);
    }
    for settings in all {
        let prepare = |_| ofi::prepare(&settings, &secret).expect("libfabric has the provider");
        ranks::in_threads(3, prepare, plain, suite);
    }
}

#[test]
fn ofi_by_net_in_threads() {
    ofi_in_threads("net", 0, false);
}

#[test]
fn ofi_by_rxm_over_tcp_in_threads() {
    ofi_in_threads("tcp;ofi_rxm", 256, true);
}

#[test]
fn ofi_between_hosts() {
    let hosts = Hosts::new(2);
    let all = [("net", "face"), ("net", "end"), ("tcp;ofi_rxm", "face"), ("tcp;ofi_rxm", "end")];
    for (provider, what) in if is_full_run() { &all[..] } else { &all[..3] } {
        // Two on each host; of the older provider, in a short run, one.
        let size = if *provider == "net" || is_full_run() { 4 } else { 2 };
        let job = FabricJob::new(PROCESS, &[what], size);
        let job = job.variable("SVMIO_FABRIC", "ofi").variable("SVMIO_OFI_PROVIDER", provider);
        let reports = job.in_hosts(&hosts, 7700).start().succeed(LIMIT);
        check(&reports, "ofi");
    }
}

#[test]
fn shm_with_faults_in_threads() {
    for seed in 0..if is_full_run() { 20 } else { 2 } {
        let secret = JobSecret::random().unwrap();
        let prepare = |_| shm::prepare(&ShmSettings::default(), &secret).unwrap();
        let faulty = Mutex::new(Vec::new());
        let wrap = |inner: Arc<dyn BackEnd>| {
            let seed = seed * 100 + u64::from(inner.membership().rank().0);
            let plan = FaultPlan { seed, dropped: 0.01, late: 0.05, repeated: 0.05, ..FaultPlan::default() };
            let back_end = Faulty::new(inner, plan);
            faulty.lock().unwrap().push(Arc::clone(&back_end));
            back_end as Arc<dyn BackEnd>
        };
        let broken = AtomicU64::new(0);
        ranks::in_threads(2 + seed as u32 % 3, prepare, wrap, |rank| {
            suite(rank);
            // Relaxed: only a sum, read after all threads have ended.
            broken.fetch_add(rank.fabric.statistics().broken_sequences, Ordering::Relaxed);
        });
        let counts: Vec<_> = faulty.lock().unwrap().iter().map(|back_end| back_end.counts()).collect();
        println!("seed {seed}: {counts:?}, {broken:?} broken sequences");
        assert!(broken.into_inner() > 0, "seed {seed}: nothing was found broken");
        assert!(
            counts.iter().all(|count| count.dropped > 0 && count.late > 0 && count.repeated > 0),
            "{counts:?}"
        );
    }
}

/// Each rank has run the suite, on the fabric that was asked for, and finished well.
fn check(reports: &[Value], back_end: &str) {
    for (rank, report) in reports.iter().enumerate() {
        assert_eq!(report["outcome"], "done", "rank {rank}: {report}");
        assert_eq!(report["finish"], Value::Null, "rank {rank}: {report}");
        assert_eq!(report["capabilities"]["back_end"], back_end, "rank {rank}: {report}");
    }
}

/// The suite in a simulated world; the second run of a seed is like the first.
fn sim(model: &str, size: u32, seed: u64, faults: &FaultOptions) {
    let mut options = SimOptions::new(size, Model::named(model).expect("a built-in model"));
    options.seed = seed;
    options.faults = faults.clone();
    let run = || {
        let suite = |fabric: svmio_transport::Fabric| {
            // All that is under way arrives within a second.
            let gather = || fabric.back_end().sleep(Duration::from_secs(1));
            drop(face::run(&fabric, gather));
            let statistics = fabric.statistics();
            face::end(&fabric, gather);
            statistics
        };
        let report = World::new(options.clone()).run(suite);
        report.unwrap_or_else(|error| panic!("{model}, {size} ranks, seed {seed}: {error}"))
    };
    let report = run();
    println!(
        "{model}, {size} ranks, seed {seed}: {:?} of virtual time, {:?}",
        report.duration, report.faults
    );
    let broken: u64 = report.results.iter().flatten().map(|statistics| statistics.broken_sequences).sum();
    assert_eq!(broken > 0, faults.dropped > 0.0, "{model}, seed {seed}: {broken} broken sequences");
    // Once is enough: what the runs share is not the model.
    assert!(model != "sci-ring" || run() == report, "{model}, seed {seed}: two runs of one seed differ");
}

#[test]
fn sim_of_every_model() {
    for model in Model::names() {
        for size in if is_full_run() { vec![2, 4, 6] } else { vec![3] } {
            sim(model, size, 0, &FaultOptions::default());
        }
    }
}

#[test]
fn sim_with_faults() {
    let faults = FaultOptions { dropped: 0.001, late: 0.02, repeated: 0.02, ..FaultOptions::default() };
    for model in Model::names() {
        for seed in 0..if is_full_run() { 5 } else { 1 } {
            sim(model, 3, seed, &faults);
        }
    }
}
