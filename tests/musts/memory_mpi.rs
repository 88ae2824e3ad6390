//! Programs of MPI that have a file mapped as memory and open by MPI-IO at the same time find the same in both.

use std::path::Path;

use svmio_tests::{Job, Mpi, Nodes, Program};

/// The guide's program: writes by MPI-IO, changes what the others wrote as memory, reads that by MPI-IO.
fn both_faces_agree(mpi: Mpi) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../c/examples/rod_mpi");
    let program = Program::c_that_maps(&example, mpi);
    for (nodes, ranks) in [(Nodes::One, 2), (Nodes::Emulated(2), 4)] {
        let scratch = nodes.scratch();
        // The second job finds the file of the first.
        for _ in 0..2 {
            let said = Job::new(&scratch, &program, ranks).over(nodes).succeed();
            assert!(said.contains(&format!("{ranks} ranks, 0 wrong cells")), "{mpi}: {said}");
        }
        nodes.demand_stores(&scratch);
    }
}

#[test]
fn debian_mpich() {
    both_faces_agree(Mpi::DebianMpich);
}

#[test]
fn debian_openmpi() {
    both_faces_agree(Mpi::DebianOpenMpi);
}

#[test]
fn newest_mpich() {
    both_faces_agree(Mpi::WheelMpich);
}

#[test]
fn newest_openmpi() {
    both_faces_agree(Mpi::WheelOpenMpi);
}
