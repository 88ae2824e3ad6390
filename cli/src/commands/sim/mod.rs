//! `svmio sim`: what is only simulated, in virtual time.
//!
//! ```text
//! barrier      algorithms over numbers of nodes
//! collective   the same of collectives, of some amount of data
//!   times      what both show
//! ```

mod barrier;
mod collective;
mod times;

use clap::{Args, Subcommand};
use svmio_collectives::Partition;
use svmio_transport::sim::Model;

use self::barrier::BarrierArguments;
use self::collective::CollectiveArguments;
use super::Outcome;
use super::barrier::MOST_RANKS;
use super::error::CommandError;

/// The arguments of `svmio sim`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct SimArguments {
    #[command(subcommand)]
    what: Simulated,
}

#[derive(Debug, Subcommand)]
enum Simulated {
    /// How long barriers take on a simulated fabric, by the number of nodes
    #[command(after_help = super::barrier::after_help!(
        "  svmio sim barrier
  svmio sim barrier nx2:2 nx2:6 nx2:16 nx2 --model sci-torus --nodes 2..24 --plot figure-6.svg
  svmio sim barrier tree:4 dissemination --model infiniband-hdr --nodes 2..100000x2 --json"
    ))]
    Barrier(BarrierArguments),

    /// How long collectives take on a simulated fabric, by the number of nodes
    #[command(after_help = super::barrier::after_help!(
        "  svmio sim collective
  svmio sim collective bcast:binomial bcast:pipelined:64 bcast:scatter-allgather --bytes 16M --nodes 4..64x2
  svmio sim collective allreduce:recursive-doubling --bytes 8 --nodes 2..100000x2 --plot allreduce.svg"
    ))]
    Collective(CollectiveArguments),
}

/// Does what was asked for.
///
/// # Errors
/// Where something of it cannot be done.
pub(crate) fn sim(arguments: &SimArguments) -> Result<Outcome, CommandError> {
    match &arguments.what {
        Simulated::Barrier(arguments) => barrier::barrier(arguments),
        Simulated::Collective(arguments) => collective::collective(arguments),
    }
}

/// So many nodes with so many ranks on each.
///
/// # Errors
/// [`CommandError::TooManyToSimulate`], or that the model has no network of so many nodes, before they take memory.
fn nodes(model: &Model, nodes: u32, per_node: u32) -> Result<Partition, CommandError> {
    let ranks = nodes.saturating_mul(per_node);
    if ranks > MOST_RANKS {
        return Err(CommandError::TooManyToSimulate { ranks, limit: MOST_RANKS });
    }
    model.check_nodes(nodes)?;
    Ok(Partition::blocks(ranks, per_node))
}
