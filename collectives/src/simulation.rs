//! Schedules in virtual time, on fabrics that are data files.
//!
//! ```text
//!   Schedule ─► parts of ranks ─► events by time ─► when each rank leaves      (run, ranks)
//!   CollectiveSchedule ─► the same, with blocks that are so long               (collectives)
//!   Model    ─► costs of signals and messages: processor, links with queues   (costs)
//!                    ├─► figures: those of the SCI Collectives Library        (figures)
//!                    └─► a machine to be profiled, as real ones are           (machine)
//! ```
//!
//! The models, the network and its contention are the transport's ([`svmio_transport::sim`]). There each rank is a
//! coroutine that runs the real protocols; here it is a few words of state, so that a hundred thousand of them take
//! seconds. What a rank does in a step: a store for each signal, one sequence check for all of them where the fabric
//! loses writes, and a look at each flag that it awaits.

mod collectives;
mod costs;
mod error;
pub mod figures;
mod machine;
mod ranks;
mod run;

use std::sync::Arc;
use std::time::Duration;

use svmio_transport::Time;
use svmio_transport::sim::Model;

pub use self::error::SimulationError;
pub use self::machine::SimulatedMachine;
use crate::collective::CollectiveSchedule;
use crate::partition::Partition;
use crate::schedule::Schedule;

/// By what a signal gets to its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signalling {
    /// A remote write to a flag in the receiver's memory.
    #[default]
    Flags,
    /// A short message of a message-passing library, each checked by itself.
    Messages {
        /// What the library needs for a message, once at the sender and once at the receiver.
        software: Duration,
    },
}

/// A fabric and who is on it.
#[derive(Debug, Clone)]
pub struct Simulation {
    model: Arc<Model>,
    nodes: Partition,
    signalling: Signalling,
}

/// When ranks left a barrier or a collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// When each rank left, from when the first came.
    pub leaves: Vec<Time>,
    /// From when the last rank came to when the last left.
    pub total: Duration,
}

impl Simulation {
    /// A fabric as the model says, with the ranks of these nodes.
    #[must_use]
    pub fn new(model: Arc<Model>, nodes: Partition) -> Self {
        Self { model, nodes, signalling: Signalling::Flags }
    }

    /// A fabric as the model says, with a rank on each of so many nodes.
    #[must_use]
    pub fn of_nodes(model: Arc<Model>, nodes: u32) -> Self {
        Self::new(model, Partition::blocks(nodes, 1))
    }

    /// The same with other signals.
    #[must_use]
    pub fn signalling(mut self, signalling: Signalling) -> Self {
        self.signalling = signalling;
        self
    }

    /// The nodes and their ranks.
    #[must_use]
    pub fn nodes(&self) -> &Partition {
        &self.nodes
    }

    /// Runs a schedule once. All ranks come at time 0.
    ///
    /// # Panics
    /// Where the schedule is for more ranks than there are.
    #[must_use]
    pub fn run(&self, schedule: &Schedule) -> Timing {
        self.run_entered(schedule, |_| Duration::ZERO)
    }

    /// Runs a schedule once, whose ranks come at different times: `entered` tells when.
    ///
    /// # Panics
    /// Where the schedule is for more ranks than there are.
    #[must_use]
    pub fn run_entered(
        &self,
        schedule: &Schedule,
        entered: impl Fn(crate::rank::Rank) -> Duration,
    ) -> Timing {
        assert!(schedule.ranks() <= self.nodes.ranks(), "{} ranks are too few", self.nodes.ranks());
        run::run(self, schedule, entered)
    }

    /// Runs a collective once, with blocks of so many bytes. All ranks come at time 0. A message is written straight to
    /// where it belongs, and a flag behind it; combining takes as long as copying.
    ///
    /// # Errors
    /// [`SimulationError`] for blocks that are too long.
    ///
    /// # Panics
    /// Where the schedule is for more ranks than there are.
    pub fn run_collective(
        &self,
        schedule: &CollectiveSchedule,
        block_bytes: u64,
    ) -> Result<Timing, SimulationError> {
        assert!(schedule.ranks() <= self.nodes.ranks(), "{} ranks are too few", self.nodes.ranks());
        collectives::run(self, schedule, block_bytes)
    }
}
