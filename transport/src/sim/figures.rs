//! The first paper's figures about messages, measured anew: the same protocols, on the fabric that its constants make.
//!
//! J. Worringen, "SCI-MPICH: The Second Generation", SCI-Europe 2000. Each function runs two simulated processes, the
//! model's nearest neighbours, and returns what the figure shows as series of points, fit to be plotted or compared.

mod measure;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub use self::measure::{dma_time, interrupt_latency, latency, overlap, store_time};
use crate::error::Error;
use crate::message::{MessageSettings, Mode};
use crate::sim::model::Model;
use crate::sim::report::SimError;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What a figure shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its number in the paper.
    pub number: u32,
    /// What it is about.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// Whether equal steps are equal factors.
    pub is_logarithmic: bool,
}

/// A curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// What it stands for.
    pub name: String,
    /// Its points, by growing x.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// The value at `x`, if there is a point.
    #[must_use]
    pub fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|point| (point.0 - x).abs() < 1e-9).map(|point| point.1)
    }
}

impl Figure {
    /// The curve of that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }
}

/// Why a figure could not be measured.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FigureError {
    /// The run failed.
    #[error(transparent)]
    Run(#[from] SimError),
    /// A process failed.
    #[error(transparent)]
    Process(#[from] Error),
}

/// What the functions here return.
pub type Result<T, E = FigureError> = std::result::Result<T, E>;

/// All of them.
///
/// # Errors
/// Those of each.
pub fn all(model: &Arc<Model>) -> Result<Vec<Figure>> {
    Ok(vec![
        short_packets(model)?,
        write_bandwidth(model)?,
        staged_bandwidth(model)?,
        overlapping(model)?,
        break_even(model)?,
    ])
}

/// Figure 3: the latency of small messages, for short packets of different sizes. What a packet does not hold goes by
/// the eager protocol; that is the step of each curve.
///
/// # Errors
/// [`FigureError`].
pub fn short_packets(model: &Arc<Model>) -> Result<Figure> {
    let sizes: Vec<u64> = (0..=640).step_by(16).collect();
    let mut series = Vec::new();
    for packet in [64, 128, 256, 512] {
        // As in the paper, each message has a buffer to itself, and credit comes back for every other one.
        let settings =
            MessageSettings { short_packet: packet, eager_buffer: 1 << 10, ..MessageSettings::default() };
        let mut points = Vec::new();
        for &size in &sizes {
            points.push((size as f64, microseconds(latency(model, &settings, size)?)));
        }
        series.push(Series { name: format!("packets of {packet} B"), points });
    }
    let title = "Latency for differently sized short packets".into();
    Ok(Figure { number: 3, title, x: linear("message [B]"), y: linear("latency [µs]"), series })
}

/// Figure 4: the bandwidth of remote writes, by stores and by DMA.
///
/// # Errors
/// [`FigureError`].
pub fn write_bandwidth(model: &Arc<Model>) -> Result<Figure> {
    let (mut stores, mut dma) = (Vec::new(), Vec::new());
    for size in powers(256, 4 * MIB) {
        stores.push((size as f64, bandwidth(size, store_time(model, size)?)));
        dma.push((size as f64, bandwidth(size, dma_time(model, size)?)));
    }
    let series =
        vec![Series { name: "stores".into(), points: stores }, Series { name: "DMA".into(), points: dma }];
    let title = "Bandwidth for remote memory write access".into();
    Ok(Figure { number: 4, title, x: logarithmic("block [B]"), y: linear("bandwidth [MiB/s]"), series })
}

/// Figure 9: the bandwidth of the asynchronous rendezvous with its three copies, its bound, that of DMA alone, and what
/// two copies could reach; and what becomes of three copies when parts overlap, which the paper did not have.
///
/// # Errors
/// [`FigureError`].
pub fn staged_bandwidth(model: &Arc<Model>) -> Result<Figure> {
    let names =
        ["3 copies", "bound of 3 copies", "DMA alone", "2 copies, estimated", "3 copies, overlapping parts"];
    let mut series = names.map(|name| Series { name: name.into(), points: Vec::new() });
    for size in powers(16 * KIB, 8 * MIB) {
        let one_part = latency(model, &staged(size, 1), size)?;
        let parts = latency(model, &staged(size.min(64 * KIB), 4), size)?;
        let (copy, dma) = (model.copy_time(size), dma_time(model, size)?);
        for (series, time) in series.iter_mut().zip([one_part, 2 * copy + dma, dma, copy + dma, parts]) {
            series.points.push((size as f64, bandwidth(size, time)));
        }
    }
    let title = "Asynchronous rendezvous performance".into();
    let (x, y) = (logarithmic("message [B]"), linear("bandwidth [MiB/s]"));
    Ok(Figure { number: 9, title, x, y, series: series.into() })
}

/// Figure 11: the time for a computation and a message of 1 MiB, by the synchronous and by the asynchronous protocol.
///
/// # Errors
/// [`FigureError`].
pub fn overlapping(model: &Arc<Model>) -> Result<Figure> {
    let jobs: Vec<_> = (0..=60).step_by(2).map(Duration::from_millis).collect();
    let mut series = Vec::new();
    for (name, settings) in [("synchronous", stores()), ("asynchronous", staged(MIB, 1))] {
        let totals = overlap(model, &settings, MIB, &jobs)?;
        let points = jobs.iter().zip(totals).map(|(&job, total)| (milliseconds(job), milliseconds(total)));
        series.push(Series { name: name.into(), points: points.collect() });
    }
    let title = "Effect of overlapping computation and communication".into();
    Ok(Figure { number: 11, title, x: linear("computation [ms]"), y: linear("total [ms]"), series })
}

/// Figure 12: the time of a message by both protocols, and from which computation on the asynchronous one is better.
///
/// # Errors
/// [`FigureError`].
pub fn break_even(model: &Arc<Model>) -> Result<Figure> {
    let names = ["synchronous", "asynchronous", "break-even, computed", "break-even, measured"];
    let mut series = names.map(|name| Series { name: name.into(), points: Vec::new() });
    for size in powers(64 * KIB, 8 * MIB) {
        let alone = |settings| overlap(model, settings, size, &[Duration::ZERO]).map(|totals| totals[0]);
        let (synchronous, asynchronous) = (alone(&stores())?, alone(&staged(size, 1))?);
        let computed = asynchronous.saturating_sub(synchronous);
        let measured = break_even_point(model, size, 2 * asynchronous)?;
        for (series, time) in series.iter_mut().zip([synchronous, asynchronous, computed, measured]) {
            series.points.push((size as f64, milliseconds(time)));
        }
    }
    let title = "Break-even point for asynchronous rendezvous by DMA".into();
    let (x, y) = (logarithmic("message [B]"), logarithmic("time [ms]"));
    Ok(Figure { number: 12, title, x, y, series: series.into() })
}

/// The shortest computation beside which the asynchronous protocol is no worse, to a thousandth of `most`; zero where
/// it is always so.
///
/// # Errors
/// [`FigureError`].
pub fn break_even_point(model: &Arc<Model>, size: u64, most: Duration) -> Result<Duration> {
    const STEPS: u32 = 10;
    let (mut low, mut high) = (Duration::ZERO, most);
    // The difference falls as the computation grows: look closer and closer at where it changes sign.
    while high - low > most / 1000 {
        let step = (high - low) / STEPS;
        let jobs: Vec<_> = (0..=STEPS).map(|number| low + number * step).collect();
        let synchronous = overlap(model, &stores(), size, &jobs)?;
        let asynchronous = overlap(model, &staged(size, 1), size, &jobs)?;
        let better = asynchronous.iter().zip(&synchronous).position(|(ours, theirs)| ours <= theirs);
        match better {
            Some(0) => return Ok(low),
            Some(number) => (low, high) = (jobs[number - 1], jobs[number]),
            None => return Ok(most),
        }
    }
    Ok(high)
}

/// The synchronous rendezvous: stores, in parts, while the receiver copies the part before.
#[must_use]
pub fn stores() -> MessageSettings {
    MessageSettings { mode: Mode::RendezvousStores, asynchronous: false, ..MessageSettings::default() }
}

/// The asynchronous rendezvous: DMA between staging buffers.
#[must_use]
pub fn staged(buffer: u64, buffers: u32) -> MessageSettings {
    MessageSettings {
        mode: Mode::RendezvousStaged,
        asynchronous: true,
        staging_buffer: u32::try_from(buffer).unwrap_or(u32::MAX),
        staging_buffers: buffers,
        ..MessageSettings::default()
    }
}

fn powers(from: u64, to: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(from), |size| Some(2 * size)).take_while(move |&size| size <= to)
}

fn bandwidth(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / MIB as f64 / time.as_secs_f64()
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn linear(label: &str) -> Axis {
    Axis { label: label.into(), is_logarithmic: false }
}

fn logarithmic(label: &str) -> Axis {
    Axis { label: label.into(), is_logarithmic: true }
}
