//! A file that is opened again and again costs little, and is as new each time.

use svmio_tests::{Job, Mpi, Program, Scratch, ranks_tried};

fn reopened(mpi: Mpi) {
    let program = Program::c("reopened", mpi);
    for ranks in ranks_tried(mpi, &[1, 2, 3]) {
        let scratch = Scratch::new();
        let output = Job::new(&scratch, &program, ranks).argument("svm:/some/where/file").succeed();
        assert!(output.contains("every open finds a new file"), "{output}");
        assert!(scratch.store().is_dir(), "svmio kept nothing: the files were stock ones");
    }
}

#[test]
fn mpich() {
    reopened(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    reopened(Mpi::DebianOpenMpi);
}

#[test]
fn mpich5() {
    reopened(Mpi::WheelMpich);
}

#[test]
fn openmpi5() {
    reopened(Mpi::WheelOpenMpi);
}
