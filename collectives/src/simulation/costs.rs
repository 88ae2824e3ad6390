//! What signals and messages cost, and when they arrive.

use std::time::Duration;

use svmio_transport::Time;
use svmio_transport::sim::{Network, Node};

use crate::rank::Rank;
use crate::simulation::{Signalling, Simulation};

/// What a flag is on a link: a packet with next to nothing in it.
const FLAG_BYTES: u64 = 16;

/// What a short message is on a link.
const MESSAGE_BYTES: u64 = 64;

/// A signal that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    /// When the sender is free again.
    pub(super) free: Time,
    /// When its receiver can see it.
    pub(super) arrived: Time,
    /// How long the receiver is busy with seeing it.
    pub(super) look: Duration,
    /// When a sequence check would know that it has arrived; none where there is nothing to check.
    pub(super) acknowledged: Option<Time>,
}

/// The fabric while a schedule runs.
#[derive(Debug)]
pub(super) struct Costs<'simulation> {
    simulation: &'simulation Simulation,
    network: Network,
}

impl<'simulation> Costs<'simulation> {
    pub(super) fn new(simulation: &'simulation Simulation) -> Self {
        let nodes = simulation.nodes.nodes().len() as u32;
        Self { simulation, network: Network::new(&simulation.model, nodes) }
    }

    /// Sends a signal. Signals are to be sent in the order of their times.
    pub(super) fn send(&mut self, from: Rank, to: Rank, now: Time) -> Sent {
        let local = &self.simulation.model.local;
        let (poll, seen) = (local.poll_ns.0, local.delay_ns.0);
        let (from, to) = (self.node(from), self.node(to));
        if from == to {
            let software = match self.simulation.signalling {
                Signalling::Flags => Duration::ZERO,
                Signalling::Messages { software } => software,
            };
            // A store to a line that the other then fetches.
            let stored = now.after(software);
            let (free, arrived) = (stored.after(poll), stored.after(seen));
            return Sent { free, arrived, look: poll + software, acknowledged: None };
        }
        let model = &self.simulation.model;
        // What came over the fabric is in no cache.
        let look = poll + seen;
        match self.simulation.signalling {
            Signalling::Flags => {
                let free = now.after(model.store_time(FLAG_BYTES));
                let arrived = self.network.transfer(from, to, FLAG_BYTES, free, Duration::ZERO).arrived;
                let acknowledged =
                    (!model.abilities.is_reliable).then(|| self.acknowledged(from, to, arrived));
                Sent { free, arrived, look, acknowledged }
            }
            Signalling::Messages { software } => {
                let stored = now.after(software).after(model.store_time(MESSAGE_BYTES));
                let arrived = self.network.transfer(from, to, MESSAGE_BYTES, stored, Duration::ZERO).arrived;
                let check = model.check.check_ns.0;
                let free = if model.abilities.is_reliable {
                    stored
                } else {
                    self.acknowledged(from, to, arrived).max(stored.after(check))
                };
                Sent { free, arrived, look: look + software, acknowledged: None }
            }
        }
    }

    /// Sends a message of so many bytes with a flag behind it, by the processor or, where that takes less, by the
    /// adapter's engine. Messages are to be sent in the order of their times.
    pub(super) fn send_message(&mut self, from: Rank, to: Rank, bytes: u64, now: Time) -> Sent {
        let model = &self.simulation.model;
        let (poll, seen) = (model.local.poll_ns.0, model.local.delay_ns.0);
        let (from, to) = (self.node(from), self.node(to));
        if from == to {
            let free = now.after(poll).after(model.copy_time(bytes));
            return Sent { free, arrived: free.after(seen), look: poll, acknowledged: None };
        }
        let bytes = bytes + FLAG_BYTES;
        let stall = model.store.stall_ns.0;
        let stored = (stall, model.store_time(bytes).saturating_sub(stall));
        let engine = model
            .dma
            .as_ref()
            .map(|engine| (engine.post_ns.0 + engine.start_ns.0, engine.bandwidth_mib_per_s.time_for(bytes)));
        let (begun, injection) = engine.filter(|dma| dma.0 + dma.1 < stored.0 + stored.1).unwrap_or(stored);
        let issued = now.after(begun);
        let arrived = self.network.transfer(from, to, bytes, issued, injection).arrived;
        let acknowledged = (!model.abilities.is_reliable).then(|| self.acknowledged(from, to, arrived));
        Sent { free: issued.after(injection), arrived, look: poll + seen, acknowledged }
    }

    /// What so many bytes in front of a flag add to how long it takes, where nobody is in their way.
    pub(super) fn added(&self, from: Rank, to: Rank, bytes: u64) -> Duration {
        let model = &self.simulation.model;
        let (from, to) = (self.node(from), self.node(to));
        if from == to {
            return model.copy_time(bytes);
        }
        let takes = |bytes| model.store_time(bytes) + self.network.undisturbed(from, to, bytes);
        takes(bytes + FLAG_BYTES) - takes(FLAG_BYTES)
    }

    /// How long a rank works at so many bytes within its memory.
    pub(super) fn work(&self, bytes: u64) -> Duration {
        self.simulation.model.copy_time(bytes)
    }

    /// When a rank knows that what it stored has arrived: a store barrier and a fast check after the last store.
    pub(super) fn checked(&self, stored: Time, acknowledged: Time) -> Time {
        let check = &self.simulation.model.check;
        stored.after(check.barrier_ns.0).max(acknowledged).after(check.fast_check_ns.0)
    }

    /// When a fetch-add gets to a rank's word.
    pub(super) fn request(&mut self, from: Rank, home: Rank, now: Time) -> Time {
        let (from, home) = (self.node(from), self.node(home));
        if from == home {
            return now.after(self.simulation.model.local.delay_ns.0);
        }
        let issued = now.after(self.simulation.model.store_time(FLAG_BYTES));
        self.network.transfer(from, home, FLAG_BYTES, issued, Duration::ZERO).arrived
    }

    /// When its sender knows what a fetch-add has found, that got to the word at `now`.
    pub(super) fn reply(&self, home: Rank, to: Rank, now: Time) -> Time {
        let (home, to) = (self.node(home), self.node(to));
        if home == to {
            return now.after(self.simulation.model.local.poll_ns.0);
        }
        let back = self.network.undisturbed(home, to, FLAG_BYTES);
        now.after(self.simulation.model.atomic.delay_ns.0).after(back)
    }

    fn acknowledged(&self, from: Node, to: Node, arrived: Time) -> Time {
        arrived.after(self.network.undisturbed(to, from, FLAG_BYTES))
    }

    fn node(&self, rank: Rank) -> Node {
        // All ranks of a schedule that runs are on nodes.
        Node(self.simulation.nodes.node_of(rank).map_or(0, |node| node as u32))
    }
}
