//! Ranks that open a file to append begin at the same place, also where their nodes do not know of the same bytes.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program};

fn appended(mpi: Mpi) {
    let program = Program::c("appended", mpi);
    for nodes in [Nodes::One, Nodes::Emulated(2)] {
        let scratch = nodes.scratch();
        let job = Job::new(&scratch, &program, 2).over(nodes).limit(Duration::from_secs(60));
        let output = job.argument("svm:/appended").succeed();
        assert!(output.contains("all have appended"), "{mpi}, {nodes:?}: {output}");
        nodes.demand_stores(&scratch);
    }
}

#[test]
fn mpich() {
    appended(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    appended(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_5() {
    appended(Mpi::WheelMpich);
}

#[test]
fn openmpi_5() {
    appended(Mpi::WheelOpenMpi);
}
