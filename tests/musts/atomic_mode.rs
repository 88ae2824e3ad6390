//! In atomic mode no read sees a mix of overlapping writes, whatever segments they lie in.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Program, Scratch, is_full_run};

fn atomic_mode(mpi: Mpi) {
    let program = Program::c("atomic_mode", mpi);
    let scratch = Scratch::new();
    let rounds = if is_full_run() { "10000" } else { "2000" };
    let job = Job::new(&scratch, &program, 4).argument("svm:/atomic").argument(rounds);
    let output = job.argument("1").limit(Duration::from_secs(300)).succeed();
    assert!(output.contains("no read has seen a mix"), "{output}");
}

#[test]
fn mpich() {
    atomic_mode(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    atomic_mode(Mpi::DebianOpenMpi);
}
