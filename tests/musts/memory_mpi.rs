//! Programs of MPI that have a file mapped as memory and open by MPI-IO at the same time find the same in both, and
//! none of their ranks waits for one that is wrong.

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

fn none_waits_for_one_that_is_wrong(mpi: Mpi) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/memory/refused_together");
    let program = Program::c_that_maps(&source, mpi);
    for (nodes, ranks) in [(Nodes::One, 3), (Nodes::Emulated(2), 4)] {
        let scratch = nodes.scratch();
        let said = Job::new(&scratch, &program, ranks).over(nodes).succeed();
        assert!(said.contains("all are refused together"), "{mpi}: {said}");
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

#[test]
fn debian_mpich_refuses_together() {
    none_waits_for_one_that_is_wrong(Mpi::DebianMpich);
}

#[test]
fn debian_openmpi_refuses_together() {
    none_waits_for_one_that_is_wrong(Mpi::DebianOpenMpi);
}

#[test]
fn newest_mpich_refuses_together() {
    none_waits_for_one_that_is_wrong(Mpi::WheelMpich);
}

#[test]
fn newest_openmpi_refuses_together() {
    none_waits_for_one_that_is_wrong(Mpi::WheelOpenMpi);
}
