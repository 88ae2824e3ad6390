//! `svmio barrier`: barriers as data, from the machine's profile to their source code.
//!
//! ```text
//! what was typed      Wanted          wanted      a barrier: an algorithm, `tuned`, `composed`, or a file
//!                     GroupArguments  group       how many ranks, on which machine
//!                     PlaceArguments  place       where it is measured
//!                     Counts          counts      numbers of ranks
//! what is done        profile predict tune show emit bench components controller
//!                       └─ job        processes of this program that measure, each what the others do
//! what is shown       Row             row         what there is to tell of a barrier
//!                     Panels          panels      matrices as shades of grey, as SVG
//! ```

mod bench;
mod components;
mod controller;
mod counts;
mod emit;
mod group;
mod job;
mod panels;
mod place;
mod predict;
mod profile;
mod row;
mod show;
mod tune;
mod wanted;

use clap::{Args, Subcommand};

use self::bench::BenchArguments;
use self::components::ComponentsArguments;
use self::controller::ControllerArguments;
pub(in crate::commands) use self::counts::{Counts, MOST_RANKS};
use self::emit::EmitArguments;
use self::job::ProcessArguments;
use self::predict::PredictArguments;
use self::profile::ProfileArguments;
use self::show::ShowArguments;
use self::tune::TuneArguments;
use super::Outcome;
use super::error::CommandError;

/// What every help text of `svmio barrier` ends with.
macro_rules! after_help {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "\n\nAlgorithms: linear, tree:K, dissemination, hsb:IN,OUT, nx:N, nx2:N, x1tree, and",
            "\ntwo-level:[RANKS:]ALGORITHM with check-in and check-out in nodes. K, IN, OUT and N can be left out.",
            "\nWith a profile also `composed`, made for it, and `tuned`, the best of all. A name that ends in .json is a",
            "\nfile that `svmio barrier tune --output` has made.",
            "\n\nExit codes: 0 fine; 1 something failed; 2 wrong command line."
        )
    };
}
pub(in crate::commands) use after_help;

/// The arguments of `svmio barrier`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct BarrierArguments {
    #[command(subcommand)]
    what: BarrierCommand,
}

#[derive(Debug, Subcommand)]
enum BarrierCommand {
    /// Measure what signals cost between any two processes
    #[command(after_help = after_help!(
        "  svmio barrier profile machine.json --ranks 8
  svmio barrier profile cluster.json --ranks 64 --fabric sim:infiniband-hdr --per-node 8
  svmio barrier profile hosts.json --ranks 8 --fabric ofi --prefix 'ip netns exec a' \\
      --prefix 'ip netns exec b' --master 10.0.0.1:7777"
    ))]
    Profile(ProfileArguments),

    /// Tell what barriers cost on the machine of a profile, without the machine
    #[command(after_help = after_help!(
        "  svmio barrier predict --profile machine.json
  svmio barrier predict tree:4 nx2 tuned --profile machine.json --json"
    ))]
    Predict(PredictArguments),

    /// Find the best barrier for the machine of a profile
    #[command(after_help = after_help!(
        "  svmio barrier tune --profile machine.json
  svmio barrier tune --profile machine.json --output best.json"
    ))]
    Tune(TuneArguments),

    /// Show the steps of a barrier, or a profile
    #[command(after_help = after_help!(
        "  svmio barrier show tree:4 --ranks 22
  svmio barrier show composed --profile machine.json --plot steps.svg
  svmio barrier show --profile machine.json --plot matrices.svg"
    ))]
    Show(ShowArguments),

    /// Write a barrier as source code
    #[command(after_help = after_help!(
        "  svmio barrier emit tree:4 --ranks 16 --lang c --output barrier.c
  svmio barrier emit tuned --profile machine.json --lang rust > barrier.rs"
    ))]
    Emit(EmitArguments),

    /// Run barriers between processes: measured beside predicted
    #[command(after_help = after_help!(
        "  svmio barrier bench --ranks 4
  svmio barrier bench linear nx2 tuned --ranks 2,4,8 --plot barriers.svg
  svmio barrier bench --ranks 16 --fabric sim:sci-torus"
    ))]
    Bench(BenchArguments),

    /// List the components that carry out collectives, and why some cannot here
    #[command(after_help = after_help!(
        "  svmio barrier components
  svmio barrier components --set hardware.device=ppdev:/dev/parport0"
    ))]
    Components(ComponentsArguments),

    /// Be the emulated controller of hardware barriers, until a signal ends it
    #[command(after_help = after_help!(
        "  svmio barrier controller /dev/shm/lines --circuits 4"
    ))]
    Controller(ControllerArguments),

    /// One process of a job: what the others start
    #[command(hide = true)]
    Process(ProcessArguments),
}

/// Does what was asked for.
///
/// # Errors
/// Where something of it cannot be done.
pub(crate) fn barrier(arguments: &BarrierArguments) -> Result<Outcome, CommandError> {
    match &arguments.what {
        BarrierCommand::Profile(arguments) => profile::profile(arguments),
        BarrierCommand::Predict(arguments) => predict::predict(arguments),
        BarrierCommand::Tune(arguments) => tune::tune(arguments),
        BarrierCommand::Show(arguments) => show::show(arguments),
        BarrierCommand::Emit(arguments) => emit::emit(arguments),
        BarrierCommand::Bench(arguments) => bench::bench(arguments),
        BarrierCommand::Components(arguments) => components::components(arguments),
        BarrierCommand::Controller(arguments) => controller::controller(arguments),
        BarrierCommand::Process(arguments) => job::process(arguments),
    }
}
