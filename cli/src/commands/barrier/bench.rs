//! `svmio barrier bench`: barriers as they are run, beside what they are predicted to cost.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde::Serialize;
use svmio_collectives::profile::{Profile, SurveySettings};
use svmio_collectives::{Algorithm, CostModel, Partition, StepKind};

use super::counts::{Counts, MOST_RANKS};
use super::group::{self, Group};
use super::job::{self, BenchPlan, Benched, ProfilePlan};
use super::place::PlaceArguments;
use super::profile;
use super::row::Row;
use super::wanted::{Named, Wanted};
use crate::commands::Outcome;
use crate::commands::bench::chart::{Axis, Chart, Line, Scale, check_place};
use crate::commands::bench::showing::microseconds;
use crate::commands::error::CommandError;
use crate::commands::output::{Output, counted};
use crate::commands::table::Table;

/// The most processes that are started.
const MOST_PROCESSES: u32 = 1024;

/// The arguments of `svmio barrier bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// Which barriers; without any, one of each kind and the tuned one
    #[arg(value_name = "BARRIER")]
    barriers: Vec<Wanted>,

    /// How many ranks; several are run one after the other. 2..16 is each number, 2..64x2 each twice the one before
    #[arg(long, value_name = "N", value_delimiter = ',', required = true)]
    ranks: Vec<Counts>,

    /// A profile to predict by; without, one is measured first
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    profile: Option<PathBuf>,

    /// How many consecutive ranks are a node, for two-level algorithms and simulated fabrics; without, each is one of
    /// the fabric, and to two-level algorithms the profile's outermost clusters are nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_node: Option<u32>,

    #[command(flatten)]
    place: PlaceArguments,

    /// How often each measurement is made; the median is shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// How many barriers each measurement has
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,

    /// JSON instead of tables, times in seconds
    #[arg(long)]
    json: bool,

    /// Also a diagram: over the number of ranks, or, for one number, measured over predicted
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,
}

/// What was measured with one number of ranks.
#[derive(Debug, Serialize)]
struct Measured {
    ranks: u32,
    fabric: String,
    /// Whether each rank had a core, as predictions take it.
    has_core_each: bool,
    barriers: Vec<MeasuredRow>,
    /// Pairs of barriers whose times differ by more than they vary, and of these, those that were predicted to differ
    /// in this way.
    different_pairs: usize,
    pairs_in_order: usize,
}

/// One barrier.
#[derive(Debug, Serialize)]
struct MeasuredRow {
    #[serde(flatten)]
    predicted: Row,
    /// Whether its steps of kind fetch-add ran as the signals that they stand for: so they do where the fabric counts by
    /// messages.
    as_signals: bool,
    median_seconds: f64,
    /// Each measurement.
    seconds: Vec<f64>,
}

/// Measures, and shows what was measured.
///
/// # Errors
/// Where there is no such barrier, or a process fails.
pub(super) fn bench(arguments: &BenchArguments) -> Result<Outcome, CommandError> {
    let counts = Counts::all(&arguments.ranks);
    let most = counts.last().copied().unwrap_or(1);
    let limit = if arguments.place.is_simulated() { MOST_RANKS } else { MOST_PROCESSES };
    if most > limit {
        return Err(CommandError::TooManyRanks { ranks: most, limit });
    }
    if most > profile::MOST && arguments.profile.is_none() {
        return Err(CommandError::TooManyToProfile { ranks: most, limit: profile::MOST });
    }
    arguments.plot.as_deref().map_or(Ok(()), check_place)?;
    let mut all = Vec::new();
    for &ranks in &counts {
        all.push(arguments.measured(ranks)?);
    }
    let mut output = Output::new()?;
    if arguments.json {
        output.json(&all)?;
    } else {
        for (number, measured) in all.iter().enumerate() {
            if number > 0 {
                output.line("")?;
            }
            measured.print(&mut output)?;
        }
    }
    output.finish()?;
    if let Some(path) = &arguments.plot {
        chart(&all, &arguments.place.name()).draw(path)?;
    }
    Ok(Outcome::Fine)
}

impl BenchArguments {
    /// The profile that was named, or one that is measured: how processes wait depends on how many there are.
    fn profile(&self, ranks: u32) -> Result<Profile, CommandError> {
        if let Some(path) = &self.profile {
            return group::profile_of(path, ranks);
        }
        let plan = ProfilePlan { settings: SurveySettings::default(), alike_per_node: None };
        job::profiled(self.place.place(ranks), self.nodes(ranks), plan)
    }

    fn nodes(&self, ranks: u32) -> Partition {
        Partition::blocks(ranks, self.per_node.unwrap_or(1))
    }

    fn measured(&self, ranks: u32) -> Result<Measured, CommandError> {
        let group = Group::of(self.profile(ranks)?, self.per_node);
        let profile = group.profile()?;
        let mut barriers: Vec<Named> = Vec::new();
        for wanted in &self.wanted() {
            let barrier = group.barrier(wanted)?;
            if let (Wanted::File(path), false) = (wanted, barrier.schedule.is_barrier()) {
                return Err(CommandError::NoBarrier { path: path.clone() });
            }
            barriers.push(barrier);
        }
        let plan = BenchPlan {
            schedules: barriers.iter().map(|barrier| barrier.schedule.clone()).collect(),
            repeat: self.repeat,
            count: self.count,
        };
        let benched = job::benched(self.place.place(ranks), self.nodes(ranks), plan)?;
        let rows = barriers.iter().zip(benched).map(|(barrier, Benched { seconds, counts })| {
            let mut steps = barrier.schedule.steps().iter();
            let as_signals = !counts && steps.any(|step| step.kind() == StepKind::FetchAdd);
            MeasuredRow::new(Row::of(barrier, profile, CostModel::Writes), as_signals, seconds)
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|one, other| one.median_seconds.total_cmp(&other.median_seconds));
        let (different_pairs, pairs_in_order) = order(&rows);
        Ok(Measured {
            ranks,
            fabric: self.place.name(),
            has_core_each: self.place.has_cores_for(ranks),
            barriers: rows,
            different_pairs,
            pairs_in_order,
        })
    }

    fn wanted(&self) -> Vec<Wanted> {
        if !self.barriers.is_empty() {
            return self.barriers.clone();
        }
        let one_of_each = [
            Algorithm::Linear,
            Algorithm::Tree { arity: 2 },
            Algorithm::Tree { arity: 4 },
            Algorithm::Dissemination,
            Algorithm::Hsb { fan_in: 3, fan_out: 3 },
            Algorithm::Exchange { group: 4 },
            Algorithm::NaryDissemination { radix: 4 },
            Algorithm::X1Tree,
        ];
        one_of_each.into_iter().map(Wanted::Algorithm).chain([Wanted::Tuned]).collect()
    }
}

/// How many pairs differ by more than they vary, and how many of these were predicted in this order.
fn order(rows: &[MeasuredRow]) -> (usize, usize) {
    let (mut different, mut in_order) = (0, 0);
    for (number, one) in rows.iter().enumerate() {
        for other in &rows[number + 1..] {
            if one.most() < other.least() {
                different += 1;
                in_order += usize::from(one.predicted.predicted_seconds < other.predicted.predicted_seconds);
            }
        }
    }
    (different, in_order)
}

impl MeasuredRow {
    fn new(predicted: Row, as_signals: bool, seconds: Vec<f64>) -> Self {
        let mut sorted = seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let median_seconds = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
        Self { predicted, as_signals, median_seconds, seconds }
    }

    fn least(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn most(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }
}

impl Measured {
    fn print(&self, output: &mut Output) -> Result<(), CommandError> {
        output.line(format!("{} on {}, medians, µs", counted(u64::from(self.ranks), "rank"), self.fabric))?;
        let mut table = Table::of_numbers(["BARRIER", "STEPS", "PREDICTED", "MEASURED", "RATIO"]);
        for row in &self.barriers {
            let predicted = row.predicted.predicted_seconds;
            let ratio = row.median_seconds / predicted;
            let form = if row.as_signals { ", as signals" } else { "" };
            table.row([
                format!("{}{form}", row.predicted.algorithm),
                row.predicted.steps.to_string(),
                microseconds(predicted),
                microseconds(row.median_seconds),
                if ratio.is_finite() { format!("{ratio:.2}") } else { "-".to_owned() },
            ]);
        }
        table.print(output)?;
        let (right, all) = (self.pairs_in_order, self.different_pairs);
        output.line(format!(
            "of {} that differ, predicted in this order: {right}",
            counted(all as u64, "pair")
        ))?;
        if !self.has_core_each {
            output.line("more ranks than cores: predictions take it that each rank has a core")?;
        }
        Ok(())
    }
}

fn chart(all: &[Measured], fabric: &str) -> Chart {
    let across_ranks = all.len() > 1;
    let (across, lines) = if across_ranks { over_ranks(all) } else { over_predicted(all) };
    Chart {
        title: format!("barriers on {fabric}"),
        across: Axis::numbers(across, if across_ranks { Scale::Logarithmic(2) } else { Scale::Linear }),
        up: Axis::numbers("barrier, µs", Scale::Linear),
        lines,
    }
}

/// For each barrier its measured times, with marks, and its predicted ones.
fn over_ranks(all: &[Measured]) -> (&'static str, Vec<Line>) {
    let mut names: Vec<&str> = Vec::new();
    for row in all.iter().flat_map(|measured| &measured.barriers) {
        if !names.contains(&row.name()) {
            names.push(row.name());
        }
    }
    let line = |name: &str, has_marks: bool| {
        let point = |measured: &Measured| {
            let row = measured.barriers.iter().find(|row| row.name() == name)?;
            let seconds = if has_marks { row.median_seconds } else { row.predicted.predicted_seconds };
            Some((f64::from(measured.ranks), seconds * 1e6))
        };
        let name = if has_marks { name.to_owned() } else { format!("{name}, predicted") };
        Line { name, points: all.iter().filter_map(point).collect(), has_marks }
    };
    ("ranks", names.iter().flat_map(|name| [line(name, true), line(name, false)]).collect())
}

/// Measured over predicted times, and where both are the same.
fn over_predicted(all: &[Measured]) -> (&'static str, Vec<Line>) {
    let rows = all.iter().flat_map(|measured| &measured.barriers);
    let mut points: Vec<(f64, f64)> =
        rows.map(|row| (row.predicted.predicted_seconds * 1e6, row.median_seconds * 1e6)).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let same = points.iter().map(|point| (point.0, point.0)).collect();
    let measured = Line { name: "measured".into(), points, has_marks: true };
    ("predicted, µs", vec![measured, Line { name: "as predicted".into(), points: same, has_marks: false }])
}

impl MeasuredRow {
    /// The same for all numbers of ranks: what is tuned may be something else for each.
    fn name(&self) -> &str {
        self.predicted.algorithm.split(" (").next().unwrap_or(&self.predicted.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::{MeasuredRow, Row, order};

    fn row(predicted_seconds: f64, seconds: [f64; 3]) -> MeasuredRow {
        let algorithm = "linear".to_owned();
        let predicted = Row { algorithm, steps: 2, signals: 4, predicted_seconds, critical_path: Vec::new() };
        MeasuredRow::new(predicted, false, seconds.to_vec())
    }

    #[test]
    fn what_is_predicted_to_be_the_same_is_predicted_in_no_order() {
        let (fast, slow, varying) = ([1.0, 1.1, 1.2], [2.0, 2.1, 2.2], [1.1, 1.2, 2.1]);
        assert_eq!(order(&[row(1.0, fast), row(2.0, slow), row(0.5, varying)]), (1, 1));
        assert_eq!(order(&[row(2.0, fast), row(1.0, slow)]), (1, 0));
        assert_eq!(order(&[row(1.0, fast), row(1.0, slow)]), (1, 0));
    }
}
