//! Nonblocking and split collective accesses go on while the program computes.

use svmio_tests::{Job, Mpi, Nodes, Program, Scratch, ranks_tried};

fn background(mpi: Mpi) {
    // Held open, each kind of access goes on without its rank; and however a program asks for its end, it gets it.
    for name in ["going_on", "background"] {
        let program = Program::c(name, mpi);
        let scratch = Scratch::new();
        for ranks in ranks_tried(mpi, &[1, 2]) {
            all_goes_on(Job::new(&scratch, &program, ranks), &scratch, "1");
        }
        let scratch = Nodes::Emulated(2).scratch();
        all_goes_on(Job::new(&scratch, &program, 2).over(Nodes::Emulated(2)), &scratch, "2");
    }
}

fn all_goes_on(job: Job<'_>, scratch: &Scratch, nodes: &str) {
    let output = job.argument("svm:/background").argument(scratch.file("shared")).argument(nodes).succeed();
    assert!(output.contains("all went on"), "{output}");
    assert!(!output.contains("nonblocking accesses block"), "{output}");
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
