//! `svmio barrier show`: the steps of a barrier, or what a profile says.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde::Serialize;
use svmio_collectives::profile::Matrix;
use svmio_collectives::{Cluster, Rank, SPARSENESS, Schedule, Step, StepKind};

use super::group::{Group, GroupArguments};
use super::panels::Panels;
use super::profile::Summary;
use super::wanted::{Named, Wanted};
use crate::commands::Outcome;
use crate::commands::error::CommandError;
use crate::commands::output::{Output, counted};
use crate::commands::table::Table;

/// Signals of a step that are printed at most.
const SHOWN: usize = 16;

/// The most ranks whose steps are proved a barrier: more take long.
const MOST_PROVED: u32 = 1 << 14;

/// The arguments of `svmio barrier show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// Which barrier; without any, the profile is shown
    #[arg(value_name = "BARRIER")]
    barrier: Option<Wanted>,

    #[command(flatten)]
    group: GroupArguments,

    /// Also a picture: of a barrier each step's matrix, of a profile both matrices, the darker the nearer
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,

    /// JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// A barrier as it is told.
#[derive(Debug, Serialize)]
struct Shown<'schedule> {
    algorithm: &'schedule str,
    ranks: u32,
    /// None where the proof would take long.
    is_barrier: Option<bool>,
    signals: usize,
    schedule: &'schedule Schedule,
}

/// A profile as it is told.
#[derive(Debug, Serialize)]
struct ShownProfile {
    #[serde(flatten)]
    summary: Summary,
    /// The tree of ranks: a number, or a list of what is near one another.
    clusters: serde_json::Value,
}

/// Shows it.
///
/// # Errors
/// Where there is no such barrier, or the picture cannot be written.
pub(super) fn show(arguments: &ShowArguments) -> Result<Outcome, CommandError> {
    let group = arguments.group.group()?;
    let mut output = Output::new()?;
    match &arguments.barrier {
        Some(wanted) => show_barrier(arguments, &group.barrier(wanted)?, &mut output)?,
        None => show_profile(arguments, &group, &mut output)?,
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

fn show_barrier(arguments: &ShowArguments, barrier: &Named, output: &mut Output) -> Result<(), CommandError> {
    let schedule = &barrier.schedule;
    let is_barrier = (schedule.ranks() <= MOST_PROVED).then(|| schedule.is_barrier());
    if let Some(path) = &arguments.plot {
        let mut panels = Panels::default();
        for (number, step) in schedule.steps().iter().enumerate() {
            let title = format!("step {number}: {}", counted(step.len() as u64, "signal"));
            let signals = step.signals().map(|signal| (signal.from.0, signal.to.0));
            panels.add_marks(title, schedule.ranks(), signals);
        }
        panels.draw(path)?;
    }
    if arguments.json {
        return output.json(&Shown {
            algorithm: &barrier.name,
            ranks: schedule.ranks(),
            is_barrier,
            signals: schedule.signals(),
            schedule,
        });
    }
    let proved = match is_barrier {
        Some(true) => "proved a barrier",
        Some(false) => "NO BARRIER: some rank leaves before all have come",
        None => "too many ranks to prove it here",
    };
    let (ranks, signals) = (u64::from(schedule.ranks()), schedule.signals() as u64);
    let outlines = format!("{}, {}", counted(ranks, "rank"), counted(signals, "signal"));
    output.line(format!("{}: {outlines}; {proved}", barrier.name))?;
    let mut table = Table::of_words(["STEP", "KIND", "SIGNALS", "WHO TELLS WHOM"]);
    for (number, step) in schedule.steps().iter().enumerate() {
        table.row([
            number.to_string(),
            kind(step.kind()).to_owned(),
            step.len().to_string(),
            signals_of(step),
        ]);
    }
    table.print(output)
}

fn show_profile(arguments: &ShowArguments, group: &Group, output: &mut Output) -> Result<(), CommandError> {
    let profile = group.profile()?;
    if let Some(path) = &arguments.plot {
        let mut panels = Panels::default();
        add(&mut panels, "O", profile.overheads());
        add(&mut panels, "L", profile.latencies());
        panels.draw(path)?;
    }
    let (summary, clusters) = (Summary::of(profile), Cluster::of(profile, SPARSENESS));
    if arguments.json {
        let clusters = clusters.as_ref().map_or(serde_json::Value::Null, tree);
        return output.json(&ShownProfile { summary, clusters });
    }
    summary.print(output)?;
    output.line("\nwho is near whom")?;
    clusters.iter().try_for_each(|cluster| print_cluster(cluster, 0, output))
}

/// A matrix of costs, by their logarithms. The diagonal is nobody's distance: as near as can be.
fn add(panels: &mut Panels, name: &str, costs: &Matrix) {
    let ranks = (0..costs.size()).map(Rank);
    let pairs = ranks.clone().flat_map(|from| ranks.clone().map(move |to| (from, to)));
    let values: Vec<f64> =
        pairs.filter(|(from, to)| from != to).map(|(from, to)| costs.at(from, to)).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min).max(0.01);
    let most = values.iter().copied().fold(least, f64::max);
    let shade = |from: u32, to: u32| {
        if from == to || most <= least {
            return 1.0;
        }
        // The farthest are not white, which is the paper.
        0.1 + 0.9 * (1.0 - (costs.at(Rank(from), Rank(to)).max(least) / least).ln() / (most / least).ln())
    };
    panels.add(format!("{name}: {least:.0} ns (dark) to {most:.0} ns"), costs.size(), shade);
}

fn kind(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Signals => "signals",
        StepKind::FetchAdd => "fetch-add",
        StepKind::Resume => "resume",
    }
}

fn signals_of(step: &Step) -> String {
    let signals = step.signals().take(SHOWN).map(|signal| format!("{}→{}", signal.from, signal.to));
    let more = if step.len() > SHOWN { " …" } else { "" };
    signals.collect::<Vec<_>>().join(" ") + more
}

fn tree(cluster: &Cluster) -> serde_json::Value {
    match cluster {
        Cluster::Rank(rank) => rank.0.into(),
        Cluster::Group(clusters) => clusters.iter().map(tree).collect(),
    }
}

/// A line for each group of ranks, indented by its level.
fn print_cluster(cluster: &Cluster, level: usize, output: &mut Output) -> Result<(), CommandError> {
    let Cluster::Group(clusters) = cluster else { return Ok(()) };
    let ranks = cluster.ranks();
    let listed = ranks.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let more = if ranks.len() > SHOWN { " …" } else { "" };
    output.line(format!("{}{}: {listed}{more}", "  ".repeat(level), counted(ranks.len() as u64, "rank")))?;
    clusters.iter().try_for_each(|cluster| print_cluster(cluster, level + 1, output))
}
