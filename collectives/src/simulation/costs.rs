//! What signals and messages cost, and when they arrive.

use std::time::Duration;

use svmio_transport::Time;
use svmio_transport::sim::{Flight, Network, Node};

use crate::rank::Rank;
use crate::simulation::{Signalling, Simulation};

/// What a flag is on a link: a packet with next to nothing in it.
const FLAG_BYTES: u64 = 16;

/// What a short message is on a link.
const MESSAGE_BYTES: u64 = 64;

/// A signal that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    /// When the sender is free again; not before it knows of the arrival, where it makes sure of [each](Check::Each).
    pub(super) free: Time,
    pub(super) way: Way,
    /// How long the receiver is busy with seeing it.
    pub(super) look: Duration,
    pub(super) check: Check,
}

/// How something gets where it is to be.
#[derive(Debug)]
pub(super) enum Way {
    /// It is there at this time.
    Known(Time),
    /// Over the network, where others may be in its way.
    Flight(Flight),
}

/// When a sender makes sure that a signal has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// There is nothing to check.
    Never,
    /// Once for all signals of a step, when it has sent them.
    Once,
    /// Before it sends the next one.
    Each,
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

    /// Sends a signal. Signals are to be sent, and to fly on, in the order of their times.
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
            let (free, way) = (stored.after(poll), Way::Known(stored.after(seen)));
            return Sent { free, way, look: poll + software, check: Check::Never };
        }
        let model = &self.simulation.model;
        // What came over the fabric is in no cache.
        let look = poll + seen;
        match self.simulation.signalling {
            Signalling::Flags => {
                let free = now.after(model.store_time(FLAG_BYTES));
                let way = Way::Flight(self.network.send(from, to, FLAG_BYTES, free, Duration::ZERO));
                Sent { free, way, look, check: self.check(Check::Once) }
            }
            Signalling::Messages { software } => {
                let stored = now.after(software).after(model.store_time(MESSAGE_BYTES));
                let way = Way::Flight(self.network.send(from, to, MESSAGE_BYTES, stored, Duration::ZERO));
                let check = self.check(Check::Each);
                let free = match check {
                    Check::Each => stored.after(model.check.check_ns.0),
                    Check::Never | Check::Once => stored,
                };
                Sent { free, way, look: look + software, check }
            }
        }
    }

    fn check(&self, check: Check) -> Check {
        if self.simulation.model.abilities.is_reliable { Check::Never } else { check }
    }

    /// Sends a message of so many bytes with a flag behind it, by the processor or, where that takes less, by the
    /// adapter's engine. Messages are to be sent, and to fly on, in the order of their times.
    pub(super) fn send_message(&mut self, from: Rank, to: Rank, bytes: u64, now: Time) -> Sent {
        let model = &self.simulation.model;
        let (poll, seen) = (model.local.poll_ns.0, model.local.delay_ns.0);
        let (from, to) = (self.node(from), self.node(to));
        if from == to {
            let free = now.after(poll).after(model.copy_time(bytes));
            return Sent { free, way: Way::Known(free.after(seen)), look: poll, check: Check::Never };
        }
        let bytes = bytes.saturating_add(FLAG_BYTES);
        let stall = model.store.stall_ns.0;
        let stored = (stall, model.store_time(bytes).saturating_sub(stall));
        let engine = model
            .dma
            .as_ref()
            .map(|engine| (engine.post_ns.0 + engine.start_ns.0, engine.bandwidth_mib_per_s.time_for(bytes)));
        let (begun, injection) = engine.filter(|dma| dma.0 + dma.1 < stored.0 + stored.1).unwrap_or(stored);
        let issued = now.after(begun);
        let way = Way::Flight(self.network.send(from, to, bytes, issued, injection));
        Sent { free: issued.after(injection), way, look: poll + seen, check: self.check(Check::Once) }
    }

    /// What is under way reaches another link.
    pub(super) fn fly_on(&mut self, flight: &mut Flight) {
        self.network.go_on(flight);
    }

    /// When something arrives that no other is in the way of.
    pub(super) fn arrival(&mut self, way: Way) -> Time {
        match way {
            Way::Known(time) => time,
            Way::Flight(flight) => self.network.carry(flight),
        }
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

    /// How a fetch-add gets to a rank's word.
    pub(super) fn request(&mut self, from: Rank, home: Rank, now: Time) -> Way {
        let (from, home) = (self.node(from), self.node(home));
        if from == home {
            return Way::Known(now.after(self.simulation.model.local.delay_ns.0));
        }
        let issued = now.after(self.simulation.model.store_time(FLAG_BYTES));
        Way::Flight(self.network.send(from, home, FLAG_BYTES, issued, Duration::ZERO))
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

    /// When the sender of what has arrived can know that.
    pub(super) fn acknowledged(&self, from: Rank, to: Rank, arrived: Time) -> Time {
        let (from, to) = (self.node(from), self.node(to));
        arrived.after(self.network.undisturbed(to, from, FLAG_BYTES))
    }

    fn node(&self, rank: Rank) -> Node {
        // All ranks of a schedule that runs are on nodes.
        Node(self.simulation.nodes.node_of(rank).map_or(0, |node| node as u32))
    }
}
