//! A Rust program that uses MPI by the crate `mpi`, and files by `mpiio/file`, with every method of these.

use std::time::Duration;

use svmio_tests::{Files, Hosts, Installation, Job, Mpi, Nodes, Program, Scratch, stock};

/// The files of which every byte is the same in each run.
const SETTLED: [&str; 2] = ["placed", "viewed"];

fn every_method(mpi: Mpi) {
    let program = Program::rust("every_method", mpi);
    for ranks in [1, 2, 4] {
        let scratch = Scratch::new();
        let output = Job::new(&scratch, &program, ranks).argument("svm:/from/rust").succeed();
        assert!(output.contains("every method works"), "{output}");
        // Stock Open MPI 4.1 does not come through it: of its ROMIO nonblocking collectives crash, its ompio tells
        // another size than was set, and another class of error.
        let theirs = Program::rust("every_method", Mpi::DebianMpich);
        let files = scratch.new_directory("stock");
        let name = files.join("rust").display().to_string();
        Job::new(&scratch, &theirs, ranks).argument(name).files(Files::Stock).succeed();
        for part in SETTLED {
            let ours = Installation::get().cat(&scratch, &format!("/from/rust.{part}"));
            let theirs =
                std::fs::read(files.join(format!("rust.{part}"))).expect("the stock file can be read");
            stock::compare(&ours, &theirs, &format!("{part} of {ranks} ranks, {mpi}"));
        }
    }
}

#[test]
fn mpich() {
    every_method(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    every_method(Mpi::DebianOpenMpi);
}

fn over_nodes(nodes: Nodes, mpi: Mpi) {
    let program = Program::rust("every_method", mpi);
    let scratch = nodes.scratch();
    let job = Job::new(&scratch, &program, 4).over(nodes).limit(Duration::from_secs(300));
    let output = job.argument("svm:/from/rust").succeed();
    assert!(output.contains("every method works"), "{output}");
    nodes.demand_stores(&scratch);
}

#[test]
fn mpich_over_nodes() {
    over_nodes(Nodes::Emulated(4), Mpi::DebianMpich);
    over_nodes(Nodes::Hosts(&Hosts::new(4)), Mpi::DebianMpich);
}

#[test]
fn openmpi_over_nodes() {
    over_nodes(Nodes::Emulated(4), Mpi::DebianOpenMpi);
    over_nodes(Nodes::Hosts(&Hosts::new(4)), Mpi::DebianOpenMpi);
}
