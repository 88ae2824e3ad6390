//! Jobs of processes on the fabric: started, followed by the files that they write, and ended.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use svmio_transport::Rank;
use svmio_transport::job::{Launcher, Running, Streams};
use tempfile::TempDir;

use crate::hosts::Hosts;
use crate::job::PATIENCE;
use crate::leftovers;
use crate::processes::{self, ended_within};
use crate::standing;

/// A job of `fabric_process` to be started.
pub struct FabricJob {
    launcher: Launcher,
    size: u32,
    reports: TempDir,
}

impl FabricJob {
    /// `size` processes of `program` (`fabric_process`) that do what `words` say.
    ///
    /// # Panics
    /// Where there is no room for what they tell.
    pub fn new(program: &str, words: &[&str], size: u32) -> FabricJob {
        let reports = leftovers::directory();
        let mut arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        arguments.insert(1, reports.path().into());
        let launcher = Launcher::new(program).arguments(arguments).size(size).streams(Streams::Inherit);
        let launcher = launcher.environment(PATIENCE.0, PATIENCE.1);
        FabricJob { launcher, size, reports }
    }

    /// Sets a variable of the environment.
    pub fn variable(mut self, name: &str, value: &str) -> FabricJob {
        self.launcher = self.launcher.environment(name, value);
        self
    }

    /// Has the ranks run in hosts, in turn. Rank 0 listens at `port` of the first.
    pub fn in_hosts(mut self, hosts: &Hosts, port: u16) -> FabricJob {
        let prefixes: Vec<_> = (0..hosts.count()).map(|host| hosts.prefix(host)).collect();
        let prefix = move |rank: Rank| prefixes[rank.index() % prefixes.len()].clone();
        self.launcher = self.launcher.prefix(prefix).master(format!("{}:{port}", hosts.address(0)));
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// Where a process cannot be started.
    pub fn start(self) -> RunningFabricJob {
        let begun = now();
        let running = self.launcher.spawn().unwrap_or_else(|error| panic!("starting the job: {error}"));
        let open = |id: u32| {
            let pid = Pid::from_raw(i32::try_from(id).ok()?)?;
            pidfd_open(pid, PidfdFlags::empty()).ok()
        };
        // They are not waited for yet, so all are there, if only as what is left to be waited for.
        let handles = running.pids().into_iter().map(|id| open(id).expect("the child is there")).collect();
        RunningFabricJob { running, handles, size: self.size, reports: self.reports, begun }
    }
}

/// A job that runs. Dropping it kills what is left of it.
#[derive(Debug)]
pub struct RunningFabricJob {
    running: Running,
    handles: Vec<OwnedFd>,
    size: u32,
    reports: TempDir,
    begun: u64,
}

impl RunningFabricJob {
    /// The process ids, by rank.
    pub fn pids(&self) -> Vec<i32> {
        let to_signed = |id: u32| i32::try_from(id).expect("the kernel's ids are positive and fit");
        self.running.pids().into_iter().map(to_signed).collect()
    }

    /// When it was started, by [`now`].
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Waits until each rank is under way; returns when each was, by [`now`].
    ///
    /// # Panics
    /// Where one is not within `limit`, or ends before.
    pub fn until_ready(&mut self, limit: Duration) -> Vec<u64> {
        let deadline = Instant::now() + limit;
        (0..self.size).map(|rank| self.ready(Rank(rank), deadline)).collect()
    }

    fn ready(&mut self, rank: Rank, deadline: Instant) -> u64 {
        loop {
            let ended = self.running.try_wait(rank).expect("the child can be asked");
            if let Some(text) = read(&self.reports.path().join(format!("ready-{rank}"))) {
                return text.trim().parse().expect("a time");
            }
            assert!(ended.is_none(), "rank {rank} ended before it was under way: {:?}", self.report(rank));
            assert!(Instant::now() < deadline, "rank {rank} is not under way in time");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until a rank's first thread sleeps within [`finish`](svmio_transport::job::Job::finish). It is to be under
    /// way already, and to do nothing else from then on; nobody may let it finish before.
    ///
    /// # Panics
    /// Where it does not within `limit`.
    pub fn until_finishing(&self, rank: Rank, limit: Duration) {
        let deadline = Instant::now() + limit;
        // Between being under way and finishing nothing sleeps.
        while !processes::waits_for_its_own(self.pids()[rank.index()]) {
            assert!(Instant::now() < deadline, "rank {rank} is not within finish in time");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a signal to a rank; returns when, by [`now`].
    ///
    /// # Panics
    /// Where that is not possible.
    pub fn signal(&mut self, rank: Rank, signal: rustix::process::Signal) -> u64 {
        let at = now();
        let sent = self.running.signal(rank, signal.as_raw());
        sent.unwrap_or_else(|error| panic!("a signal to rank {rank}: {error}"));
        at
    }

    /// Waits until all ranks but `except` have ended; returns how, by rank.
    ///
    /// # Panics
    /// Where one of them runs longer than `limit`: that one hangs.
    pub fn wait(&mut self, except: Option<Rank>, limit: Duration) -> Vec<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        let ranks = (0..self.size).map(Rank);
        let wait = |rank: Rank| {
            if Some(rank) == except {
                return None;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let has_ended = ended_within(&self.handles[rank.index()], left);
            assert!(has_ended, "{}", self.account_of_hanging(rank));
            Some(self.running.wait_for(rank).expect("the child can be waited for"))
        };
        ranks.map(wait).collect()
    }

    fn account_of_hanging(&self, hanging: Rank) -> String {
        let mut account = format!("rank {hanging} hangs\n");
        let mut silent = Vec::new();
        for (rank, id) in (0..self.size).map(Rank).zip(self.pids()) {
            if let Some(report) = self.report(rank) {
                account += &format!("rank {rank} told {report}\n");
            } else {
                account += &format!("rank {rank}, process {id}, has told nothing\n");
                silent.push(id);
            }
        }
        account + &standing::of_processes(&silent)
    }

    /// Waits until all have ended, and returns what they tell.
    ///
    /// # Panics
    /// Where one fails, tells nothing, or runs longer than `limit`.
    pub fn succeed(mut self, limit: Duration) -> Vec<Value> {
        let ends = self.wait(None, limit);
        let reports: Vec<_> = (0..self.size).map(|rank| self.report(Rank(rank))).collect();
        for (rank, end) in ends.into_iter().enumerate() {
            let is_good = end.is_some_and(|end| end.success());
            assert!(is_good, "rank {rank} ended with {end:?}; it told {:?}", reports[rank]);
        }
        let told = reports.into_iter().enumerate();
        told.map(|(rank, report)| report.unwrap_or_else(|| panic!("rank {rank} told nothing"))).collect()
    }

    /// What a rank told at its end.
    pub fn report(&self, rank: Rank) -> Option<Value> {
        let text = read(&self.reports.path().join(format!("report-{rank}")))?;
        Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("rank {rank} told '{text}': {error}")))
    }
}

/// The time that all processes of this machine share, in nanoseconds.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The file, once it is there; whoever writes it puts it there as a whole.
fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}
