//! Who computes, and calls nothing of MPI's, serves what lies on its node all the same, in programs that have
//! initialised MPI for a single thread; and where nobody wants anything, a file that is open costs nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use svmio_tests::{Hosts, Job, Mpi, Nodes, Program, Reports, is_full_run};

/// In a second in which nobody does anything: 0.5 per cent, for heartbeats and whatever else falls into it.
const MOST_CPU_US: i64 = 5_000;

/// After how long a rank that says nothing counts as lost where one computes for longer, and how many seconds it does at
/// least.
const WATCHDOG: &str = "1s";
const LONG: u64 = 2;

/// The same where nobody computes for longer than the others take: nobody is to be lost for want of a turn.
const PATIENCE: &str = "60s";

fn served_by_those_who_compute(nodes: Nodes, mpi: Mpi, ranks: u32, seconds: u64) {
    let program = Program::c("nodes_computing", mpi);
    let scratch = nodes.scratch();
    let reports = Reports::new(&scratch, "reports");
    let job = Job::new(&scratch, &program, ranks).over(nodes).argument("svm:/computing");
    let job = job.variable("SVMIO_WATCHDOG_TIMEOUT", if seconds == 0 { PATIENCE } else { WATCHDOG });
    let output = job.argument(reports.path()).argument(seconds.to_string()).succeed();
    assert!(output.contains("all was served"), "{output}");
    nodes.demand_stores(&scratch);
    for (rank, lines) in (0..).zip(reports.read(ranks)) {
        let numbers = |what: &str| -> Vec<i64> {
            let lines = lines.iter().filter(|line| line.what == what);
            lines.map(|line| line.result.parse().expect("it is a number")).collect()
        };
        let is_home = rank == 0 || rank == ranks - 1;
        let computed = numbers("computed us");
        assert_eq!(computed.len(), if is_home { 2 } else { 0 }, "{mpi}, rank {rank}");
        assert!(
            computed.iter().all(|us| us.unsigned_abs() >= seconds * 1_000_000),
            "{mpi}, rank {rank}: {computed:?}"
        );
        let resting = numbers("resting CPU us");
        println!("{mpi}, rank {rank}: {resting:?} us of CPU time in a second");
        assert!(matches!(resting[..], [cpu] if cpu < MOST_CPU_US), "{mpi}, rank {rank}: {resting:?} us");
    }
}

#[test]
fn emulated_nodes() {
    for mpi in Mpi::DEBIAN {
        served_by_those_who_compute(Nodes::Emulated(4), mpi, 4, 0);
    }
}

#[test]
fn several_ranks_on_a_node() {
    for mpi in Mpi::DEBIAN {
        served_by_those_who_compute(Nodes::Emulated(3), mpi, 6, 0);
    }
}

#[test]
fn hosts() {
    let hosts = Hosts::new(4);
    let seconds = if is_full_run() { 60 } else { LONG };
    for mpi in Mpi::DEBIAN {
        let serve = || served_by_those_who_compute(Nodes::Hosts(&hosts), mpi, 4, seconds);
        // A busy machine may keep a rank silent for a second; one that computes and says nothing is so each time.
        if catch_unwind(AssertUnwindSafe(serve)).is_err() {
            serve();
        }
    }
}
