//! Remote interrupts.

use serde::Serialize;

use super::super::chart::{Axis, Chart, Line, Scale};
use super::super::plan::{Point, Report};
use super::microseconds;
use crate::commands::error::CommandError;
use crate::commands::output::Output;
use crate::commands::table::Table;

/// The shares of the interrupts that the table tells of, in percent.
const SHARES: [u32; 9] = [0, 1, 10, 25, 50, 75, 90, 99, 100];

/// What was measured of interrupts. All times are those of half a round trip.
#[derive(Debug, Serialize)]
pub(crate) struct Interrupts {
    benchmark: &'static str,
    fabric: String,
    provider: String,
    count: usize,
    mean_seconds: f64,
    median_seconds: f64,
    /// Cumulative: which share of the interrupts took at most so long.
    histogram: Vec<Share>,
    #[serde(skip)]
    point: Point,
}

#[derive(Debug, Serialize)]
struct Share {
    percent: u32,
    seconds: f64,
}

impl Interrupts {
    pub(crate) fn of(report: Report) -> Interrupts {
        let point = report.points.into_iter().next();
        let point = point.unwrap_or(Point {
            variant: super::super::plan::Variant::Interrupt,
            size: 0,
            compute: 0.0,
            seconds: Vec::new(),
        });
        let count = point.seconds.len();
        let share = |percent: u32| Share { percent, seconds: point.quantile(f64::from(percent) / 100.0) };
        Interrupts {
            benchmark: "interrupt",
            fabric: report.fabric,
            provider: report.provider,
            count,
            mean_seconds: point.seconds.iter().sum::<f64>() / count as f64,
            median_seconds: point.median(),
            histogram: SHARES.map(share).into(),
            point,
        }
    }

    pub(crate) fn print(&self, output: &mut Output) -> Result<(), CommandError> {
        let mean = microseconds(self.mean_seconds);
        output.line(format!(
            "{} ({}), half a round trip of {} interrupts, mean {mean} µs",
            self.fabric, self.provider, self.count
        ))?;
        let mut table = Table::of_numbers(["SHARE", "µs AT MOST"]);
        for share in &self.histogram {
            table.row([format!("{} %", share.percent), microseconds(share.seconds)]);
        }
        table.print(output)
    }

    /// The cumulative histogram. The slowest hundredth is cut off: it would squeeze all others into a corner.
    pub(crate) fn chart(&self) -> Chart {
        let mut seconds = self.point.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        let (count, shown) = (seconds.len(), (seconds.len() * 99).div_ceil(100));
        let points = seconds.iter().take(shown).enumerate();
        let points =
            points.map(|(at, seconds)| (seconds * 1e6, (at + 1) as f64 / count as f64 * 100.0)).collect();
        Chart {
            title: format!("remote interrupts on {} ({}), cumulative", self.fabric, self.provider),
            across: Axis::numbers("half a round trip, µs", Scale::Linear),
            up: Axis::numbers("interrupts, %", Scale::Linear),
            lines: vec![Line { name: format!("{count} interrupts"), points, has_marks: false }],
        }
    }
}
