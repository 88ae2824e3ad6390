//! The subcommands that look at a store and its files, and carry files in and out; and those of the fabric.
//!
//! ```text
//! what was typed     StorePath      store_path    `svm:/a/b`, `/a/b` and `a/b` are one name
//!                    StoreOption    store_option  --store, SVMIO_STORE, the default; --hosts
//!                    ByteCount      byte_count    `4K`, and sizes as people read them
//! what is done       ls stat map cat mv rm verify, and cp
//!                    mount                         files as a directory, for any program
//!                    store              store        setting a store up, and what it lies on
//!                    fabric bench config           the fabric: what it can do, how fast it is, its settings
//!                    barrier sim                   barriers: measured, predicted, tuned, written, simulated
//!                    start                         processes that share files with no MPI
//! stores elsewhere   RemoteStore    remote        --hosts: svmio serve-store there, through ssh
//! meanwhile          Interruption   interruption  a signal ends what is being made, not the process on the spot
//!                    supervision                   a job's processes: signals to all, the end of all
//!                    descriptors                   the limit of open files, which a large job meets
//!                    destination                   where a file is to be put that takes long to make
//! what is printed    Output         output        standard output, its end and its terminal
//!                    Table          table         columns for people
//!                    Record         record        what there is to tell of a file, for people and as JSON
//! what went wrong    CommandError   error
//! ```
//!
//! A command that is given several paths goes on after an error with one of them ([`Outcome::Troubled`]).

pub(crate) mod barrier;
pub(crate) mod bench;
mod byte_count;
pub(crate) mod cat;
pub(crate) mod config;
pub(crate) mod cp;
mod descriptors;
mod destination;
mod error;
pub(crate) mod fabric;
mod interruption;
pub(crate) mod ls;
pub(crate) mod map;
pub(crate) mod mount;
pub(crate) mod mv;
mod output;
mod record;
pub(crate) mod remote;
pub(crate) mod rm;
pub(crate) mod sim;
pub(crate) mod start;
pub(crate) mod stat;
pub(crate) mod store;
mod store_option;
mod store_path;
mod supervision;
mod table;
pub(crate) mod verify;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

pub(crate) use self::error::CommandError;
pub(crate) use self::output::Output;

/// How a command ended that could be carried out at least in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Fine,
    /// Something was not found, damaged, or could not be done; it has been said.
    Troubled,
    /// Another process did it, has said what has gone wrong, and ended with this exit code.
    EndedWith(u8),
}

/// What every command says of its exit codes.
macro_rules! after_help {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "\n\nPaths in the store: svm:/a/b, /a/b and a/b are the same.",
            "\n\nExit codes: 0 fine; 1 something was not found, is damaged, or failed; 2 wrong command line.",
            "\nA reader that goes away early (svmio ... | head) is no failure."
        )
    };
}
pub(crate) use after_help;

/// Says what is to be said at the end of a command, and with which code to exit.
pub(crate) fn finish(result: Result<Outcome, CommandError>) -> ExitCode {
    match result {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Troubled) => ExitCode::FAILURE,
        Ok(Outcome::EndedWith(code)) => ExitCode::from(code),
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            error.exit_code()
        }
    }
}

/// Says on standard error what has gone wrong. The terminal may be gone; then the exit code tells all that can be told.
fn complain(error: &impl Display) {
    let _ = writeln!(io::stderr(), "svmio: {error}");
}

/// Does `action` to each of `items`, also after an error with one of them, which it reports.
fn for_each<T>(
    items: impl IntoIterator<Item = T>,
    mut action: impl FnMut(T) -> Result<(), CommandError>,
) -> Result<Outcome, CommandError> {
    let mut outcome = Outcome::Fine;
    for item in items {
        match action(item) {
            Ok(()) => {}
            // Nobody sees the rest either.
            Err(error @ CommandError::Output(_)) => return Err(error),
            Err(error) => {
                complain(&error);
                outcome = Outcome::Troubled;
            }
        }
    }
    Ok(outcome)
}
