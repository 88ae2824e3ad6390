//! One program uses every data access routine of MPI-3.1, with all four MPIs.

use svmio_tests::{Job, Mpi, Program, Scratch, ranks_tried};

fn every_access_method(mpi: Mpi) {
    let program = Program::c("every_access_method", mpi);
    for ranks in ranks_tried(mpi, &[1, 2, 4]) {
        let scratch = Scratch::new();
        let output = Job::new(&scratch, &program, ranks).argument("svm:/some/where/file").succeed();
        assert!(output.contains("every access method works"), "{output}");
        assert!(scratch.store().is_dir(), "svmio kept nothing: the files were stock ones");
    }
}

#[test]
fn mpich() {
    every_access_method(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    every_access_method(Mpi::DebianOpenMpi);
}

#[test]
fn mpich5() {
    every_access_method(Mpi::WheelMpich);
}

#[test]
fn openmpi5() {
    every_access_method(Mpi::WheelOpenMpi);
}

fn fortran(mpi: Mpi) {
    let program = Program::fortran("fortran", mpi);
    for ranks in [1, 3] {
        let scratch = Scratch::new();
        let output = Job::new(&scratch, &program, ranks).argument("svm:/from/fortran").succeed();
        assert!(output.contains("Fortran works"), "{output}");
        assert!(scratch.store().is_dir(), "svmio kept nothing: the files were stock ones");
    }
}

#[test]
fn mpich_fortran() {
    fortran(Mpi::DebianMpich);
}

#[test]
fn openmpi_fortran() {
    fortran(Mpi::DebianOpenMpi);
}
