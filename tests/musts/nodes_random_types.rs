//! Through random nested datatypes, every byte of a file that is spread over four nodes is where MPI says.
//!
//! A failure is repeated as those of `random_types`, over the nodes.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program, is_full_run};

fn right(mpi: Mpi, ranks: u32) {
    let nodes = Nodes::Emulated(4);
    let program = Program::c("random_types", mpi);
    let scratch = nodes.scratch();
    let seeds = if is_full_run() { 2000 } else { 30 };
    let job =
        Job::new(&scratch, &program, ranks).over(nodes).argument("svm:/random/types").argument("together");
    let job = job.argument("0").argument(seeds.to_string());
    let output = job.limit(Duration::from_secs(if is_full_run() { 3600 } else { 120 })).succeed();
    assert!(output.contains(&format!("together: {seeds} seeds are right")), "{output}");
    nodes.demand_stores(&scratch);
}

#[test]
fn mpich() {
    right(Mpi::DebianMpich, 4);
}

#[test]
fn mpich_several_on_a_node() {
    right(Mpi::DebianMpich, 6);
}

#[test]
fn openmpi() {
    right(Mpi::DebianOpenMpi, 4);
}

#[test]
fn openmpi_several_on_a_node() {
    right(Mpi::DebianOpenMpi, 6);
}
