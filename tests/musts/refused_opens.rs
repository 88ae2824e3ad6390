//! Whoever opens a file by what cannot open one hears so, and neither waits nor loses the job.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program};

fn refused_opens(nodes: Nodes, mpi: Mpi) {
    let program = Program::c("refused_opens", mpi);
    let scratch = nodes.scratch();
    let job = Job::new(&scratch, &program, 4).over(nodes).limit(Duration::from_secs(60));
    let output = job.argument("svm:/refused").argument(scratch.path().join("stock")).succeed();
    assert!(output.contains("all were refused"), "{mpi}, {nodes:?}: {output}");
    nodes.demand_stores(&scratch);
}

#[test]
fn mpich() {
    refused_opens(Nodes::One, Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    refused_opens(Nodes::One, Mpi::DebianOpenMpi);
}

#[test]
fn mpich_5() {
    refused_opens(Nodes::One, Mpi::WheelMpich);
}

#[test]
fn openmpi_5() {
    refused_opens(Nodes::One, Mpi::WheelOpenMpi);
}

#[test]
fn on_emulated_nodes() {
    for mpi in Mpi::DEBIAN {
        refused_opens(Nodes::Emulated(2), mpi);
    }
}
