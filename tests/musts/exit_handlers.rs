//! That files can be used, closed, and MPI finalized in exit handlers, where what a thread keeps with a destructor is
//! gone.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program};

fn is_served(mpi: Mpi) {
    let program = Program::c("exit_handler", mpi);
    for nodes in [Nodes::One, Nodes::Emulated(2)] {
        let scratch = nodes.scratch();
        let job = Job::new(&scratch, &program, 2).over(nodes).limit(Duration::from_secs(60));
        let output = job.argument("svm:/at-exit").succeed();
        assert!(output.contains("all was done at the end"), "{mpi}, {nodes:?}: {output}");
    }
}

#[test]
fn mpich() {
    is_served(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    is_served(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_5() {
    is_served(Mpi::WheelMpich);
}

#[test]
fn openmpi_5() {
    is_served(Mpi::WheelOpenMpi);
}
