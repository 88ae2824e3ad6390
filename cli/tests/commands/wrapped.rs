//! What `svmio start` has started by a shell's script: signals are for that, too, and it ends with the job.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::setting::program;

const RANKS: usize = 2;

/// Whatever is waited for comes within this, or the test fails.
const LIMIT: Duration = Duration::from_secs(30);

/// A job whose processes are shells, and what they have started.
struct Wrapped {
    launcher: Child,
    // What they leave may have it open.
    _output: BufReader<ChildStdout>,
    shells: Vec<Pid>,
}

impl Wrapped {
    fn new(script: &str) -> Wrapped {
        let script = format!("echo $$; {script}");
        let mut launcher = program()
            .args(["start", "-n", &RANKS.to_string(), "--", "sh", "-c", &script])
            .env("SVMIO_WATCHDOG_GRACE", "0s")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(launcher.stdout.take().unwrap());
        let mut shells = Vec::new();
        for _ in 0..RANKS {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            shells.extend(Pid::from_raw(line.trim().parse().unwrap()));
        }
        Wrapped { launcher, _output: output, shells }
    }

    /// Waits until so many sleep in the groups of all shells together.
    fn until_sleepers_are(&self, count: usize) {
        let sleepers = || self.members().iter().filter(|member| member.name == "sleep").count();
        until(|| sleepers() == count, || format!("{:?}", self.members()));
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.launcher), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        self.launcher.wait().unwrap()
    }

    /// Those of the shells' groups who have not ended. Who has may wait for somebody to take note of it.
    fn members(&self) -> Vec<Member> {
        let entries = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let ids = entries.filter_map(|name| name.to_str()?.parse::<i32>().ok());
        let members = ids.filter_map(Member::of);
        members
            .filter(|member| !"ZX".contains(member.state))
            .filter(|member| self.shells.iter().any(|shell| shell.as_raw_pid() == member.group))
            .collect()
    }
}

impl Drop for Wrapped {
    /// Ends what a test leaves.
    fn drop(&mut self) {
        for shell in self.shells.iter().filter(|_| !self.members().is_empty()) {
            let _ = kill_process_group(*shell, Signal::KILL);
        }
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}

#[derive(Debug)]
struct Member {
    name: String,
    state: char,
    group: i32,
}

impl Member {
    /// Nothing, where there is no such process any more.
    fn of(process: i32) -> Option<Member> {
        let line = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (begin, end) = line.rsplit_once(')')?;
        let words: Vec<_> = end.split_whitespace().collect();
        let name = begin.split_once('(')?.1.to_owned();
        Some(Member { name, state: words[0].parse().ok()?, group: words[2].parse().ok()? })
    }
}

fn until(is_so: impl Fn() -> bool, told: impl Fn() -> String) {
    let given_up = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < given_up, "it never comes to that: {}", told());
        std::thread::yield_now();
    }
}

#[test]
fn a_signal_ends_the_program_behind_a_script_too() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut job = Wrapped::new("sleep 1000; true");
        job.until_sleepers_are(RANKS);
        job.send(signal);
        assert_eq!(job.end().signal(), Some(signal.as_raw()));
        job.until_sleepers_are(0);
    }
}

#[test]
fn what_heeds_no_signal_in_the_background_ends_with_a_job_that_is_interrupted() {
    // A shell's script has what it starts in the background ignore SIGINT.
    let mut job = Wrapped::new("trap 'exit 0' INT; sleep 1000 & wait");
    job.until_sleepers_are(RANKS);
    job.send(Signal::INT);
    assert!(job.end().success());
    job.until_sleepers_are(0);
}

#[test]
fn a_failure_ends_the_program_behind_the_script_of_another_process() {
    let mut job = Wrapped::new("if [ $SVMIO_JOB_RANK = 1 ]; then sleep 1000 & exit 7; fi; sleep 1000; true");
    assert_eq!(job.end().code(), Some(1));
    job.until_sleepers_are(0);
}

#[test]
fn the_program_behind_a_script_stops_and_goes_on_with_the_job() {
    let mut job = Wrapped::new("sleep 1000; true");
    job.until_sleepers_are(RANKS);
    let all_are = |wanted: fn(char) -> bool| {
        let states = || job.members().into_iter().map(|member| member.state).collect::<Vec<_>>();
        until(
            || states().len() == 2 * RANKS && states().into_iter().all(wanted),
            || format!("{:?}", job.members()),
        );
    };
    job.send(Signal::TSTP);
    all_are(|state| state == 'T');
    job.send(Signal::CONT);
    all_are(|state| state != 'T');
    job.send(Signal::TERM);
    assert_eq!(job.end().signal(), Some(Signal::TERM.as_raw()));
    job.until_sleepers_are(0);
}

#[test]
fn what_processes_leave_in_the_background_goes_on_when_all_have_ended_well() {
    let mut job = Wrapped::new("sleep 1000 &");
    assert!(job.end().success());
    job.until_sleepers_are(RANKS);
}
