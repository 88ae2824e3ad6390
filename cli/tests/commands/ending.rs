//! How the processes that `svmio start` has started end: by a signal to one of them or to it, and with a failure.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use svmio_transport::Rank;
use svmio_transport::job::Job;
use svmio_transport::message::{Messenger, Port};

use crate::setting::{PROGRAM, need_root};

/// Tells a process of these tests what to do.
const PLAN: &str = "SVMIO_TEST_PLAN";

const RANKS: usize = 3;

/// What the launcher says of a process that it kills.
const KILLED: &str = "has not ended in time and is killed";

/// The watchdog's grace. Everything is over within three times this and the launcher's margins, however busy the
/// machine.
const GRACE: &str = "1s";
const BOUND: Duration = Duration::from_secs(20);

/// Joins the job, says so, and waits in vain: in the fabric, or without looking at it.
#[test]
#[ignore = "it is a process of the other tests"]
fn rank_process() {
    let job = Job::from_environment().unwrap();
    let (rank, size) = (job.rank(), job.size());
    let plan = std::env::var(PLAN).unwrap();
    let messenger = Messenger::open(job.fabric(), Port::FIRST, &job.settings().messages).unwrap();
    let next = Rank((rank.0 + 1) % size);
    messenger.send(next, b"in the fabric").unwrap();
    messenger.receive(Rank((rank.0 + size - 1) % size), &mut [0; 13]).unwrap();
    let ids = format!("\nready {rank} {} {}\n", getpid(), getppid().unwrap());
    std::io::stdout().write_all(ids.as_bytes()).unwrap();
    if plan == "heedless" {
        loop {
            std::thread::park();
        }
    }
    let error = messenger.receive(next, &mut [0; 8]).unwrap_err();
    // In one piece: the others say it at the same time.
    std::io::stderr().write_all(format!("rank {rank} learns: {error}\n").as_bytes()).unwrap();
    std::process::exit(3);
}

/// A job that waits in vain, in a `/dev/shm` of its own.
struct Started {
    shell: Child,
    output: BufReader<std::process::ChildStdout>,
    launcher: Pid,
    ranks: Vec<Pid>,
}

/// How it ended.
struct Ended {
    /// As a shell tells it.
    status: i32,
    left_in_memory: String,
    complaints: String,
    took: Duration,
}

impl Started {
    fn new(fabric: &str, plan: &str) -> Started {
        need_root("mounts a /dev/shm of its own");
        let script =
            "mount -t tmpfs tmpfs /dev/shm || exit; \"$@\"; printf '\\nstatus %s\\n' $?; ls -A /dev/shm";
        let mut shell = Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh", PROGRAM, "start", "-n"])
            .arg(RANKS.to_string())
            .arg("--")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "ending::rank_process", "--ignored", "--test-threads=1", "--nocapture"])
            .envs([("SVMIO_FABRIC", fabric), (PLAN, plan), ("SVMIO_WATCHDOG_GRACE", GRACE)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        let mut ranks = [None; RANKS];
        let mut launcher = None;
        while ranks.contains(&None) {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap() == 0 {
                let mut complaints = String::new();
                shell.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
                panic!("it ended at once: {complaints}");
            }
            if let Some(ids) = line.strip_prefix("ready ") {
                let ids: Vec<i32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
                ranks[ids[0] as usize] = Pid::from_raw(ids[1]);
                launcher = Pid::from_raw(ids[2]);
            }
        }
        Started { shell, output, launcher: launcher.unwrap(), ranks: ranks.map(Option::unwrap).to_vec() }
    }

    fn end_by(mut self, receiver: Pid, signal: Signal) -> Ended {
        let begin = Instant::now();
        kill_process(receiver, signal).unwrap();
        let mut output = String::new();
        self.output.read_to_string(&mut output).unwrap();
        let took = begin.elapsed();
        let mut complaints = String::new();
        self.shell.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
        self.shell.wait().unwrap();
        let (_, end) = output.split_once("\nstatus ").unwrap();
        let (status, left_in_memory) = end.split_once('\n').unwrap();
        assert!(took < BOUND, "it took {took:?}");
        assert!(self.ranks.iter().all(|rank| rustix::process::test_kill_process(*rank).is_err()));
        Ended { status: status.parse().unwrap(), left_in_memory: left_in_memory.into(), complaints, took }
    }
}

#[test]
fn a_signal_to_one_process_ends_all_with_the_reason() {
    for (fabric, signal, name) in [("shm", Signal::TERM, "SIGTERM"), ("ofi", Signal::INT, "SIGINT")] {
        let job = Started::new(fabric, "waits");
        let one = job.ranks[1];
        let Ended { status, left_in_memory, complaints, .. } = job.end_by(one, signal);
        assert_eq!((status, &*left_in_memory), (1, ""), "{complaints}");
        for rank in 0..RANKS {
            let learnt = complaints.lines().find(|line| line.starts_with(&format!("rank {rank} learns: ")));
            assert!(
                learnt.is_some_and(|line| line.contains(name) && line.contains("rank 1")),
                "{complaints}"
            );
        }
        assert!(complaints.contains("ended with exit status: 3"), "{complaints}");
        assert!(!complaints.contains(KILLED), "{complaints}");
    }
}

#[test]
fn a_signal_to_the_launcher_ends_all_with_the_reason() {
    for (fabric, signal, name) in [("shm", Signal::INT, "SIGINT"), ("ofi", Signal::TERM, "SIGTERM")] {
        let job = Started::new(fabric, "waits");
        let launcher = job.launcher;
        // Twice, as by `timeout`: that is one.
        kill_process(launcher, signal).unwrap();
        let Ended { status, left_in_memory, complaints, .. } = job.end_by(launcher, signal);
        assert_eq!((status, &*left_in_memory), (128 + signal.as_raw(), ""), "{complaints}");
        for rank in 0..RANKS {
            let learnt = complaints.lines().find(|line| line.starts_with(&format!("rank {rank} learns: ")));
            assert!(learnt.is_some_and(|line| line.contains(name)), "{complaints}");
        }
        assert!(complaints.contains("svmio: interrupted") && !complaints.contains(KILLED), "{complaints}");
    }
}

#[test]
fn who_does_not_leave_is_ended_by_its_watchdog_after_the_grace() {
    for to_launcher in [false, true] {
        let job = Started::new("shm", "heedless");
        let receiver = if to_launcher { job.launcher } else { job.ranks[2] };
        let Ended { status, left_in_memory, complaints, took } = job.end_by(receiver, Signal::TERM);
        assert_eq!((status, &*left_in_memory), (if to_launcher { 143 } else { 1 }, ""), "{complaints}");
        assert!(!complaints.contains(KILLED), "{complaints}");
        assert!(took >= Duration::from_secs(1), "they had no time to leave: {took:?}");
    }
}

/// What `svmio start` does with a shell's script, run by two ranks.
fn scripted(script: &str, variables: &[(&str, &str)]) -> (std::process::Output, Duration) {
    let begin = Instant::now();
    let output = Command::new(PROGRAM)
        .args(["start", "-n", "2", "--", "sh", "-c", script])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    (output, begin.elapsed())
}

#[test]
fn after_a_failure_the_others_have_a_time_to_leave_then_a_signal_then_they_are_killed() {
    let grace = [("SVMIO_WATCHDOG_GRACE", "0s")];
    let fails = "if [ $SVMIO_JOB_RANK = 1 ]; then exit 7; fi";
    let margin = Duration::from_secs(2);
    // Who heeds the signal says so; the shell looks at it as soon as the other one has gone.
    let (output, took) = scripted(
        &format!("{fails}; trap 'echo told; kill $waited; exit' TERM; sleep 600 & waited=$!; wait"),
        &grace,
    );
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("process 1 ended with exit status: 7"), "{complaint}");
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b"told\n"[..]));
    assert!(took >= margin && took < BOUND, "{took:?}");
    assert!(!complaint.contains(KILLED), "{complaint}");
    // Who does not, is killed.
    let (output, took) = scripted(&format!("{fails}; trap '' TERM; exec sleep 600"), &grace);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains(&format!("process 0 {KILLED}")), "{complaint}");
    assert!(took >= 2 * margin && took < BOUND, "{took:?}");
}

#[test]
fn what_the_user_says_of_signals_holds() {
    let says = "echo $SVMIO_WATCHDOG_SIGNALS";
    for (variables, expected) in
        [(&[][..], "true\ntrue\n"), (&[("SVMIO_WATCHDOG_SIGNALS", "false")], "false\nfalse\n")]
    {
        let (output, _) = scripted(says, variables);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[watchdog]\nsignals = false\n").unwrap();
    let (output, _) = scripted(says, &[("SVMIO_CONFIG", file.path().to_str().unwrap())]);
    assert_eq!(output.stdout, b"\n\n");
}
