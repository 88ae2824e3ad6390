//! Where MPI refuses one rank's part of a collective access, or ranks ask for different modes, none is left waiting.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program};

fn refused_parts(nodes: Nodes, mpi: Mpi, ranks: u32) {
    let program = Program::c("refused_parts", mpi);
    for arguments in [&["own"][..], &["shared"], &["own", "handled"], &["shared", "handled"]] {
        let scratch = nodes.scratch();
        let job = Job::new(&scratch, &program, ranks).over(nodes).limit(Duration::from_secs(60));
        let job = arguments.iter().fold(job.argument("svm:/refused"), |job, argument| job.argument(argument));
        let output = job.succeed();
        assert!(output.contains("nobody waits"), "{arguments:?}: {output}");
        nodes.demand_stores(&scratch);
    }
}

#[test]
fn mpich() {
    refused_parts(Nodes::One, Mpi::DebianMpich, 3);
}

#[test]
fn openmpi() {
    refused_parts(Nodes::One, Mpi::DebianOpenMpi, 3);
}

#[test]
fn on_emulated_nodes() {
    for mpi in Mpi::DEBIAN {
        refused_parts(Nodes::Emulated(3), mpi, 3);
    }
}

#[test]
fn mpich_5() {
    refused_parts(Nodes::One, Mpi::WheelMpich, 3);
}

#[test]
fn openmpi_5() {
    refused_parts(Nodes::One, Mpi::WheelOpenMpi, 3);
}
