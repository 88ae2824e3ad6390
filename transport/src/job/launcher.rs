//! Starts the processes of a job from one parent.

mod groups;
mod process;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;

use rustix::process::Signal;

use self::process::Process;
use super::door;
use super::place::{LISTENER, MASTER, NODE, RANK, SECRET, SIZE};
use crate::error::{Error, Result};
use crate::secret::JobSecret;
use crate::service_thread::spawn_service_thread;
use crate::units::Rank;

/// Where the output of processes goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Streams {
    /// To the parent's output and error output.
    #[default]
    Inherit,
    /// To pipes, one for each rank and stream.
    Piped,
    /// Nowhere.
    Null,
}

type ByRank<T> = Box<dyn Fn(Rank) -> T>;

/// What processes to start, and how.
///
/// They die with the parent, however it ends; what they have started themselves does not where that is killed by
/// SIGKILL. They read nothing.
pub struct Launcher {
    program: OsString,
    arguments: Vec<OsString>,
    size: u32,
    environment: BTreeMap<OsString, OsString>,
    node: Option<ByRank<String>>,
    prefix: Option<ByRank<Vec<OsString>>>,
    master: Option<String>,
    streams: Streams,
    has_groups: bool,
}

impl Launcher {
    /// One process of `program`, which is looked for in `PATH` unless it is a path.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            size: 1,
            environment: BTreeMap::new(),
            node: None,
            prefix: None,
            master: None,
            streams: Streams::Inherit,
            has_groups: false,
        }
    }

    /// Appends to the arguments, which are the same for all.
    #[must_use]
    pub fn arguments<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// How many processes to start.
    #[must_use]
    pub fn size(mut self, size: u32) -> Self {
        self.size = size;
        self
    }

    /// Sets a variable in the environment of all; the rest of it is the parent's.
    #[must_use]
    pub fn environment(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// On which node each process is to believe to be, where that is not the host.
    #[must_use]
    pub fn node(mut self, node: impl Fn(Rank) -> String + 'static) -> Self {
        self.node = Some(Box::new(node));
        self
    }

    /// What each process's command line begins with, as in `ip netns exec NAME`: a program that becomes ours by
    /// `exec`. Where it leads to another network, [`master`](Self::master) is needed, too.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Fn(Rank) -> Vec<OsString> + 'static) -> Self {
        self.prefix = Some(Box::new(prefix));
        self
    }

    /// Host and port at which rank 0 is to listen. Without it, all run in this network: then a free port of the
    /// loopback interface is taken, and rank 0 inherits its listener.
    #[must_use]
    pub fn master(mut self, at: impl Into<String>) -> Self {
        self.master = Some(at.into());
        self
    }

    /// Where output goes.
    #[must_use]
    pub fn streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// Has each process lead a process group of its own. So what a terminal, or who ends a whole group, signals comes
    /// to the parent alone, which is to [hand it on](Running::signal): each process gets it once, and so does what it
    /// has started, as the program behind a shell's script. All that is done to a process is done to its group, also
    /// when the process itself has ended.
    #[must_use]
    pub fn process_groups(mut self) -> Self {
        self.has_groups = true;
        self
    }

    /// Starts them all.
    ///
    /// # Errors
    /// Where a process cannot be started; those that were started before are ended then.
    pub fn spawn(self) -> Result<Running> {
        let secret =
            JobSecret::random().map_err(|problem| Error::system("making the job's secret", problem))?;
        let (listener, master) = match &self.master {
            Some(at) => (None, at.clone()),
            None => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
                let listener = listener.map_err(|problem| Error::system("listening for rank 0", problem))?;
                // All others may call before rank 0 has come to it.
                door::lengthen_backlog(&listener)?;
                let at =
                    listener.local_addr().map_err(|problem| Error::system("asking for a port", problem))?;
                (Some(listener), at.to_string())
            }
        };
        let mut commands = Vec::new();
        for rank in (0..self.size).map(Rank) {
            let mut command = self.command(rank);
            command.env(MASTER, &master).env(SECRET, secret.to_hex()).env_remove(LISTENER);
            let inherited = listener.as_ref().filter(|_| rank == Rank(0)).map(AsRawFd::as_raw_fd);
            if let Some(number) = inherited {
                command.env(LISTENER, number.to_string());
            }
            tie_to_parent(&mut command, inherited);
            commands.push(command);
        }
        // A child's death signal comes when the thread ends that started it, so that thread stays.
        let (report, reports) = mpsc::channel();
        let (keep, kept) = mpsc::channel::<()>();
        let has_groups = self.has_groups;
        let body = move || {
            // Who asked may have gone: then the children end with the channel.
            let _ = report.send(spawn_all(commands, has_groups));
            drop(listener);
            let _ = kept.recv();
        };
        spawn_service_thread("svmio-launcher", body)?;
        let processes = reports.recv().unwrap_or_else(|_| {
            Err(Error::StartUp { problem: "the thread that starts the processes has ended".into() })
        })?;
        Ok(Running { processes, _keep: keep })
    }

    fn command(&self, rank: Rank) -> Command {
        let prefix = self.prefix.as_ref().map(|prefix| prefix(rank)).unwrap_or_default();
        let mut words = prefix.iter().chain([&self.program]).chain(&self.arguments);
        let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
        let streams = || match self.streams {
            Streams::Inherit => Stdio::inherit(),
            Streams::Piped => Stdio::piped(),
            Streams::Null => Stdio::null(),
        };
        command.args(words).envs(&self.environment);
        command.stdin(Stdio::null()).stdout(streams()).stderr(streams());
        command.env(RANK, rank.to_string()).env(SIZE, self.size.to_string());
        if let Some(node) = &self.node {
            command.env(NODE, node(rank));
        }
        if self.has_groups {
            command.process_group(0);
        }
        command
    }
}

/// Has the child die with this process, and inherit a descriptor under its number.
fn tie_to_parent(command: &mut Command, inherited: Option<i32>) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended just before.
        if rustix::process::getppid() != Some(parent) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        if let Some(number) = inherited {
            // SAFETY: the launcher's listener, which is open until all children have been started.
            let listener = unsafe { BorrowedFd::borrow_raw(number) };
            rustix::io::fcntl_setfd(listener, rustix::io::FdFlags::empty())?;
        }
        unblock_signals();
        Ok(())
    };
    // SAFETY: between fork and exec, only system calls are made; nothing is allocated or locked.
    unsafe { command.pre_exec(prepare) };
}

/// The thread that starts children takes no signals; the children are to take them.
fn unblock_signals() {
    let mut none = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is written before it is used; both calls may be made between fork and exec.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

fn spawn_all(commands: Vec<Command>, has_groups: bool) -> Result<Vec<Process>> {
    let mut processes = Vec::new();
    for mut command in commands {
        match Process::start(&mut command, has_groups) {
            Ok(process) => processes.push(process),
            Err(problem) => {
                end(&mut processes);
                let program = command.get_program().to_string_lossy().into_owned();
                return Err(Error::system(
                    format!("starting {program} as rank {}", processes.len()),
                    problem,
                ));
            }
        }
    }
    Ok(processes)
}

fn end(processes: &mut [Process]) {
    for process in processes.iter_mut() {
        // Who has been waited for is left alone.
        let _ = process.kill();
    }
    for process in processes {
        let _ = process.reap();
    }
}

/// The processes of a job. Dropping it kills those that still run, and all that is left in their
/// [groups](Launcher::process_groups), if they have some.
#[derive(Debug)]
pub struct Running {
    processes: Vec<Process>,
    // Closed when this is dropped, which ends the launcher's thread.
    _keep: mpsc::Sender<()>,
}

impl Running {
    /// The process ids, by rank.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::id).collect()
    }

    /// Kills a process (SIGKILL), with its group.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; what the system says.
    pub fn kill(&mut self, rank: Rank) -> Result<()> {
        self.process(rank)?.kill().map_err(|problem| Error::system(format!("killing rank {rank}"), problem))
    }

    /// Sends a signal to a process, or to its group: then also to what one that has ended has left there. Otherwise one
    /// that has ended gets none.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; what the system says, also where there is no such signal.
    pub fn signal(&mut self, rank: Rank, signal: i32) -> Result<()> {
        let doing = || format!("sending signal {signal} to rank {rank}");
        let process = self.process(rank)?;
        let named =
            Signal::from_named_raw(signal).ok_or_else(|| Error::system(doing(), rustix::io::Errno::INVAL))?;
        process.signal(named).map_err(|problem| Error::system(doing(), problem))
    }

    /// Handles of up to `most` processes that those of the job have left in their [groups](Launcher::process_groups).
    /// Each can be read, as one of `pidfd_open`, when its process has ended; there may be others then.
    ///
    /// # Errors
    /// What the system says.
    pub fn left_in_groups(&self, most: usize) -> Result<Vec<OwnedFd>> {
        let leaders: Vec<u32> =
            self.processes.iter().filter(|process| process.leads_group()).map(Process::id).collect();
        groups::members(&leaders, most)
            .map_err(|problem| Error::system("looking for what processes have left", problem))
    }

    /// How a process ended, if it has.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; what the system says.
    pub fn try_wait(&mut self, rank: Rank) -> Result<Option<ExitStatus>> {
        let process = self.process(rank)?;
        process.try_wait().map_err(|problem| Error::system(format!("looking after rank {rank}"), problem))
    }

    /// Waits for a process's end.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; what the system says.
    pub fn wait_for(&mut self, rank: Rank) -> Result<ExitStatus> {
        let process = self.process(rank)?;
        process.wait().map_err(|problem| Error::system(format!("waiting for rank {rank}"), problem))
    }

    /// Waits until all have ended; what they leave in their groups goes on. Their piped output is not read: for that,
    /// there is [`output`](Self::output).
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(mut self) -> Result<Vec<ExitStatus>> {
        let ended: Result<Vec<_>> =
            (0..self.processes.len() as u32).map(|rank| self.wait_for(Rank(rank))).collect();
        let reap = |(rank, process): (usize, &mut Process)| {
            process.reap().map_err(|problem| Error::system(format!("waiting for rank {rank}"), problem))
        };
        ended.and_then(|_| self.processes.iter_mut().enumerate().map(reap).collect())
    }

    /// Reads all piped output until all have ended.
    ///
    /// # Errors
    /// What the system says.
    pub fn output(mut self) -> Result<Vec<Output>> {
        let processes = std::mem::take(&mut self.processes);
        let outputs: Vec<_> = std::thread::scope(|scope| {
            let readers: Vec<_> =
                processes.into_iter().map(|process| scope.spawn(|| process.output())).collect();
            readers.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let broken = |problem| Error::system("reading the output of processes", problem);
        outputs
            .into_iter()
            .map(|output| {
                output.unwrap_or_else(|_| Err(std::io::Error::other("a reader panicked"))).map_err(broken)
            })
            .collect()
    }

    /// The read end of a process's piped output, once.
    pub fn take_stdout(&mut self, rank: Rank) -> Option<ChildStdout> {
        self.processes.get_mut(rank.index())?.take_stdout()
    }

    /// The read end of a process's piped error output, once.
    pub fn take_stderr(&mut self, rank: Rank) -> Option<ChildStderr> {
        self.processes.get_mut(rank.index())?.take_stderr()
    }

    fn process(&mut self, rank: Rank) -> Result<&mut Process> {
        let size = self.processes.len() as u32;
        self.processes.get_mut(rank.index()).ok_or(Error::NoSuchRank { rank, size })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.processes);
    }
}
