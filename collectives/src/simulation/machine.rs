//! A simulated fabric as a machine to be profiled.

use std::convert::Infallible;
use std::time::Duration;

use svmio_transport::sim::{Network, Node};

use crate::profile::Measure;
use crate::rank::Rank;
use crate::simulation::Simulation;

/// What a survey measures on a simulated fabric, so that barriers can be tuned for machines that nobody has.
#[derive(Debug)]
pub struct SimulatedMachine<'simulation> {
    simulation: &'simulation Simulation,
    network: Network,
}

impl<'simulation> SimulatedMachine<'simulation> {
    /// The machine of a simulation.
    #[must_use]
    pub fn new(simulation: &'simulation Simulation) -> Self {
        let nodes = simulation.nodes.nodes().len() as u32;
        Self { simulation, network: Network::new(&simulation.model, nodes) }
    }

    /// What a store of so many bytes costs the sender, and how much later its receiver has seen them.
    fn store(&self, from: Rank, to: Rank, bytes: u64) -> (Duration, Duration) {
        let model = &self.simulation.model;
        let (poll, seen) = (model.local.poll_ns.0, model.local.delay_ns.0);
        if self.simulation.nodes.is_local(from, to) {
            return (poll + model.copy_time(bytes), seen + poll);
        }
        let node = |rank| Node(self.simulation.nodes.node_of(rank).map_or(0, |node| node as u32));
        (model.store_time(bytes), self.network.undisturbed(node(from), node(to), bytes) + seen + poll)
    }

    /// What the sender does once for all signals of a step.
    fn check(&self, from: Rank, to: Rank) -> Duration {
        let model = &self.simulation.model;
        if model.abilities.is_reliable || self.simulation.nodes.is_local(from, to) {
            return Duration::ZERO;
        }
        model.check.barrier_ns.0 + model.check.fast_check_ns.0
    }
}

impl Measure for SimulatedMachine<'_> {
    type Error = Infallible;

    fn ranks(&self) -> u32 {
        self.simulation.nodes.ranks()
    }

    fn one_way(&mut self, from: Rank, to: Rank, bytes: u64, _repetitions: u32) -> Result<f64, Infallible> {
        let (busy, later) = self.store(from, to, bytes);
        Ok(nanoseconds(busy + later.max(self.check(from, to))))
    }

    fn burst(&mut self, from: Rank, to: Rank, signals: u32, _repetitions: u32) -> Result<f64, Infallible> {
        let (busy, later) = self.store(from, to, 4);
        // The receiver looks at one flag while the next is on its way.
        Ok(nanoseconds(busy * signals + later.max(self.check(from, to))))
    }

    fn start(&mut self, rank: Rank, _repetitions: u32) -> Result<f64, Infallible> {
        let other = Rank(u32::from(rank.0 == 0));
        let poll = self.simulation.model.local.poll_ns.0;
        Ok(nanoseconds(poll + self.check(rank, other)))
    }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}
