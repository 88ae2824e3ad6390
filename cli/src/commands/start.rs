//! `svmio start`: processes that find each other by svmio itself, with no MPI.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Args, ValueHint};
use svmio_svm::staging::Servers;
use svmio_transport::Rank;
use svmio_transport::job::Launcher;

use super::Outcome;
use super::error::CommandError;
use super::supervision;
use crate::servers;

/// The arguments of `svmio start`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  svmio start -n 4 -- ./app in.dat           four processes, which share this host's store
  svmio start -n 4 --nodes 2 -- ./app        the same, as if on two nodes, n0 and n1, each with a store of its own

The processes find each other by SVMIO_JOB_MASTER, SVMIO_JOB_RANK, SVMIO_JOB_SIZE and SVMIO_JOB_SECRET, which
whatever else starts them can set as well: see the guide. They die with this command. Signals to it that end programs go
to all of them and to what they have started; SIGINT, SIGTERM and SIGHUP to one of them end the job
(SVMIO_WATCHDOG_SIGNALS=true, unless you set it). When one fails, the others have SVMIO_WATCHDOG_GRACE and two seconds
to leave, the same again after a SIGTERM, and then are killed.

Exit codes: 0 all have ended well; 1 one has not; 2 wrong command line; a signal to this command ends it, too, but for
SIGUSR1 and SIGUSR2, which are handed on alone.")]
pub(crate) struct StartArguments {
    /// How many processes
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,

    /// Have this host play so many nodes, n0, n1, …, to which the processes are dealt out one by one
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,

    /// The store (sets SVMIO_STORE); with --nodes, what the names of their stores begin with: DIR-n0, DIR-n1, …
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    store: Option<PathBuf>,

    /// Have each process tell at the end what its files have cost, and the first what those of all have (sets
    /// SVMIO_STATS)
    #[arg(long)]
    stats: bool,

    /// The program
    #[arg(value_hint = ValueHint::CommandName)]
    program: OsString,

    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Starts the processes, and waits for them.
///
/// # Errors
/// Where one cannot be started, or fails; where settings are wrong; the signal that came to this process.
pub(crate) fn start(arguments: &StartArguments) -> Result<Outcome, CommandError> {
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).map_err(|source| CommandError::Outside {
            action: "finding",
            path: path.clone(),
            source,
        })
    };
    let own = arguments.store.as_ref().map(absolute).transpose()?.map(PathBuf::into_os_string);
    let store = own.or_else(|| std::env::var_os("SVMIO_STORE").filter(|store| !store.is_empty()));
    let mut launcher =
        Launcher::new(&arguments.program).arguments(&arguments.arguments).size(arguments.ranks);
    if arguments.stats {
        launcher = launcher.environment("SVMIO_STATS", "1");
    }
    let program = servers::program(false).map_err(|source| CommandError::Outside {
        action: "looking for",
        path: PathBuf::from("svmio's own program"),
        source,
    })?;
    if let Some(program) = program {
        launcher = launcher.environment(Servers::PROGRAM_VARIABLE, program);
    }
    if let Some(nodes) = arguments.nodes {
        let name = move |rank: Rank| format!("n{}", rank.0 % nodes);
        launcher = launcher.node(name);
        if let Some(store) = store {
            launcher = launcher.prefix(move |rank| {
                let node = name(rank);
                let own = [OsStr::new("SVMIO_STORE="), &store, OsStr::new("-"), OsStr::new(&node)];
                vec!["env".into(), own.into_iter().collect()]
            });
        }
    } else if let Some(store) = store {
        launcher = launcher.environment("SVMIO_STORE", store);
    }
    supervision::run(launcher, arguments.ranks)?;
    Ok(Outcome::Fine)
}
