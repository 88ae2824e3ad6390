//! What the processes of a benchmark do. They form pairs: the first half of the ranks sends to the second.
//!
//! Everything here runs on any fabric, the simulated one included: time is the fabric's.

mod bare;
mod core;
mod interrupt;
mod messages;
mod overlap;

use std::time::Duration;

use svmio_transport::message::{MessageSettings, Messenger, Mode, Port};
use svmio_transport::{Error, Fabric, Rank, Result};

use super::plan::{Plan, Point, Protocol, Report, Variant, What};

/// The port for what the processes tell each other beside the measurement; the measured ones follow.
const CONTROL: u32 = 0;

/// Carries out a plan, in each process of the job. The first process returns what all have measured.
///
/// # Errors
/// Whatever the fabric meets.
pub(crate) fn carry_out(fabric: &Fabric, settings: &MessageSettings, plan: &Plan) -> Result<Option<Report>> {
    let place = Place::of(fabric, settings)?;
    let own = match &plan.what {
        What::Pingpong => messages::measure(&place, plan, messages::Pattern::Pingpong)?,
        What::Bandwidth => messages::measure(&place, plan, messages::Pattern::Stream)?,
        What::Overlap { compute } => overlap::measure(&place, plan, compute)?,
        What::Interrupt { round_trips } => interrupt::measure(&place, plan, *round_trips)?,
    };
    let points = place.gathered(own, &plan.what)?;
    // Nobody leaves while another one still waits for its last message.
    place.meet_all()?;
    let capabilities = fabric.capabilities();
    Ok(points.map(|points| Report {
        fabric: capabilities.back_end.clone(),
        provider: capabilities.provider.clone(),
        points,
    }))
}

/// A process's place in its pair.
struct Place<'f> {
    fabric: &'f Fabric,
    settings: &'f MessageSettings,
    control: Messenger,
    side: Side,
    peer: Rank,
}

/// Which of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Who begins, and takes the time.
    First,
    /// Who answers.
    Second,
}

impl<'f> Place<'f> {
    fn of(fabric: &'f Fabric, settings: &'f MessageSettings) -> Result<Self> {
        let control = Messenger::open(fabric, port(CONTROL)?, settings)?;
        let (rank, half) = (fabric.rank().0, fabric.size() / 2);
        let (side, peer) = if rank < half { (Side::First, rank + half) } else { (Side::Second, rank - half) };
        Ok(Self { fabric, settings, control, side, peer: Rank(peer) })
    }

    /// A messenger for each variant. All are open at the same time, so that they can be measured in turn.
    fn messengers(&self, variants: &[Variant]) -> Result<Vec<Messenger>> {
        let open = |(number, variant): (u32, &Variant)| {
            let as_configured = self.settings.clone();
            let settings = match *variant {
                Variant::Configured(protocol) => MessageSettings { mode: mode(protocol), ..as_configured },
                Variant::Synchronous(protocol) => {
                    MessageSettings { mode: mode(protocol), asynchronous: false, ..as_configured }
                }
                Variant::Asynchronous(protocol) => {
                    MessageSettings { mode: mode(protocol), asynchronous: true, ..as_configured }
                }
                Variant::AtRest(_)
                | Variant::Computation
                | Variant::Bare
                | Variant::BareAtRest
                | Variant::Interrupt => as_configured,
            };
            Messenger::open(self.fabric, port(number)?, &settings)
        };
        (CONTROL + 1..).zip(variants).map(open).collect()
    }

    /// How long `action` takes.
    fn timed(&self, action: impl FnOnce() -> Result<()>) -> Result<Duration> {
        let started = self.fabric.now();
        action()?;
        Ok(self.fabric.now().since(started))
    }

    /// Returns when both of the pair have come here: for the second a message's time later.
    fn meet(&self) -> Result<()> {
        match self.side {
            Side::First => {
                self.control.receive(self.peer, &mut [])?;
                self.control.send(self.peer, &[])
            }
            Side::Second => {
                self.control.send(self.peer, &[])?;
                self.control.receive(self.peer, &mut []).map(drop)
            }
        }
    }

    /// Returns when all have come here.
    fn meet_all(&self) -> Result<()> {
        let (own, first) = (self.fabric.rank(), Rank(0));
        if own != first {
            self.control.send(first, &[])?;
            return self.control.receive(first, &mut []).map(drop);
        }
        let others = || self.fabric.membership().ranks().filter(|rank| *rank != first);
        others().try_for_each(|rank| self.control.receive(rank, &mut []).map(drop))?;
        others().try_for_each(|rank| self.control.send(rank, &[]))
    }

    /// What the first of the pair found, known to both.
    fn agreed(&self, number: u64) -> Result<u64> {
        let mut bytes = number.to_le_bytes();
        match self.side {
            Side::First => self.control.send(self.peer, &bytes)?,
            Side::Second => drop(self.control.receive(self.peer, &mut bytes)?),
        }
        Ok(u64::from_le_bytes(bytes))
    }

    /// What the second of the pair found, known to the first.
    fn told(&self, found: Duration) -> Result<Duration> {
        let mut bytes = (found.as_nanos() as u64).to_le_bytes();
        match self.side {
            Side::First => drop(self.control.receive(self.peer, &mut bytes)?),
            Side::Second => self.control.send(self.peer, &bytes)?,
        }
        Ok(Duration::from_nanos(u64::from_le_bytes(bytes)))
    }

    /// The times of all pairs, in the first process: of messages to and fro the longest, of streams what all together
    /// would take for one.
    fn gathered(&self, own: Vec<Point>, what: &What) -> Result<Option<Vec<Point>>> {
        let half = self.fabric.size() / 2;
        if self.fabric.rank() != Rank(0) {
            if self.side == Side::First {
                let seconds = own.iter().flat_map(|point| &point.seconds);
                let bytes: Vec<u8> = seconds.flat_map(|seconds| seconds.to_le_bytes()).collect();
                self.control.send(Rank(0), &bytes)?;
            }
            return Ok(None);
        }
        let mut all: Vec<Vec<f64>> =
            own.iter().flat_map(|point| &point.seconds).map(|seconds| vec![*seconds]).collect();
        for rank in 1..half {
            let mut bytes = vec![0; all.len() * size_of::<f64>()];
            self.control.receive(Rank(rank), &mut bytes)?;
            for (all, bytes) in all.iter_mut().zip(bytes.as_chunks().0) {
                all.push(f64::from_le_bytes(*bytes));
            }
        }
        let together = |pairs: &Vec<f64>| match what {
            What::Bandwidth => 1.0 / pairs.iter().map(|seconds| 1.0 / seconds).sum::<f64>(),
            _ => pairs.iter().copied().fold(0.0, f64::max),
        };
        let mut together = all.iter().map(together);
        let with_all = |point: Point| {
            let seconds = together.by_ref().take(point.seconds.len()).collect();
            Point { seconds, ..point }
        };
        Ok(Some(own.into_iter().map(with_all).collect()))
    }
}

fn port(number: u32) -> Result<Port> {
    // There are fewer protocols than ports.
    Port::new(number).ok_or(Error::Unsupported { back_end: "messenger".into(), what: "so many ports" })
}

fn mode(protocol: Protocol) -> Mode {
    match protocol {
        Protocol::Automatic => Mode::Automatic,
        Protocol::Short => Mode::Short,
        Protocol::Eager => Mode::Eager,
        Protocol::RendezvousStores => Mode::RendezvousStores,
        Protocol::RendezvousStaged => Mode::RendezvousStaged,
        Protocol::RendezvousHalfStaged => Mode::RendezvousHalfStaged,
        Protocol::RendezvousDirect => Mode::RendezvousDirect,
    }
}

/// `least` to `most` times what fits into so many bytes.
fn rounds(bytes: u64, each: u64, least: u64, most: u64) -> u64 {
    (bytes / each.max(1)).clamp(least, most)
}
