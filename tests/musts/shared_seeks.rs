//! Moving the shared file pointer leaves no rank waiting, also where it may not go there.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Program, Scratch};

fn shared_seeks(mpi: Mpi) {
    let program = Program::c("shared_seeks", mpi);
    let scratch = Scratch::new();
    let output =
        Job::new(&scratch, &program, 3).limit(Duration::from_secs(20)).argument("svm:/shared").succeed();
    assert!(output.contains("all have gone together"), "{output}");
    assert!(scratch.store().is_dir(), "svmio kept nothing: the files were stock ones");
}

#[test]
fn mpich() {
    shared_seeks(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    shared_seeks(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_5() {
    shared_seeks(Mpi::WheelMpich);
}
