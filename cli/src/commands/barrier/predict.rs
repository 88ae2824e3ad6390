//! `svmio barrier predict`: what barriers cost on the machine of a profile.

use clap::{Args, ValueEnum};
use serde::Serialize;
use svmio_collectives::{CostModel, algorithms};

use super::group::GroupArguments;
use super::row::Row;
use super::wanted::Wanted;
use crate::commands::Outcome;
use crate::commands::bench::showing::microseconds;
use crate::commands::error::CommandError;
use crate::commands::output::{Output, counted};
use crate::commands::table::Table;

/// The arguments of `svmio barrier predict`.
#[derive(Debug, Args)]
pub(crate) struct PredictArguments {
    /// Which barriers; without any, all algorithms that differ for so many ranks
    #[arg(value_name = "BARRIER")]
    barriers: Vec<Wanted>,

    #[command(flatten)]
    group: GroupArguments,

    /// How signals go
    #[arg(long, value_enum, default_value_t = Costs::Writes)]
    costs: Costs,

    /// JSON instead of a table, times in seconds
    #[arg(long)]
    json: bool,
}

/// How signals go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Costs {
    /// As remote writes, several of which are under way at a time
    Writes,
    /// As synchronous messages, by the paper's equations
    Messages,
}

/// All that is told.
#[derive(Debug, Serialize)]
struct Predicted {
    ranks: u32,
    barriers: Vec<Row>,
}

/// Predicts, and tells: the cheapest first.
///
/// # Errors
/// Where there is no profile, or no such barrier.
pub(super) fn predict(arguments: &PredictArguments) -> Result<Outcome, CommandError> {
    let group = arguments.group.group()?;
    let profile = group.profile()?;
    let costs = match arguments.costs {
        Costs::Writes => CostModel::Writes,
        Costs::Messages => CostModel::Messages,
    };
    let all: Vec<Wanted> = match arguments.barriers.is_empty() {
        true => algorithms(profile.ranks()).into_iter().map(Wanted::Algorithm).collect(),
        false => arguments.barriers.clone(),
    };
    let mut barriers = Vec::new();
    for wanted in &all {
        barriers.push(Row::of(&group.barrier(wanted)?, profile, costs));
    }
    barriers.sort_by(|one, other| one.predicted_seconds.total_cmp(&other.predicted_seconds));
    let mut output = Output::new()?;
    if arguments.json {
        output.json(&Predicted { ranks: profile.ranks(), barriers })?;
    } else {
        output.line(format!("{}, predicted", counted(u64::from(profile.ranks()), "rank")))?;
        table(&barriers).print(&mut output)?;
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

/// Barriers with what they are predicted to cost.
pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::of_numbers(["BARRIER", "STEPS", "SIGNALS", "µs", "CRITICAL PATH"]);
    for row in rows {
        let (steps, signals) = (row.steps.to_string(), row.signals.to_string());
        table.row([row.algorithm.clone(), steps, signals, microseconds(row.predicted_seconds), row.path()]);
    }
    table
}
