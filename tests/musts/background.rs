//! Nonblocking and split collective accesses go on while the program computes.

use svmio_tests::{Job, Mpi, Nodes, Program, Scratch, ranks_tried};

fn background(mpi: Mpi) {
    let program = Program::c("background", mpi);
    let scratch = Scratch::new();
    for ranks in ranks_tried(mpi, &[1, 2]) {
        let output = Job::new(&scratch, &program, ranks).argument("svm:/background").succeed();
        assert!(output.contains("all went on"), "{output}");
    }
    let scratch = Nodes::Emulated(2).scratch();
    let job = Job::new(&scratch, &program, 2).over(Nodes::Emulated(2)).argument("svm:/background");
    let output = job.succeed();
    assert!(output.contains("all went on"), "{output}");
}

#[test]
fn mpich() {
    background(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    background(Mpi::DebianOpenMpi);
}

#[test]
fn mpich5() {
    background(Mpi::WheelMpich);
}

#[test]
fn openmpi5() {
    background(Mpi::WheelOpenMpi);
}
