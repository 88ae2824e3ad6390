//! `svmio sim barrier`: how long barriers take on fabrics that nobody here has.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};
use svmio_collectives::simulation::figures::MESSAGE_SOFTWARE;
use svmio_collectives::simulation::{Signalling, Simulation};
use svmio_collectives::{Algorithm, AlgorithmError};
use svmio_transport::sim::Model;

use crate::commands::Outcome;
use crate::commands::barrier::Counts;
use crate::commands::bench::chart::check_place;
use crate::commands::bench::model;
use crate::commands::error::CommandError;

use super::times::{Row, Times};

/// The arguments of `svmio sim barrier`.
#[derive(Debug, Args)]
pub(crate) struct BarrierArguments {
    /// Which algorithms; `messages` is the barrier of a message-passing library
    #[arg(
        value_name = "ALGORITHM",
        default_values = ["linear", "tree:4", "dissemination", "hsb:8", "nx2:6", "nx2", "x1tree", "messages"]
    )]
    algorithms: Vec<Simulated>,

    /// The cost model: a built-in one's name, or a file (`svmio fabric info` lists them)
    #[arg(long, value_name = "MODEL", default_value = "sci-torus", value_parser = model)]
    model: String,

    /// Numbers of nodes: 2..16 is each of them, 2..1024x2 each twice the one before. A million signals take some
    /// seconds: among N ranks dissemination has N log2 N of them, nx2 N²
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2..16")]
    nodes: Vec<Counts>,

    /// How many ranks there are on each node
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    per_node: u32,

    /// JSON instead of a table, times in seconds
    #[arg(long)]
    json: bool,

    /// Also a diagram
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,
}

/// What is simulated.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Simulated {
    /// An algorithm by flags.
    Algorithm(Algorithm),
    /// Dissemination by messages.
    Messages,
}

/// Simulates, and shows.
///
/// # Errors
/// Where an algorithm has no schedule for so many ranks, there are too many, or a file cannot be written.
pub(super) fn barrier(arguments: &BarrierArguments) -> Result<Outcome, CommandError> {
    arguments.plot.as_deref().map_or(Ok(()), check_place)?;
    let (model, nodes) = (Model::find(&arguments.model)?, Counts::all(&arguments.nodes));
    // Before anything that takes long, and would have been for nothing.
    for &nodes in &nodes {
        let nodes = super::nodes(&model, nodes, arguments.per_node)?;
        arguments.algorithms.iter().try_for_each(|simulated| simulated.algorithm().check_on(&nodes))?;
    }
    let mut algorithms = Vec::new();
    for simulated in &arguments.algorithms {
        let mut seconds = Vec::new();
        for &nodes in &nodes {
            seconds.push(simulated.time(&model, nodes, arguments.per_node)?.as_secs_f64());
        }
        algorithms.push(Row { algorithm: simulated.name(), seconds });
    }
    let (model, ranks_per_node) = (arguments.model.clone(), arguments.per_node);
    let times = Times { model, ranks_per_node, bytes: None, nodes, algorithms };
    times.show(["barriers", "barrier"], arguments.json, arguments.plot.as_deref())?;
    Ok(Outcome::Fine)
}

impl std::str::FromStr for Simulated {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        if text == "messages" { Ok(Self::Messages) } else { text.parse().map(Self::Algorithm) }
    }
}

impl Simulated {
    fn name(&self) -> String {
        match self {
            Self::Algorithm(algorithm) => algorithm.to_string(),
            Self::Messages => "messages".to_owned(),
        }
    }

    fn algorithm(&self) -> &Algorithm {
        match self {
            Self::Algorithm(algorithm) => algorithm,
            Self::Messages => &Algorithm::Dissemination,
        }
    }

    fn time(&self, model: &Arc<Model>, nodes: u32, per_node: u32) -> Result<Duration, CommandError> {
        let nodes = super::nodes(model, nodes, per_node)?;
        let simulation = Simulation::new(Arc::clone(model), nodes);
        let simulation = match self {
            Self::Algorithm(_) => simulation,
            Self::Messages => simulation.signalling(Signalling::Messages { software: MESSAGE_SOFTWARE }),
        };
        let schedule = self.algorithm().schedule_on(simulation.nodes())?;
        Ok(simulation.run(&schedule).total)
    }
}
