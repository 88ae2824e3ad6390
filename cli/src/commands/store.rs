//! `svmio store`: the directory that holds a node's part of all files, set up and looked at.
//!
//! ```text
//! init      makes it: the best that can be had at its place
//! info      what it lies on, which pages its files get, and what would be faster
//! unmount   takes an own file system away again
//! own_file_system   mounting one, in memory, with large pages
//! choice    where a user who cannot mount has the best pages
//! place     which directory is meant
//! ```

mod choice;
mod info;
mod init;
mod own_file_system;
mod place;
mod unmount;

use clap::{Args, Subcommand};

use self::info::InfoArguments;
use self::init::InitArguments;
use self::unmount::UnmountArguments;
use super::Outcome;
use super::error::CommandError;

/// The arguments of `svmio store`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct StoreArguments {
    #[command(subcommand)]
    what: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Set a store up as well as can be: as root, a file system of its own with large pages
    Init(InitArguments),
    /// Tell what the store lies on, which pages its files get, and what would be faster
    Info(InfoArguments),
    /// Take away the file system that `svmio store init` has mounted, with all that is in it
    Unmount(UnmountArguments),
}

/// Does what was asked for.
///
/// # Errors
/// Where the store is none, cannot be made, or its file system cannot be mounted or taken away.
pub(crate) fn store(arguments: &StoreArguments) -> Result<Outcome, CommandError> {
    match &arguments.what {
        StoreCommand::Init(arguments) => init::init(arguments),
        StoreCommand::Info(arguments) => info::info(arguments),
        StoreCommand::Unmount(arguments) => unmount::unmount(arguments),
    }
}
