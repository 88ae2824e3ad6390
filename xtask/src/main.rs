//! svmio's set-up, build, tests and demonstration: `cargo xtask help`.
//!
//! ```text
//! setup ── sources ─┐                        system packages; Debian's source packages of MPICH, HDF5
//! wheels ───────────┤                        mpi4py and the newest MPIs, in virtual environments
//! build ────────────┼── install              target/svmio: the tool, the preload libraries, what there is for C
//!                   │
//!            mpich ─┼── coll                 MPICH's own tests of collectives, on svmio's and on stock ones
//! mpi ── launcher ──┼── suite ── romio       ROMIO's own test programs   ┐
//!                   │         ├─ mpich_io    MPICH's own tests of MPI-IO │ programs × ranks × MPIs,
//!                   │         ├─ mpi4py      mpi4py's own file tests     │ on svmio and on stock
//!                   │         └─ hdf5        HDF5's own parallel tests   ┘
//!        hosts      │            comparison  what passes on stock must pass on svmio; the table
//!                   ├── demo                 coll_perf on svmio and on stock, in one table
//!                   ├── promises             the workspace's real MPI programs: soak, what else needs them
//!                   ├── bench                the benchmarks, all of them, at once or one sitting after the other
//!                   ├── aims                 those that are judged, shortened
//!                   └── test                 all of it and the workspace's own tests, counted, side by side
//!                                            where they do not disturb each other
//! ```
//!
//! [`mpi`] knows the four MPIs and [`launcher`] how a job is started with one, on stock files or on
//! svmio's. [`suite`] runs many jobs on few cores ([`pool`]) and never for ever ([`process`]).
//! None of it hears of what users have set for svmio ([`settings`]).
//! Everything that is made lies under the workspace's `target/` ([`paths`]), and [`stamp`]s say what
//! need not be made again.

mod aims;
mod bench;
mod build;
mod coll;
mod comparison;
mod demo;
mod hdf5;
mod hosts;
mod launcher;
mod memory;
mod mpi;
mod mpi4py;
mod mpich;
mod mpich_io;
mod paths;
mod pool;
mod process;
mod promises;
mod romio;
mod settings;
mod setup;
mod sources;
mod stamp;
mod suite;
mod table;
mod test;
mod wheels;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::comparison::Tally;
use crate::paths::Paths;
use crate::suite::Selection;

/// svmio's set-up, build, tests and demonstration
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct CommandLine {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install the system packages that are missing and fetch the sources of ROMIO's tests
    Setup,
    /// Make virtual environments with mpi4py and with the newest MPICH and Open MPI
    Wheels,
    /// Build for release and lay out an installation in target/svmio
    Build,
    /// Build and copy the installation to PREFIX
    Install {
        /// The folder that gets bin/, lib/, include/ and share/
        prefix: PathBuf,
    },
    /// Build, and run ROMIO's own test programs
    Romio {
        #[command(flatten)]
        selection: Selection,
        /// Only these programs [default: all]
        #[arg(long = "program", value_name = "NAME", value_delimiter = ',')]
        programs: Vec<String>,
    },
    /// Build, and run MPICH's own tests of MPI-IO
    MpichIo {
        #[command(flatten)]
        selection: Selection,
        /// Only these programs [default: all]
        #[arg(long = "program", value_name = "NAME", value_delimiter = ',')]
        programs: Vec<String>,
    },
    /// Build, and run mpi4py's own file tests
    Mpi4py {
        #[command(flatten)]
        selection: Selection,
    },
    /// Build, and run HDF5's own parallel tests
    Hdf5 {
        #[command(flatten)]
        selection: Selection,
    },
    /// Build, and run MPICH's tests of collectives
    Coll {
        #[command(flatten)]
        selection: coll::runs::Selection,
    },
    /// Set up, build, and compare ROMIO's coll_perf on svmio and on stock MPI-IO
    Demo,
    /// Set up, build, and run the tests as often as is promised, and the suites that `test` leaves out (hours)
    Soak,
    /// Set up, build, and measure svmio beside MPIs and other file systems: messages, overlap, files
    /// (hours)
    Bench {
        /// Go on where an interrupted run of the same build was
        #[arg(long)]
        resume: bool,
    },
    /// Set up, build and run all checks but those that take long, which `soak` has
    Test {
        /// Only these stages, after the wheels and a build where they need these [default: all but those that end in -full, -8-ranks and -hosts]
        #[arg(long = "only", value_name = "STAGE", value_delimiter = ',', value_parser = test::stage_names())]
        only: Vec<String>,
    },
    /// Run one stage for the process that runs the whole check
    #[command(hide = true)]
    Stage { name: String },
}

fn main() -> ExitCode {
    match settings::leave_behind().and_then(|()| run(CommandLine::parse().task)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does a task; false means that checks failed and have been shown.
fn run(task: Task) -> Result<bool> {
    let paths = &Paths::of_workspace();
    paths.check()?;
    process::remove_leftovers()?;
    let holds = |tally: Tally| tally.failed == 0;
    match task {
        Task::Setup => {
            setup::run()?;
            sources::romio_tests(paths)?;
            Ok(true)
        }
        Task::Wheels => wheels::run(paths).map(|()| true),
        Task::Build => build::run(paths).map(|()| true),
        Task::Install { prefix } => build::install(paths, &prefix).map(|()| true),
        Task::Romio { selection, programs } => {
            build::run(paths)?;
            romio::runs::run(paths, &selection, &programs).map(holds)
        }
        Task::MpichIo { selection, programs } => {
            build::run(paths)?;
            mpich_io::runs::run(paths, &selection, &programs).map(holds)
        }
        Task::Mpi4py { selection } => {
            build::run(paths)?;
            mpi4py::run(paths, &selection).map(holds)
        }
        Task::Hdf5 { selection } => {
            build::run(paths)?;
            hdf5::runs::run(paths, &selection).map(holds)
        }
        Task::Coll { selection } => {
            build::run(paths)?;
            coll::runs::run(paths, &selection).map(holds)
        }
        Task::Demo => demo::run(paths).map(|()| true),
        Task::Soak => promises::soak(paths).map(|()| true),
        Task::Bench { resume } => bench::run(paths, resume).map(|()| true),
        Task::Test { only } => test::run(paths, &only),
        Task::Stage { name } => test::run_for_another(paths, &name),
    }
}
