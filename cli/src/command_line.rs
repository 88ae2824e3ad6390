//! What can be typed after `svmio`.

use clap::{Parser, Subcommand};

use crate::completions::CompletionsArguments;
use crate::run::RunArguments;

/// The memory and local disks of a job's nodes as one fast shared file, for unmodified MPI programs.
#[derive(Debug, Parser)]
#[command(name = "svmio", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start an MPI program whose `svm:` files are svmio's
    Run(RunArguments),
    /// Print a shell's completion script
    Completions(CompletionsArguments),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_declared_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
