//! `svmio barrier tune`: the best barrier for the machine of a profile.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueHint};
use serde::Serialize;
use svmio_collectives::{Candidate, Choice, compose, tune_on};

use super::group::GroupArguments;
use super::predict;
use super::row::Row;
use super::wanted::{Named, Wanted};
use crate::commands::Outcome;
use crate::commands::bench::showing::microseconds;
use crate::commands::destination;
use crate::commands::error::CommandError;
use crate::commands::output::{Output, counted};
use crate::commands::table::Table;

/// Ranks of a group that are printed at most.
const SHOWN: usize = 12;

/// The arguments of `svmio barrier tune`.
#[derive(Debug, Args)]
pub(crate) struct TuneArguments {
    #[command(flatten)]
    group: GroupArguments,

    /// How many of the candidates to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,

    /// Also write the best one to a file
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    #[arg(value_parser = PathBufValueParser::new().try_map(readable))]
    output: Option<PathBuf>,

    /// JSON instead of tables, times in seconds
    #[arg(long)]
    json: bool,
}

/// All that is told.
#[derive(Debug, Serialize)]
struct Tuned {
    ranks: u32,
    candidates: Vec<Row>,
    /// What the composed one is made of, the outermost group first.
    composed: Vec<Part>,
}

/// What was chosen for a group.
#[derive(Debug, Serialize)]
struct Part {
    ranks: Vec<u32>,
    algorithm: String,
    predicted_seconds: f64,
}

/// Tunes, and tells.
///
/// # Errors
/// Where there is no profile, or what is best cannot be written.
pub(super) fn tune(arguments: &TuneArguments) -> Result<Outcome, CommandError> {
    arguments.output.as_deref().map_or(Ok(()), destination::check)?;
    let group = arguments.group.group()?;
    let profile = group.profile()?;
    let mut candidates = tune_on(profile, group.nodes()?)?;
    if let Some(path) = &arguments.output {
        let best = candidates.first().ok_or(CommandError::NoRanks)?;
        best.schedule.save(path).map_err(|source| CommandError::Outside {
            action: "writing",
            path: path.clone(),
            source,
        })?;
    }
    candidates.truncate(arguments.top as usize);
    let composed = compose(profile)?.map(|composed| composed.choices).unwrap_or_default();
    let tuned = Tuned {
        ranks: profile.ranks(),
        candidates: candidates.iter().map(row).collect(),
        composed: composed.iter().map(Part::of).collect(),
    };
    let mut output = Output::new()?;
    if arguments.json {
        output.json(&tuned)?;
    } else {
        tuned.print(&mut output)?;
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

fn row(candidate: &Candidate) -> Row {
    let name = candidate.algorithm.as_ref().map_or("composed".to_owned(), ToString::to_string);
    let barrier = Named { name, schedule: candidate.schedule.clone() };
    Row::predicted(&barrier, &candidate.prediction)
}

/// A file that other commands tell from an algorithm; or what is none, as a pipe.
fn readable(path: PathBuf) -> Result<PathBuf, &'static str> {
    let is_other = || path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    if path.as_os_str().as_encoded_bytes().ends_with(Wanted::ENDING.as_bytes()) || is_other() {
        return Ok(path);
    }
    Err("other commands take it for a barrier's file only where its name ends in .json")
}

impl Tuned {
    fn print(&self, output: &mut Output) -> Result<(), CommandError> {
        output.line(format!("{}, the best first, predicted", counted(u64::from(self.ranks), "rank")))?;
        predict::table(&self.candidates).print(output)?;
        output.line("\ncomposed of, from the outermost group on")?;
        let mut table = Table::of_words(["ALGORITHM", "µs", "RANKS"]);
        for part in &self.composed {
            table.row([part.algorithm.clone(), microseconds(part.predicted_seconds), part.shown_ranks()]);
        }
        table.print(output)
    }
}

impl Part {
    fn of(choice: &Choice) -> Self {
        Self {
            ranks: choice.ranks.iter().map(|rank| rank.0).collect(),
            algorithm: choice.algorithm.to_string(),
            predicted_seconds: choice.predicted * 1e-9,
        }
    }

    fn shown_ranks(&self) -> String {
        let ranks = self.ranks.iter().map(u32::to_string);
        let more = if self.ranks.len() > SHOWN { " …" } else { "" };
        ranks.take(SHOWN).collect::<Vec<_>>().join(" ") + more
    }
}
