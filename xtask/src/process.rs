//! Running other programs: to the end, or up to a time limit with nothing left behind.

pub(crate) mod computing;
mod stuck;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, set_parent_process_death_signal,
};

/// Set in the environment of every limited run and every benchmark, so that its processes can be told from all others.
const MARK: &str = "SVMIO_XTASK_JOB";

/// How long a run may take to end by itself after being asked to.
const GRACE: Duration = Duration::from_secs(3);

/// How a limited run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// The limit passed and it was killed.
    TimedOut,
}

/// A limited run that is over.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) ending: Ending,
    /// Standard output and error together, as they came.
    pub(crate) output: String,
    /// The file that keeps the output.
    pub(crate) log: PathBuf,
    pub(crate) elapsed: Duration,
    /// What the cores spent on it, all together.
    pub(crate) computing: Duration,
}

impl Finished {
    pub(crate) fn succeeded(&self) -> bool {
        self.ending == Ending::Exited(0)
    }

    /// What is wrong with a run that had so much time, if anything: it is to exit with 0, and not to fall short then.
    pub(crate) fn fault(
        &self,
        limit: Duration,
        shortfall: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        let why = match self.ending {
            Ending::Exited(0) => shortfall()?,
            Ending::Exited(status) => format!("exit status {status}"),
            Ending::Signalled(signal) => format!("signal {signal}"),
            Ending::TimedOut => format!("not finished after {} s", limit.as_secs()),
        };
        Some(self.complaint(&why))
    }

    /// What is wrong with the run, the end of its output and where to read on; of one that did not end, where its
    /// processes stood.
    pub(crate) fn complaint(&self, why: &str) -> String {
        let told = format!("{why}; its output, {}, ends\n{}", self.log.display(), tail(&self.output, 20));
        match self.ending {
            Ending::TimedOut => format!("{told}\n{}", read_lossy(&stuck_log(&self.log)).unwrap_or_default()),
            _ => told,
        }
    }
}

/// Runs `command` with the caller's terminal and fails unless it exits with 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", line(command));
    }
    Ok(())
}

/// Runs `command` quietly: its output goes to `log` and is shown only when it fails.
pub(crate) fn run_logged(command: &mut Command, log: &Path) -> Result<()> {
    let (out, err) = log_file(log)?;
    let status = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .status()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        let output = read_lossy(log)?;
        bail!("{} failed: {status}\n{}", line(command), tail(&output, 40));
    }
    Ok(())
}

/// What `command` prints, without the blanks around it. Fails unless it exits with 0.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {}", line(command)))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed: {}\n{}", line(command), output.status, errors.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs `command` in a process group of its own, its output kept in `log`, for at most `limit`.
///
/// However it ends badly, every process that came from it is gone afterwards: launchers start
/// ranks in sessions of their own, which a signal to the group alone would miss.
pub(crate) fn run_limited(command: &mut Command, limit: Duration, log: &Path) -> Result<Finished> {
    let mark = next_mark();
    let (out, err) = log_file(log)?;
    let started = Instant::now();
    command.env(MARK, &mark).stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    end_with_us(command);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", line(command)))?;
    let ended = end(&mut child, limit, &mark);
    let elapsed = started.elapsed();
    if !matches!(ended, Ok(Ended { ending: Ending::Exited(0), .. })) {
        // After an error on the way it may run still.
        if let Ok(None) = child.try_wait() {
            signal_group(&child, Signal::KILL);
            child.wait().context("cannot wait for a killed child")?;
        }
        kill_marked(&mark)?;
    }
    let Ended { ending, computing, standing } = ended?;
    if let Some(standing) = standing {
        fs::write(stuck_log(log), standing).context("cannot tell where it stood")?;
    }
    Ok(Finished { ending, output: read_lossy(log)?, log: log.to_path_buf(), elapsed, computing })
}

/// The mark of a run that no other has.
fn next_mark() -> String {
    static JOBS: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only the number's uniqueness matters.
    let job = JOBS.fetch_add(1, Ordering::Relaxed);
    format!("{}.{job}", svmio_leftovers::own_mark())
}

/// Has a program that may take hours end when we do. What came from it, and is there still, the next run removes.
pub(crate) fn go_with_us(command: &mut Command) {
    command.env(MARK, next_mark());
    end_with_us(command);
}

/// How the first process of a limited run ended.
struct Ended {
    ending: Ending,
    computing: Duration,
    /// Where the run's processes stood when the limit passed.
    standing: Option<String>,
}

/// Waits until it has ended, and ends it when the limit has passed.
fn end(child: &mut Child, limit: Duration, mark: &str) -> Result<Ended> {
    let (status, computing) = wait_until(child, limit)?;
    if let Some(status) = status {
        let ending = match status.code() {
            Some(code) => Ending::Exited(code),
            None => Ending::Signalled(status.signal().unwrap_or(0)),
        };
        return Ok(Ended { ending, computing, standing: None });
    }
    let standing = Some(stuck::describe(&marked(mark)?));
    signal_group(child, Signal::TERM);
    if wait_until(child, GRACE)?.0.is_none() {
        signal_group(child, Signal::KILL);
        child.wait().context("cannot wait for a killed child")?;
    }
    Ok(Ended { ending: Ending::TimedOut, computing, standing })
}

/// Removes what runs that were killed, with Ctrl-C or otherwise, left behind: processes, and directories in memory.
pub(crate) fn remove_leftovers() -> Result<()> {
    let variables = [MARK, svmio_leftovers::JOB_MARK, svmio_leftovers::HOSTS_MARK];
    let left = svmio_leftovers::orphaned_processes(&variables).context("cannot read /proc")?;
    left.into_iter().filter_map(Pid::from_raw).try_for_each(kill_and_wait)?;
    svmio_leftovers::remove_directories();
    Ok(())
}

/// The last `lines` lines of `text`.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// A command as a person would type it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// A file for standard output and the same for standard error, with the folders that it needs.
pub(crate) fn log_file(log: &Path) -> Result<(File, File)> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let out = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let err = out.try_clone().with_context(|| format!("cannot share {}", log.display()))?;
    Ok((out, err))
}

/// Where the place of processes that did not end is kept.
fn stuck_log(log: &Path) -> PathBuf {
    log.with_extension("stuck")
}

fn read_lossy(log: &Path) -> Result<String> {
    let bytes = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Sleeps until `child` has ended or `limit` has passed; no status means the latter. With what the cores spent on it.
fn wait_until(child: &mut Child, limit: Duration) -> Result<(Option<ExitStatus>, Duration)> {
    let pid = Pid::from_child(child);
    let handle = pidfd_open(pid, PidfdFlags::empty()).context("pidfd_open")?;
    let has_ended = ended_within(&handle, limit)?;
    // Once it is waited for, it is not there to be asked.
    let computing = computing::of(pid);
    let status = if has_ended { Some(child.wait().context("cannot wait for a child")?) } else { None };
    Ok((status, computing))
}

/// Sleeps until the process behind `handle` has ended (true) or `limit` has passed (false).
fn ended_within(handle: &impl AsFd, limit: Duration) -> Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut events = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
        match poll(&mut events, Some(&timeout)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("poll on a process"),
        }
    }
}

/// Has the child asked to end when we do: a group of its own does not hear the terminal's Ctrl-C, and no child a signal
/// that ends us alone.
pub(crate) fn end_with_us(command: &mut Command) {
    let ask = || Ok(set_parent_process_death_signal(Some(Signal::TERM))?);
    // SAFETY: between fork and exec the closure makes one system call and touches no memory.
    unsafe { command.pre_exec(ask) };
}

fn signal_group(child: &Child, signal: Signal) {
    // The group may be gone already; then there is nothing to do.
    let _ = kill_process_group(Pid::from_child(child), signal);
}

/// Kills by id every process of this very run.
fn kill_marked(mark: &str) -> Result<()> {
    marked(mark)?.into_iter().try_for_each(kill_and_wait)
}

/// Every process whose environment carries the mark.
fn marked(mark: &str) -> Result<Vec<Pid>> {
    let wanted = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc")?.flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // Other users' processes and those that ended meanwhile cannot be read; they are not ours.
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
            && let Some(pid) = Pid::from_raw(id)
        {
            found.push(pid);
        }
    }
    Ok(found)
}

fn kill_and_wait(pid: Pid) -> Result<()> {
    // No handle, no signal, no end to wait for: each means that the process is gone already.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(()) };
    if kill_process(pid, Signal::KILL).is_ok() {
        ended_within(&handle, GRACE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let finished = run_limited(&mut command, Duration::from_secs(30), &log).unwrap();
        assert_eq!(finished.ending, Ending::Exited(3));
        assert_eq!(finished.output, "out\nerr\n");
        assert!(!finished.succeeded());
    }

    #[test]
    fn a_run_past_its_limit_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let finished = |limit| {
            let mut command = Command::new("sh");
            // The grandchild leaves the group and the session, as MPI launchers' ranks do.
            command.args(["-c", "setsid sleep 600 & echo $!; trap '' TERM; wait; wait"]);
            let finished = run_limited(&mut command, limit, &log).unwrap();
            assert_eq!(finished.ending, Ending::TimedOut);
            finished
        };
        // On a busy machine a short time may be over before there is a grandchild.
        let runs = [500, 5_000, 30_000].map(Duration::from_millis).into_iter().map(finished);
        let finished = runs.into_iter().find(|finished| !finished.output.is_empty()).unwrap();
        let orphan: i32 = finished.output.trim().parse().unwrap();
        let state = fs::read_to_string(format!("/proc/{orphan}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "still alive: {state}");
    }

    #[test]
    fn an_error_on_the_way_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        // So that there is no room for telling where it stood.
        fs::create_dir(stuck_log(&log)).unwrap();
        let variable = format!("SVMIO_XTASK_TEST_{}", std::process::id());
        let mut command = Command::new("sleep");
        command.arg("600").env(&variable, "1");
        let error = run_limited(&mut command, Duration::from_millis(500), &log).unwrap_err();
        assert!(format!("{error:#}").contains("cannot tell where it stood"), "{error:#}");
        let is_left = |entry: fs::DirEntry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&variable)
        };
        assert!(!fs::read_dir("/proc").unwrap().flatten().any(is_left), "it runs still");
    }

    #[test]
    fn processes_of_killed_runs_are_killed() {
        let mut ended = Command::new("true").spawn().unwrap();
        let (own, other) = (std::process::id().to_string(), ended.id().to_string());
        let orphaned = svmio_leftovers::own_mark().replacen(&own, &other, 1);
        ended.wait().unwrap();
        let mut left = Command::new("sh");
        left.args(["-c", "echo; exec sleep 600"]).env(MARK, format!("{orphaned}.1"));
        let mut left = left.stdout(Stdio::piped()).spawn().unwrap();
        // It has become the program, whose environment tells, when it says something; whoever kills it, does it right.
        let _ = std::io::Read::read(left.stdout.as_mut().unwrap(), &mut [0]);
        remove_leftovers().unwrap();
        assert!(!left.wait().unwrap().success());
    }

    #[test]
    fn what_takes_hours_goes_with_us_and_is_known_by_the_next() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $SVMIO_XTASK_JOB; exec sleep 60"]).stdout(Stdio::piped());
        go_with_us(&mut command);
        // The kernel takes the end of the thread that started it for ours.
        let mut started = std::thread::spawn(move || {
            let mut started = command.spawn().unwrap();
            let mut mark = [0; 256];
            let length = std::io::Read::read(started.stdout.as_mut().unwrap(), &mut mark).unwrap();
            let mark = String::from_utf8_lossy(&mark[..length]).into_owned();
            assert!(mark.starts_with(&format!("{}.", svmio_leftovers::own_mark())), "{mark}");
            started
        })
        .join()
        .unwrap();
        assert_eq!(started.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    }

    #[test]
    fn tail_keeps_the_end() {
        assert_eq!(tail("a\nb\nc", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }
}
