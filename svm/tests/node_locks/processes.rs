//! Holders of locks and leaders of nodes that are killed, as real processes.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, getpid, kill_process};
use svmio_svm::team::Team;
use svmio_svm::{
    CacheSettings, Cluster, Error, FileName, FileOffset, NodeName, OpenOptions, SegmentSize, Store,
};
use svmio_transport::Rank;
use svmio_transport::job::{Job, Launcher, Streams, current_node};

use super::{SEGMENT, exclusive, set_word, word};

/// Where the nodes' stores are.
const STORES: &str = "SVMIO_TEST_STORES";
const NODES: u32 = 3;

/// Who is killed: the leader of the second node, and then who has a lock there.
const LEADER: Rank = Rank(1);
const HOLDER: Rank = Rank(4);
/// Who else is on that node.
const SURVIVOR: Rank = Rank(7);
/// Who gets the lock next, on another one.
const NEXT: Rank = Rank(5);

/// Tells the others that something has come about; they share a directory.
fn announce(directory: &Path, what: &str) {
    std::fs::write(directory.join(what), []).unwrap();
}

fn wait_for(directory: &Path, what: &str) {
    wait_until(|| directory.join(what).exists());
}

fn wait_until(has_come_about: impl Fn() -> bool) {
    while !has_come_about() {
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "it is a process of the other tests"]
fn rank_process() {
    crate::limit::end_in_time();
    let job = Job::from_environment().unwrap();
    let (node, directory) = (NodeName::new(current_node()), PathBuf::from(std::env::var_os(STORES).unwrap()));
    let store = Store::open_for(&directory.join(node.as_str()), &node).unwrap();
    let settings = (CacheSettings::default(), &job.settings().messages);
    let cluster = Cluster::join(job.fabric().clone(), store, &settings.0, settings.1).unwrap();
    let team = Team::of_cluster(&cluster).unwrap();
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
    let file = team.open_in(&cluster, &FileName::new("f").unwrap(), &options).unwrap();
    if cluster.rank() == Rank(0) {
        file.write_at(FileOffset(0), &[0; SEGMENT as usize]).unwrap();
    }
    team.sync(&file).unwrap();
    let is_lost = |rank| cluster.check(&[rank]).is_err();
    match cluster.rank() {
        HOLDER => {
            let _held = exclusive(&file, 0, 8);
            set_word(&file, 0, 1);
            announce(&directory, "written");
            wait_until(|| is_lost(LEADER));
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        LEADER => {
            wait_for(&directory, "written");
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        NEXT => {
            wait_for(&directory, "written");
            let held = exclusive(&file, 0, 8);
            set_word(&file, 0, 10);
            held.release().unwrap();
            announce(&directory, "passed on");
            wait_for(&directory, "flushed");
            let held = exclusive(&file, 0, 8);
            assert_eq!(word(&file, 0), 10);
            held.release().unwrap();
            announce(&directory, "found");
        }
        SURVIVOR => {
            wait_for(&directory, "passed on");
            let error = file.flush().unwrap_err();
            assert!(matches!(error, Error::WritesLost { .. }), "{error}");
            announce(&directory, "flushed");
        }
        _ => {}
    }
    // The home has to be there until then.
    wait_for(&directory, "found");
    drop((file, team));
    // It tells of those that are lost.
    let _ = job.finish();
    cluster.leave();
}

#[test]
fn what_a_killed_process_wrote_under_a_lock_does_not_come_home_late_where_its_leader_is_killed_too() {
    let stores = tempfile::tempdir_in("/dev/shm").unwrap();
    let launcher = Launcher::new(std::env::current_exe().unwrap())
        .arguments(["--exact", "processes::rank_process", "--ignored", "--test-threads=1", "--nocapture"])
        .size(3 * NODES)
        .streams(Streams::Piped)
        .node(|rank| format!("n{}", rank.0 % NODES))
        .environment("SVMIO_FABRIC", std::env::var("SVMIO_TEST_FABRIC").unwrap_or("shm".into()))
        // Among busy processes one may have no turn for longer than users' jobs wait for a sign of life.
        .environment("SVMIO_WATCHDOG_TIMEOUT", "60s")
        .environment(STORES, stores.path());
    let outputs = launcher.spawn().unwrap().output().unwrap();
    let all: String = outputs.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
    for (rank, output) in (0..).map(Rank).zip(&outputs) {
        if [LEADER, HOLDER].contains(&rank) {
            assert_eq!(output.status.signal(), Some(Signal::KILL.as_raw()), "{all}");
            continue;
        }
        assert!(output.status.success(), "rank {rank}, {}: {all}", output.status);
        // A process that ran no test would have nothing to fail with.
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "rank {rank} ran nothing");
    }
}
