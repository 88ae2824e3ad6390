//! The diagrams of the first paper, drawn anew from the simulated fabric.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use svmio_transport::message::MessageSettings;
use svmio_transport::sim::Model;

use super::chart::{Axis, Chart, Line, Scale};
use super::fabric_choice::model;
use super::hiding::Summary;
use super::plan::{Effort, Plan, Point, Protocol, Variant, What};
use super::showing::Overlap;
use super::simulation;
use crate::commands::Outcome;
use crate::commands::error::CommandError;
use crate::commands::output::Output;

/// The arguments of `svmio bench figures`.
#[derive(Debug, Args)]
pub(crate) struct FiguresArguments {
    /// The cost model: a built-in one's name, or a file
    #[arg(long, value_name = "MODEL", default_value = "sci-switch", value_parser = model)]
    model: String,

    /// The directory for the diagrams, made where there is none
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    plot: PathBuf,
}

/// Control packets of the paper's figure 3, bytes.
const PACKETS: [u32; 4] = [64, 128, 256, 512];

/// Draws them all, and prints their names.
///
/// # Errors
/// Where one cannot be measured or written.
pub(super) fn figures(arguments: &FiguresArguments) -> Result<Outcome, CommandError> {
    let directory = &arguments.plot;
    fs::create_dir_all(directory).map_err(|source| CommandError::Outside {
        action: "making the directory",
        path: directory.clone(),
        source,
    })?;
    let paper = Paper { model: &arguments.model };
    let mut output = Output::new()?;
    let mut drawn = |name: &str, what: &str, draw: &dyn Fn(&Path) -> Result<(), CommandError>| {
        let path = directory.join(name);
        draw(&path)?;
        let mut line = output.path(&path);
        line.extend(format!("  {what}").bytes());
        output.line(line)
    };
    drawn("figure-3.svg", "latency of short messages, by the size of control packets", &|path| {
        paper.control_packets()?.draw(path)
    })?;
    drawn("figure-9.svg", "bandwidth of the asynchronous rendezvous, and its bounds", &|path| {
        paper.rendezvous()?.draw(path)
    })?;
    drawn("figure-11.svg", "computing while a mebibyte is sent", &|path| {
        paper.overlap(vec![1 << 20], (0..=12).map(|step| f64::from(step) * 5e-3).collect())?.draw(path)
    })?;
    drawn("figure-12.svg", "break-even points by size", &|path| {
        let sizes = (15..=23).map(|power| 1 << power).collect();
        paper.overlap(sizes, vec![0.0])?.break_even().draw(path)
    })?;
    output.finish()?;
    Ok(Outcome::Fine)
}

/// The paper's measurements.
struct Paper<'a> {
    model: &'a str,
}

impl Paper<'_> {
    /// Figure 3.
    fn control_packets(&self) -> Result<Chart, CommandError> {
        let mut lines = Vec::new();
        for packet in PACKETS {
            // A buffer for each message, as in the paper.
            let settings =
                MessageSettings { short_packet: packet, eager_buffer: 1 << 10, ..MessageSettings::default() };
            let sizes = (0..=64).map(|step| u64::max(1, step * 16)).collect();
            let points = self.measured(What::Pingpong, Protocol::Automatic, sizes, &settings)?;
            let points = points.iter().map(|point| (point.size as f64, point.median() * 1e6)).collect();
            lines.push(Line { name: format!("packets of {packet} bytes"), points, has_marks: false });
        }
        Ok(Chart {
            title: format!("short messages by size of control packets, {}", self.model),
            across: Axis::numbers("message size, bytes", Scale::Linear),
            up: Axis::numbers("half a round trip, µs", Scale::Linear),
            lines,
        })
    }

    /// Figure 9, with what is measured of the protocol that copies once less in the place of an estimate.
    fn rendezvous(&self) -> Result<Chart, CommandError> {
        let sizes: Vec<u64> = (14..=23).map(|power| 1 << power).collect();
        let settings = paper_settings();
        let of = |protocol| self.measured(What::Pingpong, protocol, sizes.clone(), &settings);
        let staged = of(Protocol::RendezvousStaged)?;
        let transfers = self.measured(What::Transfer, Protocol::Automatic, sizes.clone(), &settings)?;
        let model = Model::find(self.model)?;
        let bound = |copies: f64| {
            let seconds =
                |transfer: &Point| transfer.median() + copies * model.copy_time(transfer.size).as_secs_f64();
            transfers.iter().map(|transfer| (transfer.size, seconds(transfer))).collect::<Vec<_>>()
        };
        let line = |name: &str, seconds: Vec<(u64, f64)>| {
            let points = seconds.iter().map(|(size, seconds)| (*size as f64, *size as f64 / MIB / seconds));
            Line { name: name.into(), points: points.collect(), has_marks: true }
        };
        let measured = staged.iter().map(|point| (point.size, point.median())).collect();
        Ok(Chart {
            title: format!("asynchronous rendezvous, {}", self.model),
            across: Axis::sizes(),
            up: Axis::numbers("MiB/s", Scale::Linear),
            lines: vec![
                line("three copies, measured", measured),
                line("three copies, bound", bound(2.0)),
                line("two copies, bound", bound(1.0)),
                line("DMA alone", bound(0.0)),
            ],
        })
    }

    /// Figures 11 and 12. Stores come from the processor: those of one part go on while the receiver copies the part
    /// before.
    fn overlap(&self, sizes: Vec<u64>, compute: Vec<f64>) -> Result<Overlap, CommandError> {
        let plan = plan(What::Overlap { compute }, Protocol::RendezvousStaged, sizes);
        let mut report = simulation::measured(self.model, &paper_settings(), &plan, 2)?;
        let with_parts = simulation::measured(self.model, &MessageSettings::default(), &plan, 2)?;
        let is_synchronous = |point: &Point| matches!(point.variant, Variant::Synchronous(_));
        report.points.retain(|point| !is_synchronous(point));
        report.points.extend(with_parts.points.into_iter().filter(is_synchronous));
        Ok(Overlap::of(report, &plan, Summary::Median))
    }

    fn measured(
        &self,
        what: What,
        protocol: Protocol,
        sizes: Vec<u64>,
        settings: &MessageSettings,
    ) -> Result<Vec<Point>, CommandError> {
        let plan = plan(what, protocol, sizes);
        Ok(simulation::measured(self.model, settings, &plan, 2)?.points)
    }
}

const MIB: f64 = (1 << 20) as f64;

/// The paper's buffers for DMA: a message in one part, each copy after the one before.
fn paper_settings() -> MessageSettings {
    MessageSettings { staging_buffer: 8 << 20, staging_buffers: 1, ..MessageSettings::default() }
}

fn plan(what: What, protocol: Protocol, sizes: Vec<u64>) -> Plan {
    Plan { what, protocols: vec![protocol], sizes, repeat: 1, effort: Effort::Virtual }
}
