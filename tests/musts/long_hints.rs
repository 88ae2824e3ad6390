//! Hints may have values as long as the MPI takes them.

use svmio_tests::{Job, Mpi, Program, Scratch};

fn long_hints(mpi: Mpi) {
    let program = Program::c("long_hints", mpi);
    let scratch = Scratch::new();
    let output = Job::new(&scratch, &program, 3).argument("svm:/hinted").succeed();
    assert!(output.contains("told whole"), "{output}");
    assert!(scratch.store().is_dir(), "svmio kept nothing: the files were stock ones");
}

#[test]
fn mpich() {
    long_hints(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    long_hints(Mpi::DebianOpenMpi);
}
