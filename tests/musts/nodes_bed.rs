//! The ground that promises about several nodes are shown on: each rank is on its node, with svmio's library and the
//! node's own store, and nothing of a job is left.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use svmio_tests::hosts::BARE_SHELL;
use svmio_tests::{Hosts, Job, Mpi, Nodes, Program};

/// Each rank tells its host, node and store, and its file lies in that store and in no other.
fn every_rank_is_on_its_node(nodes: Nodes, mpi: Mpi, ranks: u32) {
    every_rank_is_on_its_node_with(nodes, mpi, ranks, &[]);
}

fn every_rank_is_on_its_node_with(nodes: Nodes, mpi: Mpi, ranks: u32, variables: &[(&str, &str)]) {
    let program = Program::c("where", mpi);
    let scratch = nodes.scratch();
    let job = Job::new(&scratch, &program, ranks).over(nodes).argument("svm:/of-rank");
    // Nodes that have met know of each other's files.
    let job = job.variable("SVMIO_MEET", "open");
    let job = variables.iter().fold(job, |job, (name, value)| job.variable(*name, *value));
    let output = job.succeed();
    for rank in 0..ranks {
        let node = nodes.of_rank(rank);
        let beginning = format!("{rank} of {ranks}: ");
        let line = output.lines().find_map(|line| line.strip_prefix(&beginning));
        let line = line.unwrap_or_else(|| panic!("rank {rank} tells nothing: {output}"));
        let words: Vec<&str> = line.split(' ').collect();
        let own = Nodes::One.name(0);
        let host = if let Nodes::Hosts(hosts) = nodes { hosts.name(node) } else { own };
        assert_eq!(words[..2], [host, nodes.name(node)], "rank {rank}, {mpi}");
        // What the rank calls its store, and what this process calls it, end alike.
        let store = nodes.store(&scratch, node);
        assert_eq!(Path::new(words[2]).file_name(), store.file_name(), "rank {rank}, {mpi}");
    }
    nodes.demand_stores(&scratch);
    for node in 0..nodes.count() {
        let answer = nodes.ask(&scratch, node, &["ls", "svm:/"]);
        assert!(answer.status.success(), "svmio ls on {}: {answer:?}", nodes.name(node));
        let listing = String::from_utf8_lossy(&answer.stdout).into_owned();
        let mut found: Vec<&str> = listing.split_whitespace().collect();
        found.sort();
        let expected: Vec<String> = (0..ranks)
            .filter(|rank| nodes.of_rank(*rank) == node)
            .map(|rank| format!("of-rank.{rank}"))
            .collect();
        assert_eq!(found, expected, "the store of {}", nodes.name(node));
    }
}

#[test]
fn emulated_nodes() {
    for mpi in [Mpi::DebianMpich, Mpi::DebianOpenMpi, Mpi::WheelMpich, Mpi::WheelOpenMpi] {
        every_rank_is_on_its_node(Nodes::Emulated(4), mpi, 4);
        every_rank_is_on_its_node(Nodes::Emulated(4), mpi, 8);
        every_rank_is_on_its_node(Nodes::Emulated(3), mpi, 4);
    }
}

#[test]
fn hosts() {
    let hosts = Hosts::new(4);
    for mpi in Mpi::DEBIAN {
        every_rank_is_on_its_node(Nodes::Hosts(&hosts), mpi, 4);
        every_rank_is_on_its_node(Nodes::Hosts(&hosts), mpi, 8);
    }
}

/// `svmio run` gives the ranks all that svmio needs by the launcher's options.
#[test]
fn hosts_by_shells_that_carry_no_environment() {
    let hosts = Hosts::new(4);
    for mpi in Mpi::DEBIAN {
        every_rank_is_on_its_node_with(Nodes::Hosts(&hosts), mpi, 4, &[(BARE_SHELL, "1")]);
    }
}

/// A job that does not end is ended, with all that it has on all nodes, and tells where its ranks stood.
fn nothing_is_left_of_a_job_that_takes_too_long(nodes: Nodes, mpi: Mpi) {
    let program = Program::c("where", mpi);
    let scratch = nodes.scratch();
    let job = Job::new(&scratch, &program, 4).over(nodes).argument("svm:/of-rank").argument("and-wait");
    let mut job = job.limit(Duration::from_secs(20)).start();
    job.until_told("all ranks' words", |output| output.matches(" of 4: ").count() == 4);
    let mark = job.mark();
    assert!(mark.processes().len() > 4, "the launcher and the ranks are seen while they run");
    // The limit is what is tested: it has passed as soon as the job is waited for.
    let waited = catch_unwind(AssertUnwindSafe(|| job.within(Duration::ZERO).wait()));
    let failure = waited.expect_err("the job ended by itself");
    let failure = failure.downcast::<String>().expect("the failure is told in words");
    assert!(failure.contains("has not ended within"), "{failure}");
    for (what, times) in [("/where-", 4), (" tell_and_wait_for_ever at ", 4), ("mpiexec", 1)] {
        assert!(failure.matches(what).count() >= times, "not {times} times {what}: {failure}");
    }
    assert_eq!(mark.processes(), [0; 0], "{mpi}");
    if let Nodes::Hosts(hosts) = nodes {
        for host in 0..hosts.count() {
            assert_eq!(hosts.processes(host), [0; 0], "{} after {mpi}", hosts.name(host));
        }
    }
}

#[test]
fn nothing_is_left_on_emulated_nodes() {
    for mpi in Mpi::DEBIAN {
        nothing_is_left_of_a_job_that_takes_too_long(Nodes::Emulated(4), mpi);
    }
}

#[test]
fn nothing_is_left_on_hosts() {
    let hosts = Hosts::new(4);
    for mpi in Mpi::DEBIAN {
        nothing_is_left_of_a_job_that_takes_too_long(Nodes::Hosts(&hosts), mpi);
    }
}
