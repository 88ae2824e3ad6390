//! Why a command could not do what it was asked to.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};

use svmio_svm::LaunchError;

/// Why a command could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Svm(#[from] svmio_svm::Error),

    #[error("{0}; -f removes what is here and leaves the rest")]
    PartsElsewhere(svmio_svm::Error),

    #[error(
        "how long what comes from {from} is going to be is not known, which block placement has to: use round_robin, or copy a file"
    )]
    UnknownLength { from: String },

    #[error(transparent)]
    Mount(#[from] super::mount::MountError),

    #[error(transparent)]
    Fabric(#[from] svmio_transport::Error),

    #[error(transparent)]
    Simulation(#[from] svmio_transport::sim::SimError),

    #[error(transparent)]
    Figure(#[from] svmio_transport::sim::figures::FigureError),

    #[error("there is no store at {} yet (svmio store init makes one, and so do svmio run and svmio cp)", path.display())]
    NoStore { path: PathBuf },

    #[error("{}: {reason}", path.display())]
    NotMounted { path: PathBuf, reason: &'static str },

    #[error("{action} {}: only root may: {command}", path.display())]
    OnlyRoot { action: &'static str, path: PathBuf, command: String },

    #[error("SVMIO_STORES={}: it names no store (unset it for the default one)", list.display())]
    NoStoresNamed { list: OsString },

    #[error("--store is given several times: with --hosts it is one directory, the same on all of them")]
    SeveralDirectories,

    #[error(transparent)]
    Launch(LaunchError),

    #[error("{action} {}: {source}", path.display())]
    Outside { action: &'static str, path: PathBuf, source: io::Error },

    #[error(
        "the copy is there, but a power cut may take its name away (sync secures it): syncing the directory of {}: \
         {source}",
        path.display()
    )]
    NameUnsynced { path: PathBuf, source: io::Error },

    #[error("{name} became shorter while it was copied: copy it again when nobody changes it")]
    BecameShorter { name: String },

    #[error("writing to standard output: {0}")]
    Output(io::Error),

    #[error("{name} is a directory: {way_out}")]
    IsDirectory { name: String, way_out: &'static str },

    #[error("{} exists already (-f overwrites it)", path.display())]
    OutsideExists { path: PathBuf },

    #[error("{name} exists already in the store {} (-f overwrites it)", store.display())]
    StoreExists { name: String, store: PathBuf },

    #[error("{name} and {name} are the same file")]
    SameFile { name: String },

    #[error("{} is no directory that a file could be put into", path.display())]
    NoDirectory { path: PathBuf },

    #[error("copying {from} to {to}: {source}{consequence}")]
    CopyFailed { from: String, to: String, source: Box<CommandError>, consequence: &'static str },

    #[error("interrupted")]
    Interrupted { signal: i32 },

    #[error("interrupted; {source}")]
    InterruptedAmid { signal: i32, source: Box<CommandError> },

    #[error("neither {from} nor {to} is in the store: write svm: before the one that is")]
    NeitherInStore { from: String, to: String },

    #[error(
        "svm:{prefixed} is in the store, and so would {bare} be: write svm: before both, or before neither; \
         to copy a file out of the store or into it: svmio cp"
    )]
    OnePrefix { prefixed: String, bare: String },

    #[error("{from} cannot be moved into itself, {to}")]
    IntoItself { from: String, to: String },

    #[error(
        "{from} and {to} are on different nodes: copy the one over the other (svmio cp -f), and remove it (svmio rm)"
    )]
    TwoNodes { from: String, to: String },

    #[error("what goes into the directory {directory} has no name of its own: give it one")]
    NoName { directory: String },

    #[error("drawing {}: {problem}", path.display())]
    Plot { path: PathBuf, problem: String },

    #[error("the simulated fabric is in this process: --prefix0, --prefix1 and --master make no sense there")]
    NoProcesses,

    #[error("process {rank} ended with {status}; what it said is above")]
    ProcessFailed { rank: usize, status: ExitStatus },

    #[error("waiting for the processes: {0}")]
    Waiting(io::Error),

    #[error(
        "a job of {ranks} processes may take {needed} open files in each, and {limit} is the limit here: raise it by \
         ulimit -n {needed}, the hard one (ulimit -H -n) as root if need be, or start fewer"
    )]
    TooFewDescriptors { ranks: u32, limit: u64, needed: u64 },

    #[error("the benchmark's processes do not understand each other: {problem}")]
    Plan { problem: String },

    #[error(transparent)]
    Algorithm(#[from] svmio_collectives::AlgorithmError),

    #[error("{algorithm} has too many {what} between {ranks} ranks to be simulated; give fewer nodes")]
    TooMuchToSimulate { algorithm: String, what: &'static str, ranks: u32 },

    #[error("{algorithm} between {ranks} ranks: {source}; give fewer bytes, or fewer nodes")]
    Unsimulated { algorithm: String, ranks: u32, source: svmio_collectives::simulation::SimulationError },

    #[error(transparent)]
    Composition(#[from] svmio_collectives::CompositionError),

    #[error(transparent)]
    Collectives(#[from] svmio_collectives::executor::Error),

    #[error(transparent)]
    Components(#[from] svmio_collectives::components::Error),

    #[error(transparent)]
    Hardware(#[from] svmio_collectives::hardware::Error),

    #[error(transparent)]
    Emission(#[from] svmio_collectives::EmissionError),

    #[error("{problem}")]
    Survey { problem: String },

    #[error("{} holds no {what}: {problem}", path.display())]
    NotOfKind { path: PathBuf, what: &'static str, problem: String },

    #[error("{one} is for {ranks} ranks, {other} for {others}")]
    OtherRanks { one: String, ranks: u32, other: String, others: u32 },

    #[error("{ranks} ranks are more than the {limit} that can be started here; sim:MODEL simulates more")]
    TooManyRanks { ranks: u32, limit: u32 },

    #[error(
        "{ranks} ranks are more than the {limit} whose profile can be measured; --profile FILE names one, and svmio sim \
         barrier needs none"
    )]
    TooManyToProfile { ranks: u32, limit: u32 },

    #[error(
        "{ranks} ranks are more than the {limit} that can be simulated; take fewer nodes, or fewer ranks on each"
    )]
    TooManyToSimulate { ranks: u32, limit: u32 },

    #[error("for how many ranks? --ranks N or --profile FILE tells")]
    HowManyRanks,

    #[error("the profile is of no ranks, and so no barrier: svmio barrier profile makes one of --ranks N")]
    NoRanks,

    #[error("what is best on a machine shows its profile: --profile FILE, which svmio barrier profile makes")]
    NoProfile,

    #[error("{} is no barrier: some rank leaves before all have come", path.display())]
    NoBarrier { path: PathBuf },
}

impl From<LaunchError> for CommandError {
    fn from(error: LaunchError) -> CommandError {
        match error {
            LaunchError::Store(error) => CommandError::Svm(error),
            error => CommandError::Launch(error),
        }
    }
}

impl CommandError {
    /// Whether the reader of standard output went away: its own business.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, CommandError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
            || matches!(self, CommandError::CopyFailed { source, .. } if source.is_broken_pipe())
    }

    /// The process's exit code. After a signal there is none: the process [ends by that](svmio_transport::end_by).
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            CommandError::NeitherInStore { .. }
            | CommandError::OnePrefix { .. }
            | CommandError::UnknownLength { .. }
            | CommandError::NoName { .. }
            | CommandError::SeveralDirectories
            | CommandError::NoStoresNamed { .. }
            | CommandError::Launch(LaunchError::BadHost { .. } | LaunchError::BadCommand { .. })
            | CommandError::NoProcesses
            | CommandError::Algorithm(_)
            | CommandError::TooMuchToSimulate { .. }
            | CommandError::Unsimulated { .. }
            | CommandError::Components(svmio_collectives::components::Error::Setting { .. })
            | CommandError::Hardware(svmio_collectives::hardware::Error::Circuits { .. })
            | CommandError::Emission(svmio_collectives::EmissionError::Prefix { .. })
            | CommandError::OtherRanks { .. }
            | CommandError::TooManyRanks { .. }
            | CommandError::TooManyToProfile { .. }
            | CommandError::TooManyToSimulate { .. }
            | CommandError::HowManyRanks
            | CommandError::NoProfile
            | CommandError::Svm(svmio_svm::Error::BadName { .. }) => ExitCode::from(2),
            CommandError::CopyFailed { source, .. } => source.exit_code(),
            CommandError::Interrupted { signal } | CommandError::InterruptedAmid { signal, .. } => {
                svmio_transport::end_by(*signal)
            }
            _ => ExitCode::FAILURE,
        }
    }
}
