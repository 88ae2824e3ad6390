//! Starting an MPI job: with the stock MPI alone, or with svmio's files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::build::{self, svmio};
use crate::mpi::Mpi;
use crate::paths::Paths;

/// How a job's files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Launcher {
    /// By the MPI as it is.
    Stock,
    /// By svmio, the job started with `svmio run`.
    Svm,
}

impl Launcher {
    pub(crate) const BOTH: [Self; 2] = [Self::Stock, Self::Svm];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Svm => "svm",
        }
    }

    /// Fails where this launcher cannot be used yet.
    pub(crate) fn check(self, paths: &Paths) -> Result<()> {
        let tool = svmio(paths);
        if self == Self::Svm && !tool.exists() {
            bail!("{} does not exist; run `cargo xtask build` first", tool.display());
        }
        Ok(())
    }
}

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
    /// The store that svmio uses for the job.
    pub(crate) fn store(folder: &Path) -> PathBuf {
        folder.join("store")
    }

    /// What is wrong with where the finished job kept its files, if anything.
    ///
    /// Names that svmio should have taken but did not would be stock files, and all would look well.
    pub(crate) fn misplacement(&self) -> Option<String> {
        let store = Self::store(self.folder);
        let strayed = self.launcher == Launcher::Svm && !store.is_dir();
        strayed.then(|| format!("svmio kept nothing in its store, {}", store.display()))
    }

    /// The command that starts it.
    pub(crate) fn command(&self, paths: &Paths) -> Command {
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
                run.env("SVMIO_STORE", Self::store(self.folder));
                run
            }
        };
        command.args(["-n", &self.ranks.to_string()]);
        if self.launcher == Launcher::Svm {
            command.arg("--");
        }
        command.arg(self.program).args(&self.arguments);
        command.envs(self.mpi.environment().iter().copied());
        command.env("TMPDIR", self.folder).current_dir(self.folder);
        command
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

/// The cores that jobs may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
