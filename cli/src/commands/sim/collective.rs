//! `svmio sim collective`: how long collectives take on fabrics that nobody here has.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use svmio_collectives::collective::CollectiveAlgorithm;
use svmio_collectives::simulation::Simulation;
use svmio_transport::sim::Model;

use crate::commands::Outcome;
use crate::commands::barrier::Counts;
use crate::commands::bench::chart::check_place;
use crate::commands::bench::model;
use crate::commands::byte_count::ByteCount;
use crate::commands::error::CommandError;

use super::times::{Row, Times};

/// More messages than that, of which each takes some hundred bytes, are not simulated.
const MOST_MESSAGES: u64 = 1 << 25;

/// More ranges of blocks in them than that, of 16 bytes each, neither.
const MOST_RANGES: u64 = 1 << 27;

/// Nobody has more: 1024T.
const MOST_BYTES: u64 = 1 << 50;

/// The arguments of `svmio sim collective`.
#[derive(Debug, Args)]
pub(crate) struct CollectiveArguments {
    /// Which algorithms, as in allreduce:ring, gather:linear or scan; bcast:pipelined:64 is in 64 segments
    #[arg(
        value_name = "ALGORITHM",
        default_values = ["allreduce:recursive-doubling", "allreduce:rabenseifner", "allreduce:ring"]
    )]
    algorithms: Vec<CollectiveAlgorithm>,

    /// The cost model: a built-in one's name, or a file (`svmio fabric info` lists them)
    #[arg(long, value_name = "MODEL", default_value = "infiniband-hdr", value_parser = model)]
    model: String,

    /// Numbers of nodes: 2..16 is each of them, 2..1024x2 each twice the one before
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2..64x2")]
    nodes: Vec<Counts>,

    /// How many ranks there are on each node
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    per_node: u32,

    /// How long vectors are that are spread or combined; of all else, how much a rank has for each other one
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = amount)]
    bytes: ByteCount,

    /// JSON instead of a table, times in seconds
    #[arg(long)]
    json: bool,

    /// Also a diagram
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,
}

/// Simulates, and shows.
///
/// # Errors
/// Where an algorithm has too many messages between so many ranks, or a file cannot be written.
pub(super) fn collective(arguments: &CollectiveArguments) -> Result<Outcome, CommandError> {
    arguments.plot.as_deref().map_or(Ok(()), check_place)?;
    let (model, nodes) = (Model::find(&arguments.model)?, Counts::all(&arguments.nodes));
    let (ranks_per_node, bytes) = (arguments.per_node, arguments.bytes.0);
    // Before anything that takes long, and would have been for nothing.
    for &nodes in &nodes {
        let ranks = super::nodes(&model, nodes, ranks_per_node)?.ranks();
        arguments.algorithms.iter().try_for_each(|algorithm| check_size(algorithm, ranks))?;
    }
    let mut algorithms = Vec::new();
    for algorithm in &arguments.algorithms {
        let mut seconds = Vec::new();
        for &nodes in &nodes {
            let nodes = super::nodes(&model, nodes, ranks_per_node)?;
            let ranks = nodes.ranks();
            let simulation = Simulation::new(Arc::clone(&model), nodes);
            let block_bytes = algorithm.block_bytes(ranks, bytes);
            let timing = simulation.run_collective(&algorithm.schedule(ranks), block_bytes);
            let timing = timing.map_err(|source| CommandError::Unsimulated {
                algorithm: algorithm.to_string(),
                ranks,
                source,
            })?;
            seconds.push(timing.total.as_secs_f64());
        }
        algorithms.push(Row { algorithm: algorithm.to_string(), seconds });
    }
    let model = arguments.model.clone();
    let times = Times { model, ranks_per_node, bytes: Some(bytes), nodes, algorithms };
    times.show(["collectives", "collective"], arguments.json, arguments.plot.as_deref())?;
    Ok(Outcome::Fine)
}

fn amount(text: &str) -> Result<ByteCount, String> {
    match text.parse::<ByteCount>() {
        Ok(ByteCount(bytes)) if bytes > MOST_BYTES => Err("there can be at most 1024T".into()),
        bytes => bytes.map_err(|error| error.to_string()),
    }
}

/// That what an algorithm does between so many ranks has room in memory.
///
/// # Errors
/// [`CommandError::TooMuchToSimulate`].
fn check_size(algorithm: &CollectiveAlgorithm, ranks: u32) -> Result<(), CommandError> {
    let refused = |what| CommandError::TooMuchToSimulate { algorithm: algorithm.to_string(), what, ranks };
    if algorithm.messages_about(ranks) > MOST_MESSAGES {
        return Err(refused("messages"));
    }
    if algorithm.ranges_about(ranks) > MOST_RANGES {
        return Err(refused("ranges of blocks in its messages"));
    }
    Ok(())
}
