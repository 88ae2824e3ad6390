//! `svmio store unmount`: `svmio store init` undone.

use clap::Args;

use super::own_file_system;
use super::place::Place;
use crate::commands::Outcome;
use crate::commands::error::CommandError;
use crate::commands::output::Output;

const EXAMPLES: &str = "\
Examples:
  svmio store unmount
  svmio store unmount -f /dev/shm/svmio-1000   with all files that are in it

Only root may. Nothing happens while a program uses the store.

Exit codes: 0 fine; 1 it failed; 2 wrong command line.";

/// The arguments of `svmio store unmount`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct UnmountArguments {
    #[command(flatten)]
    place: Place,

    /// Also where there are files in it, which are lost then
    #[arg(short, long)]
    force: bool,
}

/// Takes the store's own file system away.
pub(super) fn unmount(arguments: &UnmountArguments) -> Result<Outcome, CommandError> {
    let path = arguments.place.path(rustix::process::geteuid().as_raw());
    own_file_system::unmount(&path, arguments.force)?;
    let mut output = Output::new()?;
    output.line(format!("unmounted {}", path.display()))?;
    output.finish()?;
    Ok(Outcome::Fine)
}
