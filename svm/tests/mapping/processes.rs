//! The programs of `litmus` by real processes, on four nodes.

use std::path::PathBuf;

use svmio_svm::team::Team;
use svmio_svm::{Cluster, NodeName};
use svmio_transport::job::{Job, Launcher, Streams, current_node};

use super::litmus::{self, Rank};
use super::*;

/// Tells a process what to do.
const PLAN: &str = "SVMIO_TEST_PLAN";
/// Where the nodes' stores are.
const STORES: &str = "SVMIO_TEST_STORES";

#[test]
#[ignore = "it is a process of the other tests"]
fn rank_process() {
    let job = Job::from_environment().unwrap();
    let node = NodeName::new(current_node());
    let path = PathBuf::from(std::env::var_os(STORES).unwrap()).join(node.as_str());
    let store = Store::open_for(&path, &node).unwrap();
    let cluster = Cluster::join(job.fabric().clone(), store, &cache()).unwrap();
    let team = Team::of_cluster(&cluster).unwrap();
    let (rank, size) = (team.member() as u64, team.size() as u64);
    let own = Rank { rank, size, team: &team, cluster: &cluster };
    match &*std::env::var(PLAN).unwrap() {
        "release" => litmus::release::PROGRAMS.iter().for_each(|program| own.run(program)),
        "entry" => litmus::entry::PROGRAMS.iter().for_each(|program| own.run(program)),
        "strict" => litmus::strict::PROGRAMS.iter().for_each(|program| own.run(program)),
        plan => panic!("no such plan: {plan}"),
    }
    drop(team);
    job.finish().unwrap();
    cluster.leave();
}

/// Runs `size` processes by a plan, dealt out to four nodes.
fn run(plan: &str, size: u32) {
    let stores = tempfile::tempdir_in("/dev/shm").unwrap();
    let launcher = Launcher::new(std::env::current_exe().unwrap())
        .arguments(["--exact", "processes::rank_process", "--ignored", "--test-threads=1", "--nocapture"])
        .size(size)
        .streams(Streams::Piped)
        .node(|rank| format!("n{}", rank.0 % 4))
        .environment("SVMIO_FABRIC", std::env::var("SVMIO_TEST_FABRIC").unwrap_or("shm".into()))
        .environment(STORES, stores.path())
        .environment(PLAN, plan);
    let outputs = launcher.spawn().unwrap().output().unwrap();
    let all: String = outputs.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
    for (rank, output) in outputs.iter().enumerate() {
        assert!(output.status.success(), "rank {rank} of {size}, {plan}: {all}");
        // A process that ran no test would have nothing to fail with.
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "rank {rank} ran nothing");
    }
}

/// How many processes.
fn sizes() -> impl Iterator<Item = u32> {
    let is_full = std::env::var_os("SVMIO_FULL").is_some();
    (2..=8).filter(move |size| is_full || [2, 8].contains(size))
}

#[test]
fn release_consistency_is_what_processes_find() {
    sizes().for_each(|size| run("release", size));
}

#[test]
fn entry_consistency_is_what_processes_find() {
    sizes().for_each(|size| run("entry", size));
}

#[test]
fn strict_mappings_are_sequentially_consistent_for_processes() {
    sizes().for_each(|size| run("strict", size));
}
