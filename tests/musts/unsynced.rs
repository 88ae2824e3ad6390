//! What other nodes see of what was written without a sync: all of it where that is asked for, and in a collective read
//! after a collective write. And that a file which a library closes at the end of MPI is whole.

use std::time::Duration;

use svmio_tests::{Hosts, Job, Mpi, Nodes, Program, Scratch};

const LIMIT: Duration = Duration::from_secs(60);

fn unsynced(mpi: Mpi, nodes: Nodes<'_>) {
    let program = Program::c("unsynced", mpi);
    let ranks = nodes.count() as u32 + 1;
    let ways =
        [("by-default", "own"), ("by-default", "shared"), ("by-hint", "own"), ("by-environment", "shared")];
    // The first open brings the nodes together in half of these, in the others MPI_Init.
    for ((how, outcome), meeting) in ways.into_iter().zip(["open", "init"].into_iter().cycle()) {
        let scratch: Scratch = nodes.scratch();
        let job = |what: &str| {
            let job = Job::new(&scratch, &program, ranks).over(nodes).limit(LIMIT);
            job.argument("svm:/unsynced")
                .argument(what)
                .variable("SVMIO_OUTCOME", outcome)
                .variable("SVMIO_MEET", meeting)
        };
        let writing = match how {
            "by-environment" => job(how).variable("SVMIO_VISIBILITY", "immediate"),
            _ => job(how),
        };
        let output = writing.succeed();
        assert!(output.contains("all was seen"), "{how}, {outcome}: {output}");
        let output = job("left").succeed();
        assert!(output.contains("it is all there"), "{how}, {outcome}: {output}");
        nodes.demand_stores(&scratch);
    }
}

#[test]
fn mpich_over_nodes() {
    unsynced(Mpi::DebianMpich, Nodes::Emulated(3));
}

#[test]
fn openmpi_over_nodes() {
    unsynced(Mpi::DebianOpenMpi, Nodes::Emulated(3));
}

#[test]
fn over_hosts() {
    let hosts = Hosts::new(2);
    for mpi in [Mpi::DebianMpich, Mpi::DebianOpenMpi] {
        unsynced(mpi, Nodes::Hosts(&hosts));
    }
}
