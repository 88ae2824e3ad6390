//! Messages to and fro, and streams.

use serde::Serialize;

use super::super::chart::{Axis, Chart, Line, Scale};
use super::super::plan::{Point, Report, Variant, What};
use super::{megabytes_per_second, microseconds, size};
use crate::commands::error::CommandError;
use crate::commands::output::Output;
use crate::commands::table::Table;

/// What was measured of messages.
#[derive(Debug, Serialize)]
pub(crate) struct Messages {
    benchmark: &'static str,
    fabric: String,
    provider: String,
    points: Vec<Measured>,
}

/// One size and mode.
#[derive(Debug, Serialize)]
struct Measured {
    mode: &'static str,
    /// Bytes.
    size: u64,
    /// Of half a round trip, or of one message in a stream.
    median_seconds: f64,
    mb_per_second: f64,
    /// Each measurement.
    seconds: Vec<f64>,
}

const PINGPONG: &str = "pingpong";
const BANDWIDTH: &str = "bandwidth";

impl Messages {
    pub(crate) fn of(report: &Report, what: &What) -> Messages {
        let points = report.points.iter().map(Measured::of).collect();
        let benchmark = if *what == What::Bandwidth { BANDWIDTH } else { PINGPONG };
        Messages { benchmark, fabric: report.fabric.clone(), provider: report.provider.clone(), points }
    }

    /// One row for each size; for each mode the time and the bandwidth.
    pub(crate) fn print(&self, output: &mut Output) -> Result<(), CommandError> {
        let modes = self.modes();
        let time = if self.benchmark == PINGPONG { "half a round trip" } else { "each message" };
        output.line(format!("{} ({}), {time}, medians", self.fabric, self.provider))?;
        let columns = modes.iter().flat_map(|mode| match modes.len() {
            1 => ["µs".to_owned(), "MB/s".to_owned()],
            _ => [format!("{mode} µs"), "MB/s".to_owned()],
        });
        let mut table = Table::of_numbers(["SIZE".to_owned()].into_iter().chain(columns));
        for bytes in self.sizes() {
            let cells = modes.iter().flat_map(|mode| match self.at(mode, bytes) {
                Some(point) => [microseconds(point.median_seconds), format!("{:.1}", point.mb_per_second)],
                None => ["-".to_owned(), "-".to_owned()],
            });
            table.row([size(bytes)].into_iter().chain(cells));
        }
        table.print(output)
    }

    /// Times of messages to and fro, or bandwidths of streams, over the size.
    pub(crate) fn chart(&self) -> Chart {
        let is_pingpong = self.benchmark == PINGPONG;
        let value = |point: &Measured| {
            if is_pingpong { point.median_seconds * 1e6 } else { point.mb_per_second }
        };
        let line = |mode: &&'static str| {
            let points = self.points.iter().filter(|point| point.mode == *mode);
            let points = points.map(|point| (point.size as f64, value(point))).collect();
            Line { name: (*mode).to_owned(), points, has_marks: true }
        };
        Chart {
            title: format!("{} on {} ({})", self.benchmark, self.fabric, self.provider),
            across: Axis::sizes(),
            up: if is_pingpong {
                Axis::numbers("half a round trip, µs", Scale::Logarithmic(10))
            } else {
                Axis::numbers("MB/s", Scale::Linear)
            },
            lines: self.modes().iter().map(line).collect(),
        }
    }

    fn at(&self, mode: &str, size: u64) -> Option<&Measured> {
        self.points.iter().find(|point| point.mode == mode && point.size == size)
    }

    fn modes(&self) -> Vec<&'static str> {
        let mut modes: Vec<&'static str> = Vec::new();
        for point in &self.points {
            if !modes.contains(&point.mode) {
                modes.push(point.mode);
            }
        }
        modes
    }

    fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.points.iter().map(|point| point.size).collect();
        sizes.dedup();
        sizes
    }
}

impl Measured {
    fn of(point: &Point) -> Measured {
        let median = point.median();
        Measured {
            mode: match point.variant {
                Variant::Configured(protocol)
                | Variant::Synchronous(protocol)
                | Variant::Asynchronous(protocol)
                | Variant::AtRest(protocol) => protocol.name(),
                Variant::Computation => "computation",
                Variant::Bare | Variant::BareAtRest => "bare",
                Variant::Interrupt => "interrupt",
            },
            size: point.size,
            median_seconds: median,
            mb_per_second: megabytes_per_second(point.size, median),
            seconds: point.seconds.clone(),
        }
    }
}
