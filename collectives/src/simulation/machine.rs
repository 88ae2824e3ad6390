//! A simulated fabric as a machine to be profiled.

use std::convert::Infallible;
use std::time::Duration;

use svmio_transport::Time;

use crate::profile::Measure;
use crate::rank::Rank;
use crate::simulation::Simulation;
use crate::simulation::costs::Costs;

/// What a survey measures on a simulated fabric, so that barriers can be tuned for machines that nobody has.
///
/// Signals are those that schedules are run with, sent when no others are under way.
#[derive(Debug)]
pub struct SimulatedMachine<'simulation> {
    simulation: &'simulation Simulation,
    costs: Costs<'simulation>,
    /// When all that was sent has arrived.
    quiet: Time,
}

/// Signals that one rank has sent to another.
struct Seen {
    /// When the sender was free again, from when it began.
    free: Duration,
    /// When it knew that all had arrived and could go on.
    checked: Duration,
    /// When the receiver had seen all.
    seen: Duration,
}

impl<'simulation> SimulatedMachine<'simulation> {
    /// The machine of a simulation.
    #[must_use]
    pub fn new(simulation: &'simulation Simulation) -> Self {
        Self { simulation, costs: Costs::new(simulation), quiet: Time(0) }
    }

    /// Sends so many signals, one as soon as the other has left.
    fn send(&mut self, from: Rank, to: Rank, signals: u32) -> Seen {
        let begun = self.quiet;
        let (mut free, mut seen, mut acknowledged) = (begun, begun, None);
        for _ in 0..signals {
            let sent = self.costs.send(from, to, free);
            free = sent.free;
            // The receiver looks at one flag while the next is on its way.
            seen = seen.max(sent.arrived).after(sent.look);
            acknowledged = acknowledged.max(sent.acknowledged);
        }
        let checked = acknowledged.map_or(free, |acknowledged| self.costs.checked(free, acknowledged));
        self.quiet = seen.max(checked);
        Seen { free: free.since(begun), checked: checked.since(begun), seen: seen.since(begun) }
    }
}

impl Measure for SimulatedMachine<'_> {
    type Error = Infallible;

    fn ranks(&self) -> u32 {
        self.simulation.nodes.ranks()
    }

    /// A flag, half of its time to and fro, of which the one way may be longer; and what bytes in front of it add.
    fn one_way(&mut self, from: Rank, to: Rank, bytes: u64, _repetitions: u32) -> Result<f64, Infallible> {
        let flags = self.send(from, to, 1).seen + self.send(to, from, 1).seen;
        Ok(nanoseconds(flags) / 2.0 + nanoseconds(self.costs.added(from, to, bytes)))
    }

    fn burst(&mut self, from: Rank, to: Rank, signals: u32, _repetitions: u32) -> Result<f64, Infallible> {
        Ok(nanoseconds(self.send(from, to, signals).seen))
    }

    /// What a rank does once for all signals of a step: the sequence check, where there is one to be made, of signals to
    /// all nodes. What goes to none but those of the rank's own node is charged with it, too, since a profile has one
    /// such number for each rank.
    fn start(&mut self, rank: Rank, _repetitions: u32) -> Result<f64, Infallible> {
        let mut most = Duration::ZERO;
        for master in self.simulation.nodes.masters().filter(|&master| master != rank) {
            let Seen { free, checked, .. } = self.send(rank, master, 1);
            most = most.max(checked - free);
        }
        Ok(nanoseconds(most))
    }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}
