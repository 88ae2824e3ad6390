//! Processes that a launcher has started share a file as memory by the guide's program, on one node and on several,
//! over shared memory and over a network; those whose stores do not fit are told so.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::path::Path;
use std::process::Output;

use svmio_svm::session::Session;
use svmio_svm::team::{Engine, Reach, Team};
use svmio_svm::{DirectoryName, OpenOptions, Result};
use svmio_transport::job::{Job, Launcher, Place, Streams};
use svmio_transport::settings::Settings;
use svmio_transport::{Rank, SegmentId};

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

/// Says how the members of a team come to a place: they have a job already, which does without what the user has set.
#[test]
#[ignore = "it is a process of the other tests"]
fn rank_that_meets() {
    limit::end_in_time();
    let job = Job::start(Place::from_environment().unwrap(), Settings::default()).unwrap();
    let members: Vec<Rank> = (0..job.size()).map(Rank).collect();
    let reach = Reach::of(job.fabric(), SegmentId::new(77, 0), &job.settings().messages).unwrap();
    let engine = Engine::join(&reach, &members, SegmentId::new(78, 0), None).unwrap();
    let team = Team::new(job.rank().index(), members.len(), Box::new(engine));
    say(team.meet().map(|_| ()));
    drop((team, reach));
    job.finish().unwrap();
}

/// Says how a process comes to a place that is in no job.
#[test]
#[ignore = "it is a process of the other tests"]
fn process_by_itself() {
    limit::end_in_time();
    say(Team::alone().meet().map(|_| ()));
    say(Session::from_environment().map(|_| ()));
}

/// Makes memory without a name.
#[test]
#[ignore = "it is a process of the other tests"]
fn rank_that_makes_memory() {
    limit::end_in_time();
    let session = Session::from_environment().unwrap();
    if session.team().member() == 1 && std::env::var_os(CROWDED).is_some() {
        let limit = rustix::process::Rlimit { current: Some(3), maximum: Some(3) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    }
    say(session.open_unnamed(&OpenOptions::read_write()).map(|_| ()));
    // The others have let go by then.
    session.team().agree(Ok::<(), svmio_svm::Error>(())).unwrap();
    if session.team().member() == 0 {
        assert_eq!(session.store().list(&DirectoryName::root()).unwrap(), []);
    }
    session.finish().unwrap();
}

fn say(outcome: Result<()>) {
    match outcome {
        Ok(()) => println!("it says: nothing"),
        Err(error) => println!("it says: {error}"),
    }
}

/// Set where the second process cannot open anything more.
const CROWDED: &str = "SVMIO_TEST_SESSION_CROWDED";

/// Runs `test` as `size` processes, dealt out to `nodes`, of which each has the store that `store` says.
fn run(
    test: &str,
    fabric: &str,
    (size, nodes): (u32, u32),
    store: impl Fn(u32) -> String + 'static,
    directory: &Path,
) -> Vec<Output> {
    run_with(&[], test, fabric, (size, nodes), store, directory)
}

/// The same with these variables.
fn run_with(
    variables: &[(&str, &str)],
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
        // Among busy processes one may have no turn for longer than users' jobs wait for a sign of life.
        .environment("SVMIO_WATCHDOG_TIMEOUT", "60s")
        .environment("SVMIO_FABRIC", fabric);
    let launcher =
        variables.iter().fold(launcher, |launcher, (name, value)| launcher.environment(*name, *value));
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

/// A setting that makes no sense, and what is told of it.
const WRONG: [(&str, &str, &str); 3] = [
    ("SVMIO_CACHE_PAGE", "3K", "cache pages of 3072 bytes (SVMIO_CACHE_PAGE): give a power of two"),
    ("SVMIO_CACHE_CAPACITY", "x", "SVMIO_CACHE_CAPACITY=x: not a size"),
    ("SVMIO_FABRIC", "bogus", "SVMIO_FABRIC"),
];

#[test]
fn wrong_settings_of_one_member_are_told_to_all_of_one_node() {
    let stores = tempfile::tempdir_in("/dev/shm").unwrap();
    let directory = stores.path().display();
    for (variable, value, problem) in WRONG {
        let environment = [format!("SVMIO_STORE={directory}/one"), format!("{variable}={value}")];
        let prefix = move |rank: Rank| {
            let own = environment.iter().take(1 + usize::from(rank == Rank(1)));
            std::iter::once("env".into()).chain(own.map(Into::into)).collect()
        };
        let launcher = Launcher::new(std::env::current_exe().unwrap())
            .arguments(["--exact", "rank_that_meets", "--ignored", "--test-threads=1", "--nocapture"])
            .size(3)
            .streams(Streams::Piped)
            // Among busy processes one may have no turn for longer than users' jobs wait for a sign of life.
            .environment("SVMIO_WATCHDOG_TIMEOUT", "60s")
            .prefix(prefix);
        for output in launcher.spawn().unwrap().output().unwrap() {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("it says: rank 1 on node "), "{said}");
            assert!(said.contains("settings cannot be used: ") && said.contains(problem), "{said}");
            assert!(output.status.success(), "{said}");
        }
    }
}

#[test]
fn wrong_settings_are_told_to_a_process_by_itself() {
    let store = tempfile::tempdir_in("/dev/shm").unwrap();
    let run = |variable: &str, value: &str| {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", "process_by_itself", "--ignored", "--test-threads=1", "--nocapture"]);
        let output = process.env("SVMIO_STORE", store.path()).env(variable, value).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for (variable, value, problem) in WRONG {
        let said = run(variable, value);
        assert_eq!(said.matches("it says: svmio's settings cannot be used: ").count(), 2, "{said}");
        assert_eq!(said.matches(problem).count(), 2, "{said}");
    }
    let said = run("SVMIO_CACHE_PAGE", "16K");
    assert_eq!(said.matches("it says: nothing").count(), 2, "{said}");
}

#[test]
fn memory_without_a_name_is_asked_of_no_host() {
    for nodes in [1, 2] {
        let stores = tempfile::tempdir_in("/dev/shm").unwrap();
        let servers = [("SVMIO_SERVERS", "nowhere"), ("SVMIO_RSH", "/no/such/program")];
        let store = move |rank| format!("n{}", rank % nodes);
        for output in run_with(&servers, "rank_that_makes_memory", "shm", (2, nodes), store, stores.path()) {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("it says: nothing"), "{nodes}: {said}");
        }
    }
}

#[test]
fn memory_that_not_all_can_use_leaves_no_name() {
    let stores = tempfile::tempdir_in("/dev/shm").unwrap();
    let crowded = [(CROWDED, "1")];
    let store = |_| "n0".to_owned();
    for output in run_with(&crowded, "rank_that_makes_memory", "shm", (2, 1), store, stores.path()) {
        let said = String::from_utf8_lossy(&output.stdout);
        let all = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("it says: rank 1"), "{said}{all}");
    }
}
