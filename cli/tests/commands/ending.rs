//! How the processes that `svmio start` has started end: by a signal to one of them or to it, and with a failure.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use svmio_transport::Rank;
use svmio_transport::job::Job;
use svmio_transport::message::{Messenger, Port};

use crate::setting::{HEEDING, PROGRAM, need_root, program};

/// Tells a process of these tests what to do.
const PLAN: &str = "SVMIO_TEST_PLAN";

const RANKS: usize = 3;

/// What the launcher says of a process that it kills.
const KILLED: &str = "has not ended in time and is killed";

/// The watchdog's grace for who does not heed a signal, and for who does, which none is to be killed within. Everything is
/// over within these and the launcher's margins, however busy the machine.
const HEEDLESS_GRACE: &str = "1s";
const GRACE: &str = "10s";
const BOUND: Duration = Duration::from_secs(20);

/// Joins the job, says so, and waits in vain: in the fabric, or without looking at it.
#[test]
#[ignore = "it is a process of the other tests"]
fn rank_process() {
    // Should nothing else end it: whoever waits for the job goes on.
    std::thread::spawn(|| {
        std::thread::sleep(6 * BOUND);
        std::process::abort();
    });
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
    /// The other end of the launcher's terminal, if it has one.
    terminal: Option<OwnedFd>,
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
        Started::by("\"$@\"", None, fabric, plan)
    }

    /// The launcher leads a session on a terminal, to which it complains; its processes complain elsewhere.
    fn on_terminal(fabric: &str, plan: &str) -> Started {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        Started::by("setsid --ctty \"$@\" 3>&2 2>&0", Some(terminal), fabric, plan)
    }

    /// Has a shell start the launcher, the words of whose command line are the shell's arguments, by `command`.
    fn by(command: &str, terminal: Option<OwnedFd>, fabric: &str, plan: &str) -> Started {
        need_root("mounts a /dev/shm of its own");
        let script = format!(
            "mount -t tmpfs tmpfs /dev/shm || exit; {command}; printf '\\nstatus %s\\n' $?; ls -A /dev/shm"
        );
        let input = terminal.as_ref().map_or_else(Stdio::null, |terminal| {
            let path = ptsname(terminal, Vec::new()).unwrap();
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).unwrap().into()
        });
        let grace = if plan == "heedless" { HEEDLESS_GRACE } else { GRACE };
        let complain = if terminal.is_some() { "exec \"$@\" 2>&3" } else { "exec \"$@\"" };
        let mut shell = Command::new("unshare")
            .arg("--mount")
            .args(HEEDING)
            .args(["sh", "-c", &script, "sh", PROGRAM, "start", "-n"])
            .arg(RANKS.to_string())
            .args(["--", "sh", "-c", complain, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "ending::rank_process", "--ignored", "--test-threads=1", "--nocapture"])
            .envs([("SVMIO_FABRIC", fabric), (PLAN, plan), ("SVMIO_WATCHDOG_GRACE", grace)])
            .stdin(input)
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
        let ranks = ranks.map(Option::unwrap).to_vec();
        Started { shell, terminal, output, launcher: launcher.unwrap(), ranks }
    }

    fn end_by(self, receiver: Pid, signal: Signal) -> Ended {
        self.end_after(|_| kill_process(receiver, signal).unwrap())
    }

    fn end_after(mut self, cause: impl FnOnce(&mut Self)) -> Ended {
        let begin = Instant::now();
        cause(&mut self);
        let output = self.rest(begin + 3 * BOUND);
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

    /// What it prints until its end, which has to come before `deadline`.
    fn rest(&mut self, deadline: Instant) -> String {
        let mut rest = Vec::new();
        loop {
            if self.output.buffer().is_empty() {
                let left = deadline.saturating_duration_since(Instant::now()).try_into().unwrap();
                let output = PollFd::new(self.output.get_ref(), PollFlags::IN);
                assert_ne!(poll(&mut [output], Some(&left)).unwrap(), 0, "the job does not end");
            }
            let piece = self.output.fill_buf().unwrap();
            if piece.is_empty() {
                return String::from_utf8(rest).unwrap();
            }
            rest.extend_from_slice(piece);
            let length = piece.len();
            self.output.consume(length);
        }
    }
}

impl Drop for Started {
    /// Ends what a test that has failed leaves.
    fn drop(&mut self) {
        if matches!(self.shell.try_wait(), Ok(Some(_))) {
            return;
        }
        for process in self.ranks.iter().copied().chain([self.launcher, Pid::from_child(&self.shell)]) {
            let _ = kill_process(process, Signal::KILL);
        }
        let _ = self.shell.wait();
    }
}

#[test]
fn a_signal_to_one_process_ends_all_with_the_reason() {
    for (fabric, signal, name) in
        [("shm", Signal::TERM, "SIGTERM"), ("ofi", Signal::INT, "SIGINT"), ("shm", Signal::HUP, "SIGHUP")]
    {
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
    for (fabric, signal, name) in
        [("shm", Signal::INT, "SIGINT"), ("ofi", Signal::TERM, "SIGTERM"), ("shm", Signal::HUP, "SIGHUP")]
    {
        // Of two that a busy machine holds apart, the second is another one, which ends all without a word.
        assert!((0..3).any(|_| do_all_learn_of_two_signals_at_once(fabric, signal, name)), "{name}");
    }
}

/// Whether a signal that comes to the launcher twice, as by `timeout`, is one, of which all learn, and which leaves
/// nothing.
fn do_all_learn_of_two_signals_at_once(fabric: &str, signal: Signal, name: &str) -> bool {
    let job = Started::new(fabric, "waits");
    let launcher = job.launcher;
    kill_process(launcher, signal).unwrap();
    let Ended { status, left_in_memory, complaints, .. } = job.end_by(launcher, signal);
    assert_eq!(status, 128 + signal.as_raw(), "{complaints}");
    assert!(complaints.contains("svmio: interrupted") && !complaints.contains(KILLED), "{complaints}");
    println!("{left_in_memory}{complaints}");
    let learns = |rank| {
        let learnt = complaints.lines().find(|line| line.starts_with(&format!("rank {rank} learns: ")));
        learnt.is_some_and(|line| line.contains(name))
    };
    left_in_memory.is_empty() && (0..RANKS).all(learns)
}

#[test]
fn the_end_of_the_terminal_ends_all_with_the_reason() {
    for fabric in ["shm", "ofi"] {
        let job = Started::on_terminal(fabric, "waits");
        let Ended { status, left_in_memory, complaints, .. } = job.end_after(|job| drop(job.terminal.take()));
        assert_eq!((status, &*left_in_memory), (128 + Signal::HUP.as_raw(), ""), "{complaints}");
        for rank in 0..RANKS {
            let learnt = complaints.lines().find(|line| line.starts_with(&format!("rank {rank} learns: ")));
            assert!(learnt.is_some_and(|line| line.contains("SIGHUP")), "{complaints}");
        }
    }
}

#[test]
fn a_job_under_nohup_outlives_its_terminal() {
    let job = Started::by("trap '' HUP; \"$@\"", None, "shm", "waits");
    let launcher = job.launcher;
    for process in job.ranks.iter().copied().chain([launcher]) {
        assert!(ignores_hang_up(process));
        kill_process(process, Signal::HUP).unwrap();
    }
    let Ended { status, left_in_memory, complaints, .. } = job.end_by(launcher, Signal::TERM);
    assert_eq!((status, &*left_in_memory), (128 + Signal::TERM.as_raw(), ""), "{complaints}");
    assert!(!complaints.contains("SIGHUP") && !complaints.contains(KILLED), "{complaints}");
}

/// Whether the kernel has SIGHUP do nothing to a process.
fn ignores_hang_up(process: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(ignored, 16).unwrap() & 1 << (Signal::HUP.as_raw() - 1) != 0
}

#[test]
fn who_does_not_leave_is_ended_by_its_watchdog_after_the_grace() {
    for (to_launcher, signal) in [(false, Signal::TERM), (true, Signal::TERM), (true, Signal::HUP)] {
        let job = Started::new("shm", "heedless");
        let receiver = if to_launcher { job.launcher } else { job.ranks[2] };
        let Ended { status, left_in_memory, complaints, took } = job.end_by(receiver, signal);
        let expected = if to_launcher { 128 + signal.as_raw() } else { 1 };
        assert_eq!((status, &*left_in_memory), (expected, ""), "{complaints}");
        assert!(!complaints.contains(KILLED), "{complaints}");
        assert!(took >= Duration::from_secs(1), "they had no time to leave: {took:?}");
    }
}

/// What `svmio start` does with a shell's script, run by two ranks.
fn scripted(script: &str, variables: &[(&str, &str)]) -> (std::process::Output, Duration) {
    let begin = Instant::now();
    let output = program()
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

/// A shell dies of a signal at once, and the program behind its script ends as one that the launcher has started.
#[test]
fn what_a_process_has_started_has_the_same_time_to_leave() {
    for signal in [Signal::TERM, Signal::HUP, Signal::QUIT, Signal::XCPU, Signal::ALARM] {
        let behind_a_script = |behind: &str, grace: &str| {
            // Of those who end by it, some signals would have the kernel write an image.
            let launcher = Command::new("sh")
                .args(["-c", "ulimit -c 0; exec \"$@\"", "sh"])
                .args(HEEDING)
                .args([PROGRAM, "start", "-n", "2", "--"])
                .args(["sh", "-c", "sh -c \"$BEHIND\"; echo not reached"])
                .envs([("BEHIND", behind), ("SVMIO_WATCHDOG_GRACE", grace)])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            let mut launcher = launcher.unwrap();
            let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
            for _ in 0..2 {
                assert_eq!(lines.next().unwrap().unwrap(), "ready");
            }
            let begin = Instant::now();
            kill_process(Pid::from_child(&launcher), signal).unwrap();
            let rest: Vec<_> = lines.map(Result::unwrap).collect();
            let output = launcher.wait_with_output().unwrap();
            assert_eq!(output.status.signal(), Some(signal.as_raw()));
            (rest, String::from_utf8(output.stderr).unwrap(), begin.elapsed())
        };
        // Who needs a while for it.
        let (said, complaint, _) = behind_a_script(
            "trap '' TERM HUP QUIT XCPU ALRM; sleep 600 & waited=$!
            trap 'sleep 1; kill -KILL $waited; echo saved; exit' TERM HUP QUIT XCPU ALRM
            echo ready; wait; echo not told",
            GRACE,
        );
        assert_eq!(said, ["saved", "saved"], "{complaint}");
        assert!(!complaint.contains(KILLED), "{complaint}");
        // Who does not leave.
        let (said, complaint, took) =
            behind_a_script("trap '' TERM HUP QUIT XCPU ALRM; echo ready; sleep 600; echo not killed", "0s");
        assert_eq!(said, [""; 0], "{complaint}");
        assert!(complaint.contains(KILLED), "{complaint}");
        assert!(took >= Duration::from_secs(2) && took < BOUND, "{took:?}");
    }
}

/// To the first process of a container signals do nothing by default: it cannot end by them.
#[test]
fn in_a_container_the_status_tells_the_signal() {
    need_root("makes a name space of processes");
    // The two end with a failure, and so does the launcher, whose status is that of the name space's first process.
    let script = "trap 'echo told; kill $waited; exit 1' TERM; sleep 600 & waited=$!; echo ready; wait";
    let mut container = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .args([PROGRAM, "start", "-n", "2", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare (Debian: util-linux)");
    let mut lines = BufReader::new(container.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
    }
    let children = format!("/proc/{0}/task/{0}/children", container.id());
    let launcher: i32 = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(launcher).unwrap(), Signal::TERM).unwrap();
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert_eq!(container.wait().unwrap().code(), Some(128 + Signal::TERM.as_raw()));
    assert_eq!(rest, ["told", "told"]);
}

#[test]
fn what_is_for_the_programs_alone_is_handed_on_and_ends_nothing_else() {
    for signal in [Signal::USR1, Signal::USR2] {
        let script = "sleep 600 & waited=$!
            trap 'kill $waited; echo told; exit 0' USR1 USR2; echo ready; wait; echo not told";
        let mut launcher = program()
            .args(["start", "-n", "2", "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
        for _ in 0..2 {
            assert_eq!(lines.next().unwrap().unwrap(), "ready");
        }
        kill_process(Pid::from_child(&launcher), signal).unwrap();
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        assert_eq!(launcher.wait().unwrap().code(), Some(0));
        assert_eq!(rest, ["told", "told"]);
    }
}

#[test]
fn a_benchmark_hands_on_the_end_of_its_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let stub = directory.path().join("stub");
    std::fs::write(
        &stub,
        "trap 'echo told; kill $waited; exit 1' HUP; sleep 600 & waited=$!; echo ready; wait",
    )
    .unwrap();
    let stub = format!("sh {}", stub.display());
    let mut launcher = program()
        .args(["bench", "pingpong", "--fabric", "shm", "--prefix0", &stub, "--prefix1", &stub])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
    }
    kill_process(Pid::from_child(&launcher), Signal::HUP).unwrap();
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert_eq!(rest, ["told", "told"]);
    assert_eq!(launcher.wait().unwrap().signal(), Some(Signal::HUP.as_raw()));
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
