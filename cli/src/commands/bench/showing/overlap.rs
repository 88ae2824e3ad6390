//! Computing while sending.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::chart::{Axis, Chart, Line, Scale};
use super::super::hiding::{Hiding, Step, Summary};
use super::super::plan::{Plan, Protocol, Report, Variant};
use super::{microseconds, size};
use crate::commands::error::CommandError;
use crate::commands::output::Output;
use crate::commands::table::Table;

/// What overlapping brought, for each asynchronous mode and size.
#[derive(Debug, Serialize)]
pub(crate) struct Overlap {
    benchmark: &'static str,
    fabric: String,
    provider: String,
    modes: Vec<OfMode>,
}

#[derive(Debug, Serialize)]
struct OfMode {
    mode: &'static str,
    sizes: Vec<Hiding>,
}

impl Overlap {
    /// By the `summary` of each measurement.
    pub(crate) fn of(report: Report, plan: &Plan, summary: Summary) -> Overlap {
        let of_mode = |protocol: &Protocol| {
            let variant = Variant::Asynchronous(*protocol);
            let of_size = |&size| Hiding::of(&report.points, size, variant, summary);
            let sizes = plan.sizes.iter().filter_map(of_size);
            OfMode { mode: protocol.name(), sizes: sizes.collect() }
        };
        let modes = plan.protocols.iter().map(of_mode).collect();
        Overlap { benchmark: "overlap", fabric: report.fabric, provider: report.provider, modes }
    }

    /// For each mode one row for each size and computation, then one for each size.
    pub(crate) fn print(&self, output: &mut Output) -> Result<(), CommandError> {
        for of_mode in &self.modes {
            let mode = of_mode.mode;
            output
                .line(format!("{} ({}), asynchronous sending in mode {mode}", self.fabric, self.provider))?;
            let mut table = Table::of_numbers([
                "SIZE",
                "COMPUTING ms",
                "SYNCHRONOUS ms",
                "ASYNCHRONOUS ms",
                "AT REST µs",
                "NOT HIDDEN µs",
                "HIDDEN",
                "BARE: AT REST µs",
                "NOT HIDDEN µs",
            ]);
            for of_size in &of_mode.sizes {
                for step in &of_size.steps {
                    table.row([
                        size(of_size.size),
                        format!("{:.1}", step.compute * 1e3),
                        format!("{:.3}", step.synchronous * 1e3),
                        format!("{:.3}", step.asynchronous * 1e3),
                        microseconds(step.transfer),
                        microseconds(step.not_hidden),
                        percent(step.hidden),
                        step.bare.map_or("-".into(), |bare| microseconds(bare.transfer)),
                        step.bare.map_or("-".into(), |bare| microseconds(bare.not_hidden)),
                    ]);
                }
            }
            table.print(output)?;
            output.line("")?;
            let mut table = Table::of_numbers([
                "SIZE",
                "SYNCHRONOUS µs",
                "ASYNCHRONOUS µs",
                "BREAK-EVEN µs, MEASURED",
                "CALCULATED",
                "HIDDEN BY AS LONG",
                "BY TWICE AS LONG",
                "BARE: BY AS LONG",
                "BY TWICE AS LONG",
            ]);
            let told = |share: Option<f64>| share.map_or("not measured".into(), percent);
            for of_size in &of_mode.sizes {
                table.row([
                    size(of_size.size),
                    microseconds(of_size.synchronous),
                    microseconds(of_size.asynchronous),
                    of_size.break_even_measured.map_or("never".into(), microseconds),
                    microseconds(of_size.break_even_calculated),
                    told(of_size.hidden),
                    told(of_size.hidden_by_double),
                    told(of_size.bare_hidden),
                    told(of_size.bare_hidden_by_double),
                ]);
            }
            table.print(output)?;
        }
        Ok(())
    }

    /// Draws the break-even points over the size into `path`, and for each size the times over the computation into a
    /// file beside it, whose name has the size; with a single size only these, into `path`.
    pub(crate) fn draw(&self, path: &Path) -> Result<(), CommandError> {
        let sizes: Vec<u64> =
            self.modes.iter().flat_map(|of| of.sizes.iter().map(|size| size.size)).collect();
        let several = sizes.iter().any(|size| *size != sizes[0]);
        if several {
            self.break_even().draw(path)?;
        }
        for (at, bytes) in sizes.iter().enumerate() {
            if !sizes[..at].contains(bytes) {
                let path = if several { beside(path, *bytes) } else { path.to_owned() };
                self.totals(*bytes).draw(&path)?;
            }
        }
        Ok(())
    }

    /// The paper's figure 12.
    fn break_even(&self) -> Chart {
        let line = |name: String, of_mode: &OfMode, value: fn(&Hiding) -> f64| {
            let points = of_mode.sizes.iter().map(|of| (of.size as f64, value(of) * 1e3)).collect();
            Line { name, points, has_marks: true }
        };
        let mut lines = Vec::new();
        for (number, of_mode) in self.modes.iter().enumerate() {
            let mode = of_mode.mode;
            if number == 0 {
                lines.push(line("synchronous".into(), of_mode, |of| of.synchronous));
            }
            lines.push(line(format!("asynchronous, {mode}"), of_mode, |of| of.asynchronous));
            lines
                .push(line(format!("break-even calculated, {mode}"), of_mode, |of| of.break_even_calculated));
            lines.push(line(format!("break-even measured, {mode}"), of_mode, |of| {
                of.break_even_measured.unwrap_or(f64::NAN)
            }));
        }
        Chart {
            title: format!("break-even points on {} ({})", self.fabric, self.provider),
            across: Axis::sizes(),
            up: Axis::numbers("ms", Scale::Linear),
            lines,
        }
    }

    /// The paper's figure 11.
    fn totals(&self, bytes: u64) -> Chart {
        let line = |name: String, of_size: &Hiding, value: fn(&Step) -> f64| {
            let points = of_size.steps.iter().map(|step| (step.compute * 1e3, value(step) * 1e3)).collect();
            Line { name, points, has_marks: true }
        };
        let mut lines = Vec::new();
        for of_mode in &self.modes {
            for of_size in of_mode.sizes.iter().filter(|of_size| of_size.size == bytes) {
                if lines.is_empty() {
                    lines.push(line("synchronous".into(), of_size, |step| step.synchronous));
                }
                lines
                    .push(line(format!("asynchronous, {}", of_mode.mode), of_size, |step| step.asynchronous));
            }
        }
        Chart {
            title: format!("computing while sending {} on {} ({})", size(bytes), self.fabric, self.provider),
            across: Axis::numbers("computation, ms", Scale::Linear),
            up: Axis::numbers("altogether, ms", Scale::Linear),
            lines,
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `overlap.svg` with a size becomes `overlap-64KiB.svg`.
fn beside(path: &Path, bytes: u64) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{}", size(bytes).replace(' ', ""));
    let with_extension = path.extension().map(|extension| format!("{name}.{}", extension.to_string_lossy()));
    path.with_file_name(with_extension.unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_goes_before_the_extension() {
        assert_eq!(beside(Path::new("a/overlap.svg"), 65536), Path::new("a/overlap-64KiB.svg"));
        assert_eq!(beside(Path::new("overlap"), 8), Path::new("overlap-8B.svg").with_extension(""));
    }
}
