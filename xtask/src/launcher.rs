//! Starting an MPI job: with the stock MPI alone, or with svmio's files, on one node or over several.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::build::{self, svmio};
use crate::hosts::Hosts;
use crate::mpi::Mpi;
use crate::paths::{self, Paths};

/// How a job's files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Launcher {
    /// By the MPI as it is.
    Stock,
    /// By svmio, the job started with `svmio run`.
    Svm,
    /// The same, the machine passing for [`NODES`] nodes with a store each.
    SvmOverNodes,
    /// The same, the ranks on several hosts: beside these only.
    SvmOverHosts,
}

/// How many nodes the machine passes for.
const NODES: u32 = 4;

/// After how long without a sign of life a process on another node is lost: a busy machine keeps one waiting for longer
/// than by default, and then that is right, and no defect.
const PATIENCE: (&str, &str) = ("SVMIO_WATCHDOG_TIMEOUT", "60s");

impl Launcher {
    pub(crate) const BOTH: [Self; 2] = [Self::Stock, Self::Svm];
    pub(crate) const ALL: [Self; 4] = [Self::Stock, Self::Svm, Self::SvmOverNodes, Self::SvmOverHosts];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Svm => "svm",
            Self::SvmOverNodes => "nodes",
            Self::SvmOverHosts => "hosts",
        }
    }

    /// Whether svmio keeps the files.
    pub(crate) fn is_svmio(self) -> bool {
        self != Self::Stock
    }

    /// Whether there are several nodes.
    fn is_over_several(self) -> bool {
        matches!(self, Self::SvmOverNodes | Self::SvmOverHosts)
    }

    /// The numbers of ranks to run with, of those that a program accepts: over several nodes 1 and 2 on each, or
    /// what the program leaves of that.
    pub(crate) fn ranks(self, accepted: &[u32]) -> Vec<u32> {
        match self {
            Self::Stock | Self::Svm => accepted.to_vec(),
            Self::SvmOverNodes | Self::SvmOverHosts if accepted.len() > 1 => vec![NODES, 2 * NODES],
            Self::SvmOverNodes | Self::SvmOverHosts => {
                accepted.iter().copied().filter(|ranks| *ranks > 1).collect()
            }
        }
    }

    /// Whether it serves the MPI.
    pub(crate) fn serves(self, mpi: Mpi) -> bool {
        self != Self::SvmOverHosts || Mpi::DEBIAN.contains(&mpi)
    }

    /// A folder for a run's files, which all of its ranks see, with a word for what it is.
    pub(crate) fn scratch(self, what: &str) -> std::io::Result<tempfile::TempDir> {
        match self {
            Self::SvmOverHosts => paths::scratch_in(&std::env::temp_dir(), what),
            _ => paths::scratch(what),
        }
    }

    /// Fails where this launcher cannot be used yet.
    pub(crate) fn check(self, paths: &Paths) -> Result<()> {
        let tool = svmio(paths);
        if self.is_svmio() && !tool.exists() {
            bail!("{} does not exist; run `cargo xtask build` first", tool.display());
        }
        if self == Self::SvmOverHosts {
            Hosts::from_environment()?;
        }
        Ok(())
    }
}

/// The store's name in a job's folder.
const STORE: &str = "store";
/// What the names of the stores of emulated nodes begin with.
const STORE_OF_NODE: &str = "store-of-";

/// One job.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) mpi: Mpi,
    pub(crate) launcher: Launcher,
    pub(crate) ranks: u32,
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<OsString>,
    /// The job's own folder: its working directory, temporary files and, below, svmio's store.
    pub(crate) folder: &'a Path,
}

impl Job<'_> {
    /// The stores on this machine that svmio uses for a job of that many ranks in `folder`, rank 0's first.
    pub(crate) fn stores(folder: &Path, launcher: Launcher, ranks: u32) -> Vec<PathBuf> {
        match launcher {
            Launcher::Stock | Launcher::SvmOverHosts => Vec::new(),
            Launcher::Svm => vec![folder.join(STORE)],
            Launcher::SvmOverNodes => {
                (0..ranks.min(NODES)).map(|node| folder.join(format!("{STORE_OF_NODE}n{node}"))).collect()
            }
        }
    }

    /// The options of the tool, as a shell takes them, with which it finds all parts of files that are on several
    /// hosts.
    pub(crate) fn options_for_reading(folder: &Path, launcher: Launcher, ranks: u32) -> Result<String> {
        match launcher {
            Launcher::SvmOverHosts => {
                Ok(Hosts::from_environment()?.options_for_reading(&store_of_hosts(folder), ranks))
            }
            _ => Ok(String::new()),
        }
    }

    /// What is wrong with where the finished job kept its files, if anything.
    ///
    /// Names that svmio should have taken but did not would be stock files, and all would look well.
    ///
    /// What it kept in the memory of hosts is removed.
    pub(crate) fn misplacement(&self) -> Option<String> {
        if self.launcher == Launcher::SvmOverHosts {
            let hosts = Hosts::from_environment().ok()?;
            let store = store_of_hosts(self.folder);
            let empty = hosts.without(&store, self.ranks).map(str::to_owned);
            hosts.remove(&store);
            return empty.map(|host| format!("svmio kept nothing on the host {host}"));
        }
        let stores = Self::stores(self.folder, self.launcher, self.ranks);
        let empty = stores.into_iter().find(|store| !store.is_dir())?;
        Some(format!("svmio kept nothing in its store, {}", empty.display()))
    }

    /// The command that starts it.
    pub(crate) fn command(&self, paths: &Paths) -> Result<Command> {
        let mut command = match self.launcher {
            Launcher::Stock => {
                let mut mpiexec = Command::new(self.mpi.mpiexec(paths));
                self.cure_waiting(paths, &mut mpiexec);
                mpiexec
            }
            Launcher::Svm => {
                let mut run = Command::new(svmio(paths));
                // No hint at the MPI: the tool finds it, as it must for a user.
                run.arg("run");
                run.env("SVMIO_STORE", self.folder.join(STORE));
                run
            }
            Launcher::SvmOverNodes => {
                let mut run = Command::new(svmio(paths));
                // The shell that starts the ranks is in nobody's virtual environment.
                run.args(["run", "--mpiexec"]).arg(self.mpi.mpiexec(paths));
                run
            }
            Launcher::SvmOverHosts => {
                let mut run = Command::new(svmio(paths));
                run.arg("run").env("SVMIO_STORE", store_of_hosts(self.folder));
                run
            }
        };
        command.args(["-n", &self.ranks.to_string()]);
        if self.launcher == Launcher::SvmOverHosts {
            command.args(Hosts::from_environment()?.options(self.mpi));
        }
        if self.launcher.is_svmio() {
            command.arg("--");
        }
        if self.launcher == Launcher::SvmOverNodes {
            let script = paths.root().join("tests/programs/as_node.sh");
            let nodes: Vec<String> = (0..NODES).map(|node| node.to_string()).collect();
            command.arg("/bin/sh").arg(script).arg(nodes.join(",")).arg(self.folder.join(STORE_OF_NODE));
        }
        command.arg(self.program).args(&self.arguments);
        command.envs(self.mpi.environment().iter().copied());
        if self.launcher.is_over_several() {
            command.env(PATIENCE.0, PATIENCE.1);
        }
        command.env("TMPDIR", self.folder).current_dir(self.folder);
        Ok(command)
    }

    /// Debian's MPICH never yields while it waits; with more ranks than cores its times say
    /// nothing unless that is cured, as `svmio run` does by itself.
    fn cure_waiting(&self, paths: &Paths, mpiexec: &mut Command) {
        let cure = build::yield_library(paths);
        let crowded = self.ranks as usize > cores();
        if self.mpi == Mpi::DebianMpich && crowded && cure.exists() {
            mpiexec.env("LD_PRELOAD", cure);
        }
    }
}

/// The store of a job that runs in `folder`, in the memory of each host.
fn store_of_hosts(folder: &Path) -> PathBuf {
    Path::new("/dev/shm").join(folder.file_name().unwrap_or_default())
}

/// The cores that jobs may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_lost_soon_where_there_are_several_nodes() {
        let patience = |launcher| {
            let job = Job {
                mpi: Mpi::DEBIAN[0],
                launcher,
                ranks: 2,
                program: Path::new("program"),
                arguments: Vec::new(),
                folder: Path::new("folder"),
            };
            let command = job.command(&Paths::of_workspace()).unwrap();
            let value = command.get_envs().find(|(name, _)| *name == PATIENCE.0).and_then(|(_, value)| value);
            value.map(OsString::from)
        };
        assert_eq!(patience(Launcher::SvmOverNodes), Some(PATIENCE.1.into()));
        // As users have it: within a node a timeout has collectives fail that would wait else.
        assert_eq!(Launcher::BOTH.map(patience), [None, None]);
    }
}
