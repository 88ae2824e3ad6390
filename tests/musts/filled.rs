//! That programs which leave out syncs find the order in which their ranks have written, where they are known for that:
//! PnetCDF fills variables, and has other ranks write over that.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program, Scratch};

const RANKS: u32 = 4;

fn stays(mpi: Mpi) {
    let (program, known) = (Program::c("filled", mpi), Program::library("pnetcdf", mpi));
    for nodes in [Nodes::One, Nodes::Emulated(2), Nodes::Emulated(4)] {
        let scratch: Scratch = nodes.scratch();
        let job = Job::new(&scratch, &program, RANKS).over(nodes).limit(Duration::from_secs(60));
        let output = job.argument("svm:/filled").variable("LD_PRELOAD", &known.path).succeed();
        assert!(output.contains("what was written last is there"), "{output}");
        nodes.demand_stores(&scratch);
    }
}

#[test]
fn mpich() {
    stays(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    stays(Mpi::DebianOpenMpi);
}
