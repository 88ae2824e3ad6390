//! Heat in a plate, computed by all nodes together: see `svmio_examples::stencil`.

use clap::Parser;
use svmio_examples::{process, stencil};

/// Computes how heat spreads in a plate, each node a band of it
#[derive(Parser)]
struct CommandLine {
    /// How many nodes, where no job has started this program
    #[arg(long, default_value_t = 4)]
    nodes: u32,
    #[command(flatten)]
    options: stencil::Options,
}

fn main() -> anyhow::Result<()> {
    let CommandLine { nodes, options } = CommandLine::parse();
    process::run(nodes, |process| stencil::run(&options, process))
}
