//! `svmio barrier profile`: what signals cost between any two ranks.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde::Serialize;
use svmio_collectives::Partition;
use svmio_collectives::profile::{Profile, SurveySettings};

use super::job::{self, ProfilePlan};
use super::place::PlaceArguments;
use crate::commands::Outcome;
use crate::commands::destination;
use crate::commands::error::CommandError;
use crate::commands::output::{Output, counted};
use crate::commands::table::Table;

/// The most ranks whose profile is measured: the matrices of more would be gigabytes.
pub(super) const MOST: u32 = 8192;

/// The arguments of `svmio barrier profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    /// Where to write the profile, as JSON
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// How many ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    ranks: u32,

    #[command(flatten)]
    place: PlaceArguments,

    /// How many consecutive ranks are a node: on a simulated fabric they share one, elsewhere see --alike
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    per_node: u32,

    /// Measure nodes, and pairs of nodes, that look alike only once
    #[arg(long)]
    alike: bool,

    /// How often each measurement is made
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,

    /// Measure as much as the paper did: messages up to a mebibyte, 25 times each
    #[arg(long)]
    paper: bool,

    /// JSON instead of a table, times in nanoseconds
    #[arg(long)]
    json: bool,
}

/// A profile in a few numbers.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    ranks: u32,
    overhead_ns: Spread,
    latency_ns: Spread,
    start_ns: Spread,
}

/// Some of many numbers.
#[derive(Debug, Serialize)]
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

/// Measures, writes, and tells the outlines.
///
/// # Errors
/// Where it cannot be measured or written.
pub(super) fn profile(arguments: &ProfileArguments) -> Result<Outcome, CommandError> {
    destination::check(&arguments.file)?;
    let mut settings = if arguments.paper { SurveySettings::paper() } else { SurveySettings::default() };
    settings.repetitions = arguments.repeat.unwrap_or(settings.repetitions);
    let nodes = Partition::blocks(arguments.ranks, arguments.per_node);
    let plan = ProfilePlan { settings, alike_per_node: arguments.alike.then_some(arguments.per_node) };
    let profile = job::profiled(arguments.place.place(arguments.ranks), nodes, plan)?;
    profile.save(&arguments.file).map_err(|source| CommandError::Outside {
        action: "writing",
        path: arguments.file.clone(),
        source,
    })?;
    let mut output = Output::new()?;
    let summary = Summary::of(&profile);
    if arguments.json {
        output.json(&summary)?;
    } else {
        summary.print(&mut output)?;
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

impl Summary {
    pub(super) fn of(profile: &Profile) -> Self {
        let ranks = profile.ranks();
        let own = |place: usize| place.is_multiple_of(ranks as usize + 1);
        let pairs = |values: &[f64], is_wanted: &dyn Fn(usize) -> bool| {
            let values = values.iter().enumerate().filter(|(place, _)| is_wanted(*place));
            Spread::of(values.map(|(_, value)| *value).collect())
        };
        Self {
            ranks,
            overhead_ns: pairs(profile.overheads().values(), &|place| !own(place)),
            latency_ns: pairs(profile.latencies().values(), &|place| !own(place)),
            start_ns: pairs(profile.overheads().values(), &own),
        }
    }

    pub(super) fn print(&self, output: &mut Output) -> Result<(), CommandError> {
        output.line(format!("{}; between any two, nanoseconds", counted(u64::from(self.ranks), "rank")))?;
        let mut table = Table::of_numbers(["", "LEAST", "MEDIAN", "MOST"]);
        for (name, spread) in [
            ("O, a signal", &self.overhead_ns),
            ("L, one more", &self.latency_ns),
            ("beginning to send", &self.start_ns),
        ] {
            let cells = [spread.least, spread.median, spread.most].map(|cost| format!("{cost:.1}"));
            table.row([name.to_owned()].into_iter().chain(cells));
        }
        table.print(output)
    }
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        // One rank has no pairs.
        let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
        Self { least: at(0), median: at(values.len() / 2), most: at(values.len().saturating_sub(1)) }
    }
}
