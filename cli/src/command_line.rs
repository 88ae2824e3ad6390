//! What can be typed after `svmio`.

use clap::{Parser, Subcommand};
use svmio_svm::environment::Concern;
use svmio_transport::job;

use crate::commands::barrier::BarrierArguments;
use crate::commands::bench::BenchArguments;
use crate::commands::cat::CatArguments;
use crate::commands::config::ConfigArguments;
use crate::commands::cp::CpArguments;
use crate::commands::fabric::FabricArguments;
use crate::commands::ls::LsArguments;
use crate::commands::map::MapArguments;
use crate::commands::mount::MountArguments;
use crate::commands::mv::MvArguments;
use crate::commands::remote::ServeStoreArguments;
use crate::commands::rm::RmArguments;
use crate::commands::sim::SimArguments;
use crate::commands::start::StartArguments;
use crate::commands::stat::StatArguments;
use crate::commands::store::StoreArguments;
use crate::commands::verify::VerifyArguments;
use crate::completions::CompletionsArguments;
use crate::manual::ManualArguments;
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
    #[command(long_about = crate::run::LONG_ABOUT)]
    Run(RunArguments),
    /// Start processes that share `svm:` files with no MPI
    Start(StartArguments),
    /// List what is in a store
    Ls(LsArguments),
    /// Tell all that is known of files: size, storage, segments, homes
    Stat(StatArguments),
    /// Draw where the parts of a file are
    Map(MapArguments),
    /// Copy a file into a store, out of it or within it
    #[command(long_about = crate::commands::cp::LONG_ABOUT)]
    Cp(CpArguments),
    /// Write files to standard output
    Cat(CatArguments),
    /// Give files other names
    Mv(MvArguments),
    /// Remove files
    Rm(RmArguments),
    /// Show the files of a store as a directory, to any program
    Mount(MountArguments),
    /// Look files over for lost storage, and reclaim what killed programs left
    Verify(VerifyArguments),
    /// Set a store up, tell what it lies on, take it away
    Store(StoreArguments),
    /// Tell what the fabrics of this machine can do
    Fabric(FabricArguments),
    /// Measure the fabric: messages, bandwidth, overlap, interrupts
    Bench(BenchArguments),
    /// Barriers: this machine's profile, what each algorithm costs on it, the best one, its source code
    Barrier(BarrierArguments),
    /// Fabrics that are only simulated, at sizes that nobody has
    Sim(SimArguments),
    /// Tell the fabric's settings, where they come from and what they amount to
    Config(ConfigArguments),
    /// Answer for this host's store what svmio on another host asks (see --hosts)
    #[command(hide = true)]
    ServeStore(ServeStoreArguments),
    /// Print a shell's completion script
    Completions(CompletionsArguments),
    /// Write pages for man into a directory
    Manual(ManualArguments),
}

impl Command {
    /// Whether another process of this program does it, and tells what there is to be told.
    pub(crate) fn leaves_it_to_another(&self) -> bool {
        matches!(self, Self::Mount(arguments) if arguments.starts_another())
    }

    /// Which mistyped variables it tells of. What it starts tells of its own, and who is asked of another host leaves
    /// them to who asks.
    pub(crate) fn concerns(&self) -> &'static [Concern] {
        match self {
            Self::Run(_) | Self::Start(_) => &[Concern::Tool],
            Self::ServeStore(_) | Self::Completions(_) | Self::Manual(_) => &[],
            _ if job::is_told_of() => &[],
            _ => &[Concern::Files, Concern::Collectives, Concern::Tool],
        }
    }
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
