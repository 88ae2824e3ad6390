//! Jobs without MPI that read files of nodes beside them, from hosts that serve their stores: `SVMIO_SERVERS`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use svmio_svm::session::Session;
use svmio_svm::{FileName, FileOffset, OpenOptions};
use svmio_transport::Rank;
use svmio_transport::job::{Launcher, Streams};

use crate::hosts::Hosts;
use crate::setting::{PROGRAM, noise, text};

const SEGMENT: usize = 64 << 10;

/// What a process of a job is to do.
const PLAN: &str = "SVMIO_TEST_STAGING_PLAN";
/// What it is to read.
const EXPECTED: &str = "SVMIO_TEST_STAGING_EXPECTED";
/// Set where the second process cannot open anything more.
const CROWDED: &str = "SVMIO_TEST_STAGING_CROWDED";
const NAME: &str = "/d/f";

#[test]
#[ignore = "it is a process of the other tests"]
fn staging_process() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let session = Session::from_environment().unwrap();
    let name = FileName::new(NAME).unwrap();
    let options = match &*plan {
        "read" => OpenOptions::reading(),
        "write" => OpenOptions::read_write(),
        "make" => OpenOptions::read_write().create(true),
        "make alone" => OpenOptions::read_write().create(true).exclusive(true),
        plan => panic!("no such plan: {plan}"),
    };
    if session.team().member() == 1 && std::env::var_os(CROWDED).is_some() {
        let limit = rustix::process::Rlimit { current: Some(3), maximum: Some(3) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    }
    // Twice: a copy is not what the next open finds.
    for _ in 0..2 {
        match session.open(&name, &options) {
            Ok(file) => {
                let expected = fs::read(std::env::var_os(EXPECTED).unwrap()).unwrap();
                let mut bytes = vec![0; expected.len() + 1];
                assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), expected.len());
                assert!(bytes[..expected.len()] == expected, "it reads something else");
                if plan == "read" {
                    assert!(file.set_size(1).is_err(), "it is not opened for writing");
                }
                println!("outcome: {} bytes of {}", file.size(), file.name());
                session.close(&file, false).unwrap();
            }
            Err(error) => println!("outcome: {:?}: {error}", error.kind()),
        }
    }
    session.finish().unwrap();
}

/// A job beside the hosts `a`, `b` and `c`.
struct Beside {
    hosts: Hosts,
    content: Vec<u8>,
}

impl Beside {
    /// With a file on all of these.
    fn new() -> Beside {
        let beside = Beside { hosts: Hosts::new(), content: content() };
        beside.hosts.nodes.put(NAME, &beside.content);
        fs::write(beside.outside("expected"), &beside.content).unwrap();
        // Each host has its store elsewhere; real ones have it where the job has. How it goes wrong says `HOW`.
        let script = "#!/bin/sh\nR=$0; R=${R%-of-jobs}; H=$1; shift; C=\"${*%% --store*}\"\n\
                      [ -z \"$LD_PRELOAD\" ] || { echo 'it was preloaded' >&2; exit 9; }\n\
                      case $HOW in silent) exec sleep 600;; cut) \"$R\" $H \"$C\" | \
                      { dd bs=1 count=100000 2>/dev/null; kill -KILL $(cat ${0%/*}/process-$H); };; \
                      stop) \"$R\" $H \"$C\" | dd bs=1 count=100000 2>/dev/null; exec sleep 60;; \
                      *) exec \"$R\" $H \"$C\";; esac\n";
        fs::write(beside.outside("rsh-of-jobs"), script).unwrap();
        fs::set_permissions(beside.outside("rsh-of-jobs"), fs::Permissions::from_mode(0o755)).unwrap();
        beside
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.hosts.nodes.setting.outside(name)
    }

    /// `plan` by processes on `nodes`, a letter for each, which may ask `servers`.
    fn job(&self, plan: &str, nodes: &'static str, servers: &str, variables: &[(&str, &str)]) -> Launcher {
        let of = move |rank: Rank| nodes[rank.index()..=rank.index()].to_owned();
        let store = self.outside("store-");
        let launcher = Launcher::new(std::env::current_exe().unwrap())
            .arguments([
                "--exact",
                "staging::staging_process",
                "--ignored",
                "--test-threads=1",
                "--nocapture",
            ])
            .size(nodes.len() as u32)
            .streams(Streams::Piped)
            .node(of)
            .prefix(move |rank| {
                let mut own = std::ffi::OsString::from("SVMIO_STORE=");
                own.push(&store);
                own.push(of(rank));
                vec!["env".into(), own]
            })
            // Among busy processes one may have no turn for longer than users' jobs wait for a sign of life.
            .environment("SVMIO_WATCHDOG_TIMEOUT", "60s")
            .environment(PLAN, plan)
            .environment(EXPECTED, self.outside("expected"))
            .environment("SVMIO_SERVERS", servers)
            .environment("SVMIO_PROGRAM", PROGRAM)
            .environment("SVMIO_RSH", self.outside("rsh-of-jobs"))
            .environment("SVMIO_HOSTS_TIMEOUT", "20s");
        variables.iter().fold(launcher, |launcher, (name, value)| launcher.environment(*name, *value))
    }

    /// What each process came to; the same for both of its tries.
    fn outcomes(
        &self,
        plan: &str,
        nodes: &'static str,
        servers: &str,
        variables: &[(&str, &str)],
    ) -> Vec<String> {
        let outputs = self.job(plan, nodes, servers, variables).spawn().unwrap().output().unwrap();
        let all: String = outputs.iter().map(shown).collect();
        let outcome = |output: &Output| {
            assert!(output.status.success(), "{plan} on {nodes} with {servers}: {all}");
            let printed = text(&output.stdout);
            let told: Vec<_> = printed.lines().filter_map(|line| line.split("outcome: ").nth(1)).collect();
            assert_eq!(told.len(), 2, "{all}");
            told[0].to_owned()
        };
        outputs.iter().map(outcome).collect()
    }

    /// The one complaint of all processes.
    fn complaint(
        &self,
        plan: &str,
        nodes: &'static str,
        servers: &str,
        variables: &[(&str, &str)],
    ) -> String {
        let outcomes = self.outcomes(plan, nodes, servers, variables);
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
        outcomes[0].clone()
    }

    /// What is left on nodes: files with a name or without.
    fn left(&self, nodes: &str) -> Vec<usize> {
        let count = |path: PathBuf| fs::read_dir(path).map_or(0, Iterator::count);
        let of = |node: char| {
            let store = self.outside(&format!("store-{node}"));
            count(store.join("objects")) + count(store.join("deleted")) + count(store.join("names"))
        };
        nodes.chars().map(of).collect()
    }
}

fn shown(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// Twelve segments and a bit, some of them holes.
fn content() -> Vec<u8> {
    let mut content = noise(12 * SEGMENT + 100, 1);
    content[3 * SEGMENT..5 * SEGMENT + 5000].fill(0);
    content
}

#[test]
fn a_job_on_other_nodes_reads_what_hosts_serve() {
    let beside = Beside::new();
    let before = beside.left("abc");
    for (nodes, servers) in [
        ("d", "a,b,c"),
        ("dd", "c,b,a"),
        ("ded", "a,b,c"),
        ("cc", "a,b"),
        ("ad", "b,c"),
        ("da", "a,b,c"),
        ("abd", "c"),
    ] {
        for outcome in beside.outcomes("read", nodes, servers, &[]) {
            assert!(
                outcome.starts_with(&format!("{} bytes of /staged-", beside.content.len()))
                    && outcome.ends_with("/d/f"),
                "{nodes}, {servers}: {outcome}"
            );
        }
        assert_eq!(
            (beside.left("de"), beside.left("abc")),
            (vec![0, 0], before.clone()),
            "{nodes}, {servers}"
        );
    }
    // Where all nodes take part nobody is asked.
    for outcome in beside.outcomes("write", "abc", "nowhere", &[]) {
        assert!(outcome.ends_with(" bytes of /d/f"), "{outcome}");
    }
}

#[test]
fn what_a_host_has_left_of_a_file_that_others_have_removed_is_not_brought() {
    let beside = Beside::new();
    beside.hosts.nodes.printed("ab", &["rm", "-f", NAME]);
    let message = beside.complaint("read", "dd", "a,b,c", &[]);
    assert!(message.contains("have no file of that name"), "{message}");
    let new = beside.outside("new");
    fs::write(&new, "new").unwrap();
    beside.hosts.nodes.printed("ba", &["cp", new.to_str().unwrap(), &format!("svm:{NAME}")]);
    fs::write(beside.outside("expected"), "new").unwrap();
    for outcome in beside.outcomes("read", "dd", "c,a,b", &[]) {
        assert!(outcome.starts_with("3 bytes of /staged-"), "{outcome}");
    }
}

#[test]
fn a_job_that_may_ask_nobody_is_told_what_is_missing() {
    let beside = Beside::new();
    let message = beside.complaint("read", "cc", "", &[]);
    for word in [
        "OutOfReach: ",
        "lie on node a, segments",
        "lie on node b, which are",
        "SVMIO_SERVERS",
        "svmio cp --hosts",
    ] {
        assert!(message.contains(word), "{word:?} in {message}");
    }
    assert!(beside.complaint("read", "dd", "", &[]).contains("NoSuchFile: "));
    assert_eq!(beside.left("d"), [0]);
}

#[test]
fn hosts_that_do_not_help_are_named_in_time() {
    let beside = Beside::new();
    let before = beside.left("abc");
    let quick = ("SVMIO_HOSTS_TIMEOUT", "700ms");
    // Where it is to pass for a host that stops, and for nobody who has only to wait for a turn.
    let patient = ("SVMIO_HOSTS_TIMEOUT", "5s");
    for (nodes, servers, variables, words) in [
        ("dd", "nowhere", &[][..], &["no file /d/f", "on host nowhere: ", "shell: no host nowhere"][..]),
        ("cc", "a,nowhere", &[], &["lie on node a", "on host nowhere: ", "shell: no host nowhere"]),
        (
            "de",
            "a,b,c",
            &[("HOW", "silent"), quick],
            &["no file /d/f", "on host a: ", "not gone on for 700ms"],
        ),
        ("ac", "b", &[("HOW", "silent"), quick], &["lie on node b", "on host b: ", "not gone on for 700ms"]),
        (
            "de",
            "a,b,c",
            &[("HOW", "cut")],
            &["no file /d/f", "on host a: ", "the connection to svmio there ended"],
        ),
        ("ad", "b,c", &[("HOW", "stop"), patient], &["lie on node b", "on host b: ", "not gone on for 5s"]),
        ("dd", "a,c", &[], &["/d/f: ", "lie on node b", "those of node a, node c"]),
        (
            "dd",
            "a,b,c",
            &[("SVMIO_RSH", "/no/such/program")],
            &["no file /d/f", "/no/such/program", "host a"],
        ),
        ("dd", "a,b,c", &[("SVMIO_PROGRAM", "/no/svmio")], &["no file /d/f", "on host a: ", "/no/svmio"]),
        ("dd", "-oProxyCommand=x", &[], &["SVMIO_SERVERS=-oProxyCommand=x", "cannot be the name of a host"]),
        ("d", "a", &[("SVMIO_HOSTS_TIMEOUT", "soon")], &["SVMIO_HOSTS_TIMEOUT=soon"]),
    ] {
        let since = Instant::now();
        let message = beside.complaint("read", nodes, servers, variables);
        for word in words {
            assert!(message.contains(word), "{nodes}, {servers}, {variables:?}: {word:?} in {message}");
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{nodes}, {servers}, {variables:?}");
        assert_eq!((beside.left("de"), beside.left("abc")), (vec![0, 0], before.clone()), "{message}");
    }
    fs::remove_file(beside.hosts.nodes.object("b", NAME).join("segment-0000000007")).unwrap();
    let message = beside.complaint("read", "de", "a,b,c", &[]);
    assert!(message.contains("on host b: segment 7 of /d/f is missing"), "{message}");
    assert_eq!(beside.left("de"), [0, 0]);
}

#[test]
fn nothing_is_left_of_a_copy_that_not_all_can_use() {
    let beside = Beside::new();
    let message = beside.complaint("read", "dd", "a,b,c", &[(CROWDED, "1")]);
    assert!(message.contains("rank 1") && message.contains("/staged-"), "{message}");
    assert_eq!(beside.left("d"), [0]);
}

#[test]
fn a_file_of_hosts_is_neither_changed_nor_made_again() {
    let beside = Beside::new();
    for (nodes, here) in [("dd", "no file /d/f"), ("cd", "lie on node a")] {
        for plan in ["write", "make"] {
            let message = beside.complaint(plan, nodes, "a,b,c", &[]);
            for word in ["ReadOnly: ", here, "reading only", "svmio cp --hosts", "a,b,c"] {
                assert!(message.contains(word), "{plan} on {nodes}: {word:?} in {message}");
            }
        }
        let message = beside.complaint("make alone", nodes, "a,b,c", &[]);
        assert!(message.starts_with("Exists: ") && message.contains("a:"), "{nodes}: {message}");
        let message = beside.complaint("make", nodes, "a,nowhere", &[]);
        assert!(message.contains("on host nowhere: "), "{message}");
    }
    assert_eq!(beside.left("d"), [0]);
    // What no host has is made, once.
    beside.hosts.nodes.printed("abc", &["rm", NAME]);
    fs::write(beside.outside("expected"), "").unwrap();
    for outcome in beside.outcomes("make", "de", "a,b,c", &[]) {
        assert_eq!(outcome, "0 bytes of /d/f");
    }
    let message = beside.complaint("read", "gg", "a,b,c", &[]);
    assert!(
        message.contains("NoSuchFile: ") && message.contains("(a,b,c) have no file of that name"),
        "{message}"
    );
}

#[test]
fn what_a_killed_job_leaves_of_a_copy_is_reclaimed() {
    let beside = Beside::new();
    let mut running = beside.job("read", "d", "a,b,c", &[("HOW", "stop")]).spawn().unwrap();
    let deleted = beside.outside("store-d").join("deleted");
    let is_copying = || fs::read_dir(&deleted).is_ok_and(|entries| entries.count() == 1);
    let given_up = Instant::now() + Duration::from_secs(60);
    while !is_copying() {
        assert!(
            Instant::now() < given_up && running.try_wait(Rank(0)).unwrap().is_none(),
            "it copies nothing"
        );
        std::thread::yield_now();
    }
    running.kill(Rank(0)).unwrap();
    running.wait_for(Rank(0)).unwrap();
    let mut verify = Command::new(PROGRAM);
    verify.args(["verify", "--store"]).arg(beside.outside("store-d")).env("SVMIO_NODE", "d");
    let output = verify.output().unwrap();
    let message = shown(&output);
    assert!(message.contains("0 files checked, 0 damaged, 1 leftover reclaimed"), "{message}");
    assert_eq!(beside.left("d"), [0]);
    assert!(beside.hosts.nodes.printed("abc", &["ls", "-R"]).contains(NAME));
}
