//! Running MPI jobs, with a limit to their time, and nothing left of them.

mod running;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::installation::Installation;
use crate::launching;
use crate::leftovers;
use crate::mpi::Mpi;
use crate::nodes::{self, Nodes};
use crate::processes;
use crate::program::Program;
use crate::scratch::Scratch;

pub use running::{Finished, Mark, Running};

/// In the environment of each job's processes, to tell them from all others.
pub(crate) const MARK: &str = svmio_leftovers::JOB_MARK;
const LIMIT: Duration = Duration::from_secs(120);

/// After how long without a sign of life a process is lost, where a test says nothing else: a busy machine keeps one
/// waiting for longer than by default, and then that is right, and no defect.
pub(crate) const PATIENCE: (&str, &str) = ("SVMIO_WATCHDOG_TIMEOUT", "60s");

/// A test's communicators have few collectives, which are to be svmio's.
const AT_ONCE: (&str, &str) = ("SVMIO_COLLECTIVES_AFTER", "0");

/// Who keeps a job's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Files {
    /// svmio: the job is started with `svmio run`.
    Svmio,
    /// The MPI itself.
    Stock,
}

/// A job to be run.
#[derive(Debug)]
pub struct Job<'s> {
    scratch: &'s Scratch,
    program: Program,
    arguments: Vec<OsString>,
    ranks: u32,
    files: Files,
    collectives: Option<&'static str>,
    has_statistics: bool,
    nodes: Nodes<'s>,
    first_host: usize,
    options: Vec<OsString>,
    tool: Vec<OsString>,
    tool_library: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    limit: Duration,
}

impl<'s> Job<'s> {
    /// `ranks` ranks of a program, with svmio's files, in a scratch directory's store.
    pub fn new(scratch: &'s Scratch, program: &Program, ranks: u32) -> Job<'s> {
        Job {
            scratch,
            program: program.clone(),
            arguments: Vec::new(),
            ranks,
            files: Files::Svmio,
            collectives: None,
            has_statistics: false,
            nodes: Nodes::One,
            first_host: 0,
            options: Vec::new(),
            tool: Vec::new(),
            tool_library: None,
            environment: Vec::new(),
            limit: LIMIT,
        }
    }

    /// Gives the program a further argument.
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Says who keeps the files.
    pub fn files(mut self, files: Files) -> Self {
        self.files = files;
        self
    }

    /// Has svmio do MPI's collectives, by this adapter: one that `svmio run --collectives=` takes. Of each communicator,
    /// from the first one on; `SVMIO_COLLECTIVES_AFTER` as a [variable](Self::variable) says otherwise.
    pub fn collectives(mut self, adapter: &'static str) -> Self {
        self.collectives = Some(adapter);
        self
    }

    /// Has each rank tell at the end what its files on several nodes cost, by `svmio run --stats`.
    pub fn with_statistics(mut self) -> Self {
        self.has_statistics = true;
        self
    }

    /// Puts a tool's library before svmio's, by `svmio run --tool`.
    pub fn with_tool(mut self, library: &Program) -> Self {
        self.tool_library = Some(library.path.clone());
        self
    }

    /// Says where the ranks run: dealt out one by one to these nodes. The scratch directory has to be one that
    /// [they see](Nodes::scratch).
    pub fn over(mut self, nodes: Nodes<'s>) -> Self {
        self.nodes = nodes;
        self
    }

    /// Has rank 0 run on this host, and the next ranks on those that follow it, around to the one before.
    pub fn beginning_with(mut self, host: usize) -> Self {
        self.first_host = host;
        self
    }

    /// Gives mpiexec further options.
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(OsString::from));
        self
    }

    /// Has each rank started by a tool, which is given the program and its arguments behind its own.
    pub fn under<T: Into<OsString>>(mut self, tool: impl IntoIterator<Item = T>) -> Self {
        self.tool.extend(tool.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the environment.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the time after which the job is ended and counts as failed.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Starts it, to be ended when the thread that does so is no more, as after Ctrl-C.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn start(self) -> Running {
        static JOBS: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only different numbers matter.
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{number}", leftovers::own_mark());
        let log = self.scratch.file(&format!("output-{number}"));
        let output = File::create(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let errors = output.try_clone().expect("a descriptor can be duplicated");
        let mut command = self.command();
        command.env(MARK, &mark).stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        processes::end_with_us(&mut command);
        let child = command.spawn().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
        Running {
            child: Some(child),
            mark,
            log,
            limit: self.limit,
            started: Instant::now(),
            title: self.title(),
        }
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// Where it cannot be started or does not end in time.
    pub fn run(self) -> Finished {
        self.start().wait()
    }

    /// Runs it to its end and returns what it wrote.
    ///
    /// # Panics
    /// Where it fails in any way.
    pub fn succeed(self) -> String {
        let finished = self.run();
        assert!(finished.status.success(), "{}", finished.account());
        finished.output
    }

    fn command(&self) -> Command {
        let mut command = match self.files {
            Files::Svmio => {
                let mut command = self.launched(Installation::get().tool());
                command.arg("run").env("SVMIO_STORE", self.store());
                command.args(self.collectives.map(|adapter| format!("--collectives={adapter}")));
                command.args(self.has_statistics.then_some("--stats"));
                command.args(
                    self.tool_library.iter().flat_map(|library| [OsStr::new("--tool"), library.as_os_str()]),
                );
                command
            }
            Files::Stock => {
                let mut command = self.launched(&self.program.mpi.mpiexec());
                self.cure_waiting(&mut command);
                command
            }
        };
        command.arg("-n").arg(self.ranks.to_string());
        if let Nodes::Hosts(hosts) = self.nodes {
            let first = self.first_host;
            command.args(launching::on_hosts(hosts, first, self.program.mpi, self.files, self.ranks));
        }
        command.args(&self.options);
        if self.files == Files::Svmio {
            command.arg("--");
            match self.nodes {
                Nodes::Emulated(count) => {
                    let numbers: Vec<usize> = (0..count as usize).collect();
                    command.args(nodes::emulation(self.scratch, &numbers));
                }
                Nodes::Chosen(numbers) => {
                    command.args(nodes::emulation(self.scratch, numbers));
                }
                Nodes::One | Nodes::Hosts(_) => {}
            }
        }
        command.args(&self.tool).arg(&self.program.path).args(&self.arguments);
        command.envs(self.program.mpi.environment().iter().copied());
        // What killed ranks leave behind goes with the scratch directory, and what they leave in hosts with these.
        command.env("TMPDIR", self.scratch.path());
        if !matches!(self.nodes, Nodes::Hosts(_)) {
            for variable in ["OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"] {
                command.env(variable, self.scratch.path());
            }
        }
        // Within a node, collectives wait for ever where no timeout is set.
        if self.collectives.is_none() || !matches!(self.nodes, Nodes::One) {
            command.env(PATIENCE.0, PATIENCE.1);
        }
        if self.collectives.is_some() {
            command.env(AT_ONCE.0, AT_ONCE.1);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A launcher, in the scratch directory.
    fn launched(&self, launcher: &Path) -> Command {
        let directory = self.scratch.path();
        match self.nodes {
            Nodes::One | Nodes::Emulated(_) | Nodes::Chosen(_) => {
                let mut command = Command::new(launcher);
                command.current_dir(directory);
                command
            }
            Nodes::Hosts(hosts) => {
                assert!(
                    !directory.starts_with("/dev/shm"),
                    "hosts do not see {}: use Nodes::scratch",
                    directory.display()
                );
                let mut command = hosts.outside("env");
                command.arg("--chdir").arg(directory).arg(launcher);
                command
            }
        }
    }

    /// What `SVMIO_STORE` is for `svmio run`; emulated nodes' ranks have other ones.
    fn store(&self) -> PathBuf {
        match self.nodes {
            Nodes::One | Nodes::Emulated(_) | Nodes::Chosen(_) => self.scratch.store().to_owned(),
            Nodes::Hosts(_) => nodes::store_of_hosts(self.scratch),
        }
    }

    /// Debian's MPICH never yields while it waits. With more ranks than cores it takes minutes for what
    /// `svmio run`, which cures that by itself, does in seconds.
    fn cure_waiting(&self, mpiexec: &mut Command) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // Over hosts its end is to be cured, too.
        let is_needed = self.ranks as usize > cores || matches!(self.nodes, Nodes::Hosts(_));
        if self.program.mpi == Mpi::DebianMpich && is_needed {
            mpiexec.env("LD_PRELOAD", Installation::get().yield_library());
        }
    }

    fn title(&self) -> String {
        let arguments: Vec<_> = self.arguments.iter().map(|a| a.to_string_lossy()).collect();
        let program = self.program.path.file_name().unwrap_or_default().to_string_lossy();
        let (mpi, ranks) = (self.program.mpi, self.ranks);
        let nodes = match self.nodes {
            Nodes::One => String::new(),
            Nodes::Emulated(count) => format!(" on {count} emulated nodes"),
            Nodes::Chosen(numbers) => format!(" on emulated nodes {numbers:?}"),
            Nodes::Hosts(hosts) => format!(" on {} hosts", hosts.count()),
        };
        format!("{program} {} ({:?}, {mpi}, {ranks} ranks{nodes})", arguments.join(" "), self.files)
    }
}
