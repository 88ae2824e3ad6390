//! Why `svmio run` could not start a program.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::mpi_family::MpiFamily;

/// Why `svmio run` could not start a program; the message says what to do about it.
#[derive(Debug, Error)]
pub(crate) enum RunError {
    #[error(
        "no program on the command line{}; write `svmio run [mpiexec options] -- PROGRAM [ARGUMENTS]`",
        unknown_option.as_deref().map(|option| format!(
            " (mpiexec's option {option:?} is not known here, perhaps it took the program for its value)"
        )).unwrap_or_default()
    )]
    NoProgram { unknown_option: Option<OsString> },

    #[error("{option:?} is svmio's own: put it before mpiexec's options, straight after `svmio run`")]
    MisplacedOption { option: OsString },

    #[error("mpiexec's option {option:?} lacks its value")]
    MissingValue { option: OsString },

    #[error("{}: program not found{hint}", program.display())]
    ProgramNotFound { program: PathBuf, hint: String },

    #[error("{}: cannot be executed: {reason}", program.display())]
    NotExecutable { program: PathBuf, reason: String },

    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },

    #[error(
        "{}: statically linked, and nothing can be preloaded into it: link it dynamically with MPI, or, if it \
         only starts the program that uses MPI, say which one with --mpi mpich or --mpi openmpi",
        program.display()
    )]
    StaticallyLinked { program: PathBuf },

    #[error(
        "{}: the dynamic loader cannot load what it is linked with: {message}; if the library is installed, name \
         its directory in LD_LIBRARY_PATH",
        program.display()
    )]
    UnloadableProgram { program: PathBuf, message: String },

    #[error(
        "{}: linked with {library}, for which svmio has no library: it serves MPICH's ABI (libmpi.so.12, \
         libmpich.so.12) and Open MPI's (libmpi.so.40); compile the program with one of these",
        program.display()
    )]
    UnsupportedMpi { program: PathBuf, library: String },

    #[error(
        "{}: linked with two MPIs, {first} and {second}; rebuild it (or the library that brings the second) with \
         one, or choose with --mpi mpich or --mpi openmpi",
        program.display()
    )]
    TwoMpis { program: PathBuf, first: String, second: String },

    #[error(
        "{}: not linked with MPI, and no mpiexec in its virtual environment or in PATH tells which MPI it uses; say \
         so with --mpi mpich, --mpi openmpi or --mpiexec PATH, set MPI4PY_LIBMPI for mpi4py, or install an MPI",
        program.display()
    )]
    NoMpi { program: PathBuf },

    #[error(
        "no mpiexec of {family} found{}; install it, put it into PATH, or name it with --mpiexec PATH",
        library.as_deref().map(|library| format!(
            ", neither beside {} nor in PATH", library.display()
        )).unwrap_or_else(|| " in PATH".to_owned())
    )]
    NoMpiexec { family: MpiFamily, library: Option<PathBuf> },

    #[error("--mpiexec {}: {reason}", path.display())]
    MpiexecNotUsable { path: PathBuf, reason: String, not_found: bool },

    #[error(
        "--mpiexec {}: belongs to {launcher}, but {} is made for {program_family}: leave --mpiexec out, or force it \
         with --mpi",
        path.display(), program.display()
    )]
    MpiexecOfOtherMpi { path: PathBuf, launcher: MpiFamily, program: PathBuf, program_family: MpiFamily },

    #[error(
        "--mpiexec {}: its --version names neither MPICH nor Open MPI; say which one it starts with --mpi",
        path.display()
    )]
    MpiexecUnknown { path: PathBuf },

    #[error(
        "{}: missing; install svmio (`cargo xtask build` makes target/svmio/bin/svmio with its libraries), or set \
         SVMIO_LIBDIR to the directory that holds {}/",
        path.display(), family.directory()
    )]
    NoMpiLibrary { path: PathBuf, family: MpiFamily },

    #[error("{}: missing; install svmio again, or run with --no-yield", path.display())]
    NoYieldLibrary { path: PathBuf },

    #[error(
        "--collectives=component: the component is one of Open MPI's, and this program is for {family}; \
         --collectives=preload serves it"
    )]
    ComponentForOpenMpiOnly { family: MpiFamily },

    #[error(
        "--collectives=component: the component is made with the headers of Open MPI 4.1, whose structures other \
         series do not have, and {} is {found:?}; --collectives=preload serves it",
        launcher.display()
    )]
    ComponentOfOtherSeries { launcher: PathBuf, found: String },

    #[error(
        "{}: missing; install svmio again (`cargo xtask build` makes it), or use --collectives=preload",
        path.display()
    )]
    NoComponent { path: PathBuf },

    #[error("cannot find svmio's own installation: {source}; set SVMIO_LIBDIR to its lib directory")]
    NoInstallation { source: io::Error },

    #[error("{}: no such library (--tool takes its path, or a name that the dynamic loader finds)", path.display())]
    NoTool { path: PathBuf },

    #[error(
        "{}: a path with a space or a colon cannot be preloaded (LD_PRELOAD separates by both); install it \
         elsewhere; SVMIO_LIBDIR names where svmio's libraries are",
        path.display()
    )]
    PathNotPreloadable { path: PathBuf },

    #[error("{}: no absolute path: {source}", path.display())]
    NoAbsolutePath { path: PathBuf, source: io::Error },

    #[error("writing to standard output: {source}")]
    Output { source: io::Error },

    #[error("{}: cannot be started: {source}", mpiexec.display())]
    Exec { mpiexec: PathBuf, source: io::Error },
}

impl RunError {
    /// The process's exit code: as shells and `env` have it, 126 and 127 are for what could not be
    /// executed or found, 125 for a failure of the starter itself, 2 for a wrong command line.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            RunError::NoProgram { .. } | RunError::MisplacedOption { .. } | RunError::MissingValue { .. } => {
                2
            }
            RunError::ProgramNotFound { .. } => 127,
            RunError::MpiexecNotUsable { not_found: true, .. } => 127,
            RunError::NotExecutable { .. } | RunError::Exec { .. } => 126,
            RunError::MpiexecNotUsable { not_found: false, .. } => 126,
            RunError::NoMpiexec { .. } => 127,
            _ => 125,
        }
    }
}
