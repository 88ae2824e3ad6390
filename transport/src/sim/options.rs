//! What a world is made of.

use std::sync::Arc;
use std::time::Duration;

use crate::sim::model::Model;
use crate::units::{Rank, Time};

/// What to simulate.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// How many processes there are.
    pub size: u32,
    /// How many of them share a node; the ranks of a node follow one another.
    pub ranks_per_node: u32,
    /// What things cost.
    pub model: Arc<Model>,
    /// What chance begins with: runs of equal seeds are equal.
    pub seed: u64,
    /// What goes wrong.
    pub faults: FaultOptions,
    /// After how much virtual time the run is given up.
    pub time_limit: Duration,
    /// Bytes of each process's and each service's stack; only what is touched takes memory.
    pub stack_size: usize,
}

impl SimOptions {
    /// `size` processes on as many nodes of `model`, without faults.
    #[must_use]
    pub fn new(size: u32, model: Arc<Model>) -> Self {
        Self {
            size,
            ranks_per_node: 1,
            model,
            seed: 0,
            faults: FaultOptions::default(),
            time_limit: Duration::from_secs(600),
            stack_size: 256 << 10,
        }
    }
}

/// What goes wrong. Only remote writes are dropped, delayed and repeated; engines of DMA, interrupts, reads and
/// atomics repeat by themselves what fails.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultOptions {
    /// The probability with which a transaction is lost; a sequence check tells.
    pub dropped: f64,
    /// The probability with which a transaction arrives later than others after it.
    pub late: f64,
    /// The probability with which a transaction arrives twice, the second time late.
    pub repeated: f64,
    /// How late, at most.
    pub late_by: Duration,
    /// Which processes die, and when.
    pub kill: Vec<(Rank, Time)>,
    /// Which processes hang, and when: they make no more progress, while what others write to them still arrives.
    pub hang: Vec<(Rank, Time)>,
    /// How long it takes until the others notice that a process died or hangs.
    pub detection: Duration,
}

impl FaultOptions {
    /// Whether writes may arrive in another order than that in which they were issued.
    pub(crate) fn reorder(&self) -> bool {
        self.late > 0.0 || self.repeated > 0.0
    }
}

impl Default for FaultOptions {
    fn default() -> Self {
        Self {
            dropped: 0.0,
            late: 0.0,
            repeated: 0.0,
            late_by: Duration::from_micros(50),
            kill: Vec::new(),
            hang: Vec::new(),
            detection: Duration::from_millis(10),
        }
    }
}
