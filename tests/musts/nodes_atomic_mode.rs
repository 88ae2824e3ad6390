//! In atomic mode no read sees a mix of overlapping writes from different nodes, whatever segments they lie in.

use std::time::Duration;

use svmio_tests::{Hosts, Job, Mpi, Nodes, Program, is_full_run};

/// Through handles that all ranks opened together.
fn one_communicator(nodes: Nodes, mpi: Mpi) {
    for ranks in nodes.numbers_of_ranks() {
        atomic_mode(nodes, mpi, ranks, &["one-communicator"]);
    }
}

/// Also through handles of some of them, or of one, at the same time.
fn several_communicators(nodes: Nodes, mpi: Mpi) {
    atomic_mode(nodes, mpi, 4, &[]);
}

fn atomic_mode(nodes: Nodes, mpi: Mpi, ranks: u32, which: &[&str]) {
    let program = Program::c("atomic_mode", mpi);
    let scratch = nodes.scratch();
    let rounds = if is_full_run() { "2000" } else { "20" };
    let job = Job::new(&scratch, &program, ranks).over(nodes).argument("svm:/atomic").argument(rounds);
    let job = which.iter().fold(job.argument("1"), |job, which| job.argument(which));
    let output = job.limit(Duration::from_secs(300)).succeed();
    assert!(output.contains("no read has seen a mix"), "{output}");
    nodes.demand_stores(&scratch);
}

#[test]
fn mpich_on_emulated_nodes() {
    one_communicator(Nodes::Emulated(4), Mpi::DebianMpich);
}

#[test]
fn openmpi_on_emulated_nodes() {
    one_communicator(Nodes::Emulated(4), Mpi::DebianOpenMpi);
}

#[test]
fn mpich_on_hosts() {
    one_communicator(Nodes::Hosts(&Hosts::new(4)), Mpi::DebianMpich);
}

#[test]
fn openmpi_on_hosts() {
    one_communicator(Nodes::Hosts(&Hosts::new(4)), Mpi::DebianOpenMpi);
}

#[test]
fn several_communicators_on_emulated_nodes() {
    for mpi in Mpi::DEBIAN {
        several_communicators(Nodes::Emulated(4), mpi);
    }
}

#[test]
fn several_communicators_on_hosts() {
    let hosts = Hosts::new(4);
    for mpi in Mpi::DEBIAN {
        several_communicators(Nodes::Hosts(&hosts), mpi);
    }
}
