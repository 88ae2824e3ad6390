//! A collective write of 1 GiB in pieces of 8 bytes needs no rank more than 64 MiB beyond its buffer.
//!
//! Plain runs measure 32 and 128 MiB, and conclude from these what 1 GiB would need; full ones measure that, too, and
//! so do plain ones that would conclude that it is too much.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program, is_full_run};

const MOST_KIB: i64 = 64 << 10;

/// What the rank that needs most needs beyond its buffer, in KiB.
fn needed(nodes: Nodes<'_>, program: &Program, ranks: u32, mib: i64) -> i64 {
    let scratch = nodes.scratch();
    let job = Job::new(&scratch, program, ranks).over(nodes).argument("svm:/large").argument(mib.to_string());
    // What is read of other nodes is cached, as far as the capacity goes: that is asked for, and not counted here.
    let job = job.argument("8").argument("collective").variable("SVMIO_CACHE_CAPACITY", "4M");
    let output = job.limit(Duration::from_secs(600)).succeed();
    let told = output.lines().find_map(|line| line.strip_prefix("KiB beyond buffers: "));
    told.unwrap_or_else(|| panic!("{output}")).trim().parse().expect("it is a number")
}

fn little(nodes: Nodes<'_>, mpi: Mpi) {
    let program = Program::c("peak_memory", mpi);
    for ranks in [2, 4] {
        let (small, large) = (needed(nodes, &program, ranks, 32), needed(nodes, &program, ranks, 128));
        let concluded = large + (large - small).max(0) * (1024 - 128) / (128 - 32);
        println!("{mpi}, {ranks} ranks: {small} KiB for 32 MiB, {large} for 128, so {concluded} for 1 GiB");
        // What a run takes more than another by chance counts nine times in the conclusion.
        if concluded >= MOST_KIB || is_full_run() {
            let whole = needed(nodes, &program, ranks, 1024);
            println!("{mpi}, {ranks} ranks: {whole} KiB for 1 GiB");
            assert!(whole < MOST_KIB, "{mpi}, {ranks} ranks: {whole} KiB for 1 GiB");
        }
    }
}

#[test]
fn mpich() {
    little(Nodes::One, Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    little(Nodes::One, Mpi::DebianOpenMpi);
}

#[test]
fn mpich_over_nodes() {
    little(Nodes::Emulated(4), Mpi::DebianMpich);
}

#[test]
fn openmpi_over_nodes() {
    little(Nodes::Emulated(4), Mpi::DebianOpenMpi);
}
