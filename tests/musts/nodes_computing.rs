//! Who computes, and calls nothing of MPI's, serves what lies on its node all the same, in programs that have
//! initialised MPI for a single thread; and where nobody wants anything, a file that is open costs nothing.

use svmio_tests::{Hosts, Job, Mpi, Nodes, Program, Reports};

/// In a second in which nobody does anything: 0.5 per cent, for heartbeats and whatever else falls into it.
const MOST_CPU_US: i64 = 5_000;

fn served_by_those_who_compute(nodes: Nodes, mpi: Mpi, ranks: u32) {
    let program = Program::c("nodes_computing", mpi);
    let scratch = nodes.scratch();
    let reports = Reports::new(&scratch, "reports");
    let job = Job::new(&scratch, &program, ranks).over(nodes).argument("svm:/computing");
    let output = job.argument(reports.path()).succeed();
    assert!(output.contains("all was served"), "{output}");
    nodes.demand_stores(&scratch);
    for (rank, lines) in (0..).zip(reports.read(ranks)) {
        let numbers = |what: &str| -> Vec<i64> {
            let lines = lines.iter().filter(|line| line.what == what);
            lines.map(|line| line.result.parse().expect("it is a number")).collect()
        };
        let is_home = rank == 0 || rank == ranks - 1;
        assert_eq!(numbers("computed us").len(), if is_home { 2 } else { 0 }, "{mpi}, rank {rank}");
        let resting = numbers("resting CPU us");
        println!("{mpi}, rank {rank}: {resting:?} us of CPU time in a second");
        assert!(matches!(resting[..], [cpu] if cpu < MOST_CPU_US), "{mpi}, rank {rank}: {resting:?} us");
    }
}

#[test]
fn emulated_nodes() {
    for mpi in Mpi::DEBIAN {
        served_by_those_who_compute(Nodes::Emulated(4), mpi, 4);
    }
}

#[test]
fn several_ranks_on_a_node() {
    for mpi in Mpi::DEBIAN {
        served_by_those_who_compute(Nodes::Emulated(3), mpi, 6);
    }
}

#[test]
fn hosts() {
    let hosts = Hosts::new(4);
    for mpi in Mpi::DEBIAN {
        served_by_those_who_compute(Nodes::Hosts(&hosts), mpi, 4);
    }
}
