//! More keys than memory may hold, sorted by all nodes together: see `svmio_examples::sort`.

use clap::Parser;
use svmio_examples::{process, sort};

/// Sorts keys that are in two files on all nodes
#[derive(Parser)]
struct CommandLine {
    /// How many nodes, where no job has started this program
    #[arg(long, default_value_t = 4)]
    nodes: u32,
    #[command(flatten)]
    options: sort::Options,
}

fn main() -> anyhow::Result<()> {
    let CommandLine { nodes, options } = CommandLine::parse();
    process::run(nodes, |process| sort::run(&options, process))
}
