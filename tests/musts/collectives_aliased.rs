//! Collectives that are given one buffer to send from and to receive in, done by svmio: what MPI refuses of them, MPI
//! refuses, and of all others nothing is overwritten before it was sent.

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
