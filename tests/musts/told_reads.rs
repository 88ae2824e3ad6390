//! What a read tells is what came of it, whatever MPI makes of that.

use svmio_tests::{Job, Mpi, Program, Scratch};

fn told_reads(mpi: Mpi) {
    let program = Program::c("told_reads", mpi);
    let scratch = Scratch::new();
    let output = Job::new(&scratch, &program, 2).argument("svm:/told").succeed();
    assert!(output.contains("told as it is"), "{output}");
    assert!(scratch.store().is_dir(), "svmio kept nothing: the files were stock ones");
}

#[test]
fn mpich() {
    told_reads(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    told_reads(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_5() {
    told_reads(Mpi::WheelMpich);
}
