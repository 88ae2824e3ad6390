//! The workspace's own tests and benchmarks of real MPI programs: what they need to find, and the long runs.

use std::process::Command;

use anyhow::Result;

use crate::paths::Paths;
use crate::{build, process, setup, wheels};

/// Cargo, with the installation and the MPIs from virtual environments told to what it starts.
pub(crate) fn cargo(paths: &Paths) -> Command {
    let mut cargo = build::cargo(paths);
    cargo.env("SVMIO_INSTALLATION", paths.installation());
    cargo.env("SVMIO_MPICH5", paths.venv("mpich5"));
    cargo.env("SVMIO_OPENMPI5", paths.venv("openmpi5"));
    cargo
}

/// Runs the tests that repeat themselves as often as is promised.
pub(crate) fn soak(paths: &Paths) -> Result<()> {
    ready(paths)?;
    let mut cargo = cargo(paths);
    cargo.args(["test", "--package", "svmio-tests", "--no-fail-fast", "--", "--nocapture"]);
    process::run(cargo.env("SVMIO_FULL", "1"))
}

/// Runs the benchmarks, beside the stock driver of each MPI.
pub(crate) fn bench(paths: &Paths) -> Result<()> {
    ready(paths)?;
    process::run(cargo(paths).args(["run", "--release", "--package", "svmio-benches", "--bin", "contiguous"]))
}

fn ready(paths: &Paths) -> Result<()> {
    setup::run()?;
    wheels::run(paths)?;
    build::run(paths)
}
