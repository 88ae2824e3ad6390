//! That files of single ranks are found on all nodes where these have met when MPI was initialized, also with svmio's
//! collectives, and that all goes on where that is not asked for.

use std::time::Duration;

use svmio_tests::{Hosts, Job, Mpi, Nodes, Program, Scratch, is_full_run};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: u32 = 4;

fn found(mpi: Mpi) {
    let program = Program::c("alone_first", mpi);
    let nodes = Nodes::Emulated(3);
    for collectives in [None, Some("preload")] {
        let scratch: Scratch = nodes.scratch();
        let mut job = Job::new(&scratch, &program, RANKS).over(nodes).limit(LIMIT);
        if let Some(adapter) = collectives {
            job = job.collectives(adapter);
        }
        let output = job.argument("svm:/alone").variable("SVMIO_MEET", "init").succeed();
        assert!(output.contains("all was found"), "{output}");
        nodes.demand_stores(&scratch);
    }
}

#[test]
fn mpich_over_nodes() {
    found(Mpi::DebianMpich);
}

#[test]
fn openmpi_over_nodes() {
    found(Mpi::DebianOpenMpi);
}

#[test]
fn hosts_meet_without_being_asked() {
    let hosts = Hosts::new(2);
    for mpi in [Mpi::DebianMpich, Mpi::DebianOpenMpi] {
        let (program, nodes) = (Program::c("alone_first", mpi), Nodes::Hosts(&hosts));
        let scratch: Scratch = nodes.scratch();
        let output =
            Job::new(&scratch, &program, RANKS).over(nodes).limit(LIMIT).argument("svm:/alone").succeed();
        assert!(output.contains("all was found"), "{output}");
        nodes.demand_stores(&scratch);
    }
}

#[test]
fn what_makes_no_sense_is_told_and_one_node_needs_no_meeting() {
    for mpi in [Mpi::DebianMpich, Mpi::DebianOpenMpi] {
        let program = Program::c("alone_first", mpi);
        for (value, told) in [("init", None), ("later", Some("SVMIO_MEET=later is neither init nor open"))] {
            let scratch = Scratch::new();
            let job = Job::new(&scratch, &program, 2).limit(LIMIT).argument("svm:/alone");
            let output = job.variable("SVMIO_MEET", value).succeed();
            assert!(output.contains("all was found"), "{output}");
            assert_eq!(output.contains("SVMIO_MEET"), told.is_some(), "{output}");
            assert!(told.is_none_or(|told| output.contains(told)), "{output}");
        }
    }
}

/// Ranks by themselves make and remove files of the same names, all at once: nothing goes wrong but what may, and nothing
/// is left in the stores that leads nowhere, or to two files.
#[test]
fn files_of_single_ranks_come_and_go_on_all_nodes() {
    let rounds = if is_full_run() { "5000" } else { "150" };
    for mpi in [Mpi::DebianMpich, Mpi::DebianOpenMpi] {
        let program = Program::c("come_and_go", mpi);
        for seed in ["1", "2"] {
            let nodes = Nodes::Emulated(4);
            let scratch: Scratch = nodes.scratch();
            let job = Job::new(&scratch, &program, 8).over(nodes).limit(10 * LIMIT);
            let job = job.argument("svm:/file").argument(rounds).argument(seed);
            let output = job.variable("SVMIO_MEET", "init").succeed();
            assert!(output.contains("they came and went"), "{output}");
            let told = nodes.verified(&scratch);
            assert!(told.contains("0 damaged, 0 leftovers reclaimed"), "{told}");
        }
    }
}
