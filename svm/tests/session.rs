//! Processes that a launcher has started share a file as memory by the guide's program, on one node and on several,
//! over shared memory and over a network; those whose stores do not fit are told so.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::path::Path;
use std::process::Output;

use svmio_svm::session::Session;
use svmio_transport::job::{Launcher, Streams};

mod limit;
#[path = "../examples/rod.rs"]
mod rod;

#[test]
#[ignore = "it is a process of the other tests"]
fn rank_process() {
    limit::end_in_time();
    rod::main().unwrap();
}

#[test]
#[ignore = "it is a process of the other tests"]
fn rank_that_is_refused() {
    limit::end_in_time();
    println!("it says: {}", Session::from_environment().map(|_| ()).unwrap_err());
}

/// Runs `test` as `size` processes, dealt out to `nodes`, of which each has the store that `store` says.
fn run(
    test: &str,
    fabric: &str,
    (size, nodes): (u32, u32),
    store: impl Fn(u32) -> String + 'static,
    directory: &Path,
) -> Vec<Output> {
    let directory = directory.to_path_buf();
    let launcher = Launcher::new(std::env::current_exe().unwrap())
        .arguments(["--exact", test, "--ignored", "--test-threads=1", "--nocapture"])
        .size(size)
        .streams(Streams::Piped)
        .node(move |rank| format!("n{}", rank.0 % nodes))
        .prefix(move |rank| {
            let store = directory.join(store(rank.0));
            vec!["env".into(), format!("SVMIO_STORE={}", store.display()).into()]
        })
        .environment("SVMIO_FABRIC", fabric);
    launcher.spawn().unwrap().output().unwrap()
}

#[test]
fn the_guide_s_program_computes_the_same_however_many_do() {
    for (fabric, size, nodes) in [("shm", 1, 1), ("shm", 3, 1), ("shm", 4, 2), ("ofi", 4, 2)] {
        let stores = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = move |rank| format!("n{}", rank % nodes);
        let outputs = run("rank_process", fabric, (size, nodes), store, stores.path());
        let all: String = outputs.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
        assert!(
            outputs.iter().all(|output| output.status.success()),
            "{size} on {nodes} over {fabric}: {all}"
        );
        let said = String::from_utf8_lossy(&outputs[0].stdout);
        let expected = format!("{size} processes, heat 300000.000, in the middle 46.021\n");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn two_stores_on_one_node_are_refused() {
    let stores = tempfile::tempdir_in("/dev/shm").unwrap();
    let outputs = run("rank_that_is_refused", "shm", (3, 1), |rank| format!("s{}", rank / 2), stores.path());
    for output in outputs {
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("it says: ranks 0 and 2 run on one node, but with different stores"), "{said}");
    }
}
