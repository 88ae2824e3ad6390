//! What came of a run.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::units::{Rank, Time};

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimReport<R = ()> {
    /// The virtual time at which the last process returned.
    pub duration: Duration,
    /// How many events there were.
    pub events: u64,
    /// How often a process or service was resumed.
    pub switches: u64,
    /// What each process did.
    pub ranks: Vec<RankReport>,
    /// What went wrong on purpose.
    pub faults: FaultCounts,
    /// What each process's body returned; nothing for those that were killed or hung before.
    pub results: Vec<Option<R>>,
}

/// What a process did, with all its services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct RankReport {
    /// Processor time: stores, copies, computation, polling, checks.
    pub processor: Duration,
    /// Remote writes.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Bytes of its chains that the engine carried.
    pub dma_bytes: u64,
    /// Interrupts that it triggered.
    pub triggered: u64,
    /// Sequence checks and store barriers.
    pub checks: u64,
    /// How often it waited.
    pub waits: u64,
    /// When its body returned; zero if it never did.
    pub returned_after: Duration,
}

/// How often what went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FaultCounts {
    /// Transactions that were lost.
    pub dropped: u64,
    /// Transactions that were late.
    pub late: u64,
    /// Transactions that arrived twice.
    pub repeated: u64,
    /// Processes that were killed.
    pub killed: u64,
    /// Processes that hung.
    pub hung: u64,
}

/// Why a run did not come to its end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// Nothing is to happen any more, and not all have returned.
    #[error("deadlock at {at:?}: {}", list(.waiting))]
    Deadlock {
        /// When.
        at: Duration,
        /// Who waits.
        waiting: Vec<Waiter>,
    },
    /// The virtual time that was set has passed.
    #[error("not ended within {limit:?} of virtual time: {}", list(.waiting))]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// Who waits.
        waiting: Vec<Waiter>,
    },
    /// A process or service panicked.
    #[error("rank {rank}, {task}, panicked at {at:?}: {message}")]
    Panicked {
        /// Which process.
        rank: Rank,
        /// Its program or which of its services.
        task: String,
        /// When.
        at: Duration,
        /// What it said.
        message: String,
    },
    /// The model makes no network of so many nodes.
    #[error("{problem}")]
    Nodes {
        /// What is wrong with them.
        problem: String,
    },
    /// The system gives no more stacks.
    #[error("no stack for {task} of rank {rank}: {problem}; with very many, raise vm.max_map_count")]
    Stack {
        /// For which process.
        rank: Rank,
        /// Its program or which of its services.
        task: String,
        /// What the system said.
        problem: String,
    },
}

/// Who waits for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// Which process.
    pub rank: Rank,
    /// Its program or which of its services.
    pub task: String,
    /// For what.
    pub what: String,
    /// Since when.
    pub since: Time,
}

impl fmt::Display for Waiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = Duration::from_nanos(self.since.0);
        write!(formatter, "rank {} ({}) waits for {} since {since:?}", self.rank, self.task, self.what)
    }
}

/// The first few of them in words.
fn list(waiting: &[Waiter]) -> String {
    const SHOWN: usize = 16;
    let mut text: Vec<_> = waiting.iter().take(SHOWN).map(ToString::to_string).collect();
    if waiting.len() > SHOWN {
        text.push(format!("and {} more", waiting.len() - SHOWN));
    }
    text.join("; ")
}
