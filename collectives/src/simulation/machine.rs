//! A simulated fabric as a machine to be profiled.

use std::convert::Infallible;
use std::time::Duration;

use svmio_transport::Time;

use crate::profile::Measure;
use crate::rank::Rank;
use crate::simulation::Simulation;
use crate::simulation::costs::{Check, Costs, Sent};

/// What a survey measures on a simulated fabric, so that barriers can be tuned for machines that nobody has.
///
/// Signals are those that schedules are run with, sent when no others are under way.
#[derive(Debug)]
pub struct SimulatedMachine<'simulation> {
    simulation: &'simulation Simulation,
    costs: Costs<'simulation>,
    /// When all that was sent has arrived.
    quiet: Time,
    /// Of the pair that was measured last: a survey asks for the same signals again and again.
    known: Option<Known>,
}

/// Signals that one rank has sent to another.
struct Seen {
    /// When the sender was free again, from when it began.
    free: Duration,
    /// When it knew that all had arrived and could go on.
    checked: Duration,
    /// When the receiver had seen each and all before it.
    seen: Vec<Duration>,
}

/// What is known of the signals from one rank to another.
#[derive(Debug)]
struct Known {
    pair: (Rank, Rank),
    /// How long one takes to and fro.
    to_and_fro: Duration,
    /// How long bursts of one, two, … take.
    bursts: Vec<Duration>,
}

impl<'simulation> SimulatedMachine<'simulation> {
    /// The machine of a simulation.
    #[must_use]
    pub fn new(simulation: &'simulation Simulation) -> Self {
        Self { simulation, costs: Costs::new(simulation), quiet: Time(0), known: None }
    }

    /// Sends so many signals, one as soon as the other has left.
    fn send(&mut self, from: Rank, to: Rank, signals: u32) -> Seen {
        let begun = self.quiet;
        let (mut free, mut last_seen, mut acknowledged) = (begun, begun, None);
        let mut seen = Vec::with_capacity(signals as usize);
        for _ in 0..signals {
            let Sent { free: next, way, look, check } = self.costs.send(from, to, free);
            // All go the same way, one behind the other.
            let arrived = self.costs.arrival(way);
            let known = self.costs.acknowledged(from, to, arrived);
            free = if check == Check::Each { next.max(known) } else { next };
            // The receiver looks at one flag while the next is on its way.
            last_seen = last_seen.max(arrived).after(look);
            seen.push(last_seen.since(begun));
            acknowledged = acknowledged.max((check == Check::Once).then_some(known));
        }
        let checked = acknowledged.map_or(free, |acknowledged| self.costs.checked(free, acknowledged));
        self.quiet = last_seen.max(checked);
        Seen { free: free.since(begun), checked: checked.since(begun), seen }
    }

    /// What is known of signals from one rank to another, of bursts of up to `signals` at least.
    fn known(&mut self, from: Rank, to: Rank, signals: u32) -> &Known {
        let pair = (from, to);
        let known = self.known.take().filter(|known| known.pair == pair);
        let known = match known {
            Some(known) if known.bursts.len() >= signals as usize => known,
            // The beginning of a burst is a shorter one.
            _ => {
                let bursts = self.send(from, to, signals.next_power_of_two().max(8)).seen;
                let back = self.send(to, from, 1).seen;
                Known { pair, to_and_fro: bursts[0] + back[0], bursts }
            }
        };
        self.known.insert(known)
    }
}

impl Measure for SimulatedMachine<'_> {
    type Error = Infallible;

    fn ranks(&self) -> u32 {
        self.simulation.nodes.ranks()
    }

    /// A flag, half of its time to and fro, of which the one way may be longer; and what bytes in front of it add.
    fn one_way(&mut self, from: Rank, to: Rank, bytes: u64, _repetitions: u32) -> Result<f64, Infallible> {
        let flags = nanoseconds(self.known(from, to, 1).to_and_fro) / 2.0;
        Ok(flags + nanoseconds(self.costs.added(from, to, bytes)))
    }

    fn burst(&mut self, from: Rank, to: Rank, signals: u32, _repetitions: u32) -> Result<f64, Infallible> {
        let known = self.known(from, to, signals);
        Ok(signals.checked_sub(1).map_or(0.0, |last| nanoseconds(known.bursts[last as usize])))
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
