//! `svmio run`: an MPI program whose ranks have svmio's library.
//!
//! ```text
//! words after `run`      MpiexecLine     mpiexec_line      mpiexec's options, the program, its arguments
//!                                        mpiexec_options   how many values each option takes
//! the program            Program         program           where it is, ELF or script, its dynamic loader
//! the MPI it is made for LinkedMpi       linked_mpi        what the loader says that it will load
//!                        MpiFamily       mpi_family        MPICH or Open MPI
//! that MPI's mpiexec     Launcher        launcher          in the library's own prefix first
//! what ranks preload     Installation    installation      lib/<family>/libsvmio_mpi.so
//! whose collectives      Collectives     collectives       MPI's, or svmio's: preloaded, or as a component
//!                                        component         Open MPI's component: where, and for which Open MPI
//! how ranks wait         WaitingCure     waiting           more ranks than cores: yield
//! on which hosts                         hosts             `--hosts` for both families
//! the command            LaunchCommand   launch_command    options and environment, put together
//! ```
//!
//! At the end this process *becomes* `mpiexec` (`exec`) instead of watching over it as a child. Signals,
//! job control, the terminal, standard input and the exit status are then `mpiexec`'s own, with nothing
//! in between that could deliver a terminal's Ctrl-C twice (which hydra and `mpirun` take for "kill").

mod collectives;
mod component;
mod error;
mod hosts;
mod installation;
mod launch_command;
mod launcher;
mod linked_mpi;
mod mpi_family;
mod mpiexec_line;
mod mpiexec_options;
mod program;
mod waiting;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use svmio_svm::staging::Servers;

use self::collectives::Collectives;
pub(crate) use self::error::RunError;
use self::installation::Installation;
use self::launch_command::{LaunchCommand, RankVariable};
use self::launcher::Launcher;
use self::mpi_family::MpiFamily;
use self::mpiexec_line::MpiexecLine;
use self::program::Program;
use self::waiting::{Crowding, WaitingCure};
use crate::servers;

/// What is said of it beside its options.
pub(crate) const LONG_ABOUT: &str = "\
Start an MPI program, unmodified, with svmio's library in each of its ranks: names that start with \
`svm:` are then svmio's files.

The program's MPI is found from the libraries that it is linked with, and the mpiexec that belongs to \
that very MPI is started. svmio's own options come first; everything from the first option that is not \
svmio's to the program is given to mpiexec as it stands. A `--` before the program removes all doubt.";

const AFTER_HELP: &str = "\
Examples:
  svmio run -n 4 -- ./app in.dat             four ranks
  svmio run -n 4 ./app in.dat                the same
  svmio run -n 8 --oversubscribe -- ./app    options of mpiexec (here Open MPI's) pass through
  svmio run -n 8 --hosts a,b,c,d ./app       two ranks on each of four hosts, also with Open MPI
  svmio run --store /local/me -n 4 -- ./app  keep the files on a local disk
  svmio run --claim /scratch/ckpt -n 4 -- ./app
                                             files under /scratch/ckpt are svmio's too
  svmio run --servers n1,n2 -n 4 ./app       read files that an earlier job left on n1 and n2
  svmio run --mpi openmpi -n 4 -- python3 app.py
                                             for programs that load MPI themselves
  svmio run --collectives -n 4 -- ./app      MPI's collectives are svmio's too
  svmio run --collectives=component -n 4 -- ./app
                                             the same, by a component of Open MPI 4.1
  svmio run --tool libmpiP.so -n 4 -- ./app  with a profiler that hears of all calls of MPI's
  svmio run --dry-run -n 4 -- ./app          show the command, start nothing
  svmio run -n 1 -- ./master : -n 3 ./worker several programs in one job

Several hosts:
  --hosts LIST deals the ranks out to the hosts one by one, whichever MPI it is (Open MPI gets it as --host
  with slots for all ranks and, unless you place them otherwise, --map-by node); any other option of
  mpiexec does as well: -f, -ppn, --hostfile, a batch system's own. The program and svmio have to be at the
  same paths on all hosts. LD_PRELOAD and SVMIO_* reach the ranks on all of them. Where such an option is given,
  and one program, the hosts are brought together in MPI_Init, so that files of single ranks are found on all of
  them (SVMIO_MEET=open: by the first file that ranks of several hosts open together).

Which MPI is a program's that has none itself (a script, python, a wrapper)?
The first answer of:
  --mpi; an argument that is a file linked with MPI; MPI4PY_LIBMPI;
  the mpiexec of its virtual environment; the mpiexec in PATH

Environment:
  LD_PRELOAD    stays, after svmio's library (--tool goes before it)
  SVMIO_*       reach all ranks, on all hosts, but one of several programs that an option of mpiexec (-env, -x)
                gives the variable has it from there; SVMIO_JOB_*, of a job around this one, reach none
  SVMIO_LIBDIR  where <family>/libsvmio_mpi.so is (default: lib beside this program's bin)
  mpiexec's own variables apply, such as Open MPI's OMPI_ALLOW_RUN_AS_ROOT

Exit codes:
  mpiexec's own, 128 + n in a shell where signal n ended it
  2    the command line makes no sense
  125  svmio could not start the program (no MPI found, a library missing, ...)
  126  the program, or mpiexec, cannot be executed
  127  the program, or mpiexec, was not found";

/// The arguments of `svmio run`.
#[derive(Debug, Args)]
#[command(
    after_long_help = AFTER_HELP,
    override_usage = "svmio run [OPTIONS] [MPIEXEC OPTIONS] [--] PROGRAM [ARGUMENTS]..."
)]
pub(crate) struct RunArguments {
    /// The MPI that the program is for, whatever it is linked with
    #[arg(long, value_name = "FAMILY")]
    mpi: Option<MpiFamily>,

    /// The mpiexec to start
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    mpiexec: Option<PathBuf>,

    /// Leave the ranks' waiting alone, also with more ranks than cores and at the end of MPICH's jobs
    #[arg(long)]
    no_yield: bool,

    /// Have svmio do MPI's collectives
    #[arg(
        long,
        value_name = "ADAPTER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "preload"
    )]
    collectives: Option<Collectives>,

    /// The store of the files on each node (sets SVMIO_STORE)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    store: Option<PathBuf>,

    /// Hosts beside the job's own whose stores may be asked for files that are only read (sets SVMIO_SERVERS, and
    /// SVMIO_PROGRAM to this program)
    #[arg(long, value_name = "HOSTS")]
    servers: Option<Servers>,

    /// Names, beside `svm:`, that are svmio's: prefixes with `:` between them, or `*` (sets SVMIO_CLAIM)
    #[arg(long, value_name = "PREFIXES")]
    claim: Option<OsString>,

    /// The library of a tool that stands between the program and MPI, as profilers do: goes before svmio's, and so hears
    /// of all calls of MPI's, of those that svmio serves too; can be given several times
    #[arg(long, value_name = "LIBRARY", value_hint = ValueHint::FilePath)]
    tool: Vec<PathBuf>,

    /// Have each rank tell at the end what its files cost, and rank 0 what those of all did: messages and bytes on the
    /// wire, requests, pages (sets SVMIO_STATS)
    #[arg(long)]
    stats: bool,

    /// Print the command and its environment, start nothing
    #[arg(long)]
    dry_run: bool,

    /// mpiexec's options, the program and its arguments
    #[arg(
        value_name = "MPIEXEC OPTIONS, PROGRAM, ARGUMENTS",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    line: Vec<OsString>,
}

/// Becomes the `mpiexec` of the program's MPI; comes back after `--dry-run`, or with the reason why not.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), RunError> {
    let line = MpiexecLine::parse(&arguments.line)?;
    let first = line.first();
    let program = Program::find(first)?;

    let linked = match arguments.mpi {
        Some(_) => linked_mpi::of_program(&program).unwrap_or(None),
        None => linked_mpi::of_program_or_its_arguments(&program, &first.arguments)?,
    };
    let launcher = Launcher::choose(arguments.mpi, arguments.mpiexec.as_deref(), &program, linked.as_ref())?;

    let installation = Installation::locate()?;
    let crowding = Crowding::of(&line);
    let cure = if arguments.no_yield {
        WaitingCure::none()
    } else {
        WaitingCure::of(launcher.family, crowding, &installation)?
    };
    // A tool's `PMPI_` calls come to svmio, which has these names, too.
    let mut libraries =
        arguments.tool.iter().map(|tool| tool_library(tool)).collect::<Result<Vec<_>, _>>()?;
    let mut variables = own_variables(arguments, &line)?;
    if let Some(collectives) = arguments.collectives {
        // Before the one for files: what both take, it passes on.
        libraries.extend(collectives.library(&launcher, &installation)?);
        variables.extend(collectives.variables(&launcher, &installation)?);
    }
    libraries.push(installation.mpi_library(launcher.family)?);
    let withheld = std::env::vars_os().map(|(name, _)| name).filter(|name| is_of_other_job(name)).collect();
    let command = LaunchCommand::new(&launcher, &line, &program, &libraries, cure, variables, withheld)?;

    if arguments.dry_run {
        let text = format!(
            "# {}: {}\n# ranks and cores: {crowding}\n{}\n",
            launcher.family,
            launcher.reason,
            command.to_shell()
        );
        return match io::stdout().write_all(text.as_bytes()) {
            // Its reader went away, which is his own business.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome.map_err(|source| RunError::Output { source }),
        };
    }
    Err(command.exec())
}

/// Says when the ranks' nodes are brought together.
const MEETING: &str = "SVMIO_MEET";

/// svmio's variables for the ranks: those set in the environment, and what the options say instead. Ranks on several
/// hosts meet when MPI is initialized, unless the user says otherwise.
fn own_variables(arguments: &RunArguments, line: &MpiexecLine) -> Result<Vec<RankVariable>, RunError> {
    let mut variables: Vec<RankVariable> = std::env::vars_os()
        .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"SVMIO_"))
        .filter(|(name, value)| name != installation::LIBRARY_DIRECTORY_VARIABLE && !value.is_empty())
        .filter(|(name, _)| !is_of_other_job(name))
        .map(|(name, value)| RankVariable { name, value })
        .collect();
    variables.sort_by(|a, b| a.name.cmp(&b.name));
    // Absolute, because ranks may run in another directory (mpiexec's -wdir).
    let store = arguments.store.as_deref().map(absolute).transpose()?;
    let program = servers::program(arguments.servers.is_some());
    let program = program.map_err(|source| RunError::NoInstallation { source })?;
    for (name, value) in [
        ("SVMIO_STORE", store.map(OsString::from)),
        (Servers::VARIABLE, arguments.servers.as_ref().map(|servers| servers.to_string().into())),
        (Servers::PROGRAM_VARIABLE, program.map(OsString::from)),
        ("SVMIO_CLAIM", arguments.claim.clone()),
        ("SVMIO_STATS", arguments.stats.then(|| "1".into())),
    ] {
        if let Some(value) = value {
            variables.retain(|variable| variable.name != name);
            variables.push(RankVariable { name: name.into(), value });
        }
    }
    // Of several programs, one may be such that svmio's library is not in it: its ranks would keep the others waiting.
    let meet = line.places_ranks() && line.programs.len() == 1;
    if meet && !variables.iter().any(|variable| variable.name == MEETING) {
        variables.push(RankVariable { name: MEETING.into(), value: "init".into() });
    }
    Ok(variables)
}

/// Whether it is a variable of the job within which this one is started. The ranks are not part of that one, and its
/// secret is not for whoever lists processes.
fn is_of_other_job(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"SVMIO_JOB_")
}

/// A tool's library as it is preloaded: by a path that does for ranks that run in another directory, too; a mere name is
/// the dynamic loader's to find.
fn tool_library(tool: &Path) -> Result<PathBuf, RunError> {
    if tool.parent().is_some_and(|parent| parent.as_os_str().is_empty()) && !tool.exists() {
        return installation::preloadable(tool.to_owned());
    }
    if !tool.is_file() {
        return Err(RunError::NoTool { path: tool.to_owned() });
    }
    installation::preloadable(absolute(tool)?)
}

fn absolute(path: &Path) -> Result<PathBuf, RunError> {
    std::path::absolute(path).map_err(|source| RunError::NoAbsolutePath { path: path.to_owned(), source })
}
