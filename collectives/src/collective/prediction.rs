//! What a collective will cost, by what messages cost.

use super::costs::MessageCosts;
use super::schedule::CollectiveSchedule;
use super::transfer::Transfer;
use crate::prediction::Prediction;
use crate::rank::Rank;
use crate::schedule::Signal;

impl CollectiveSchedule {
    /// Predicts what it costs where each block has so many bytes, by critical path.
    ///
    /// Who gives a message is busy with it until it arrives, and may get one at the same time. Of several that one rank
    /// gives side by side, or gets at the same time, each adds its bytes and a part of α. Combining, which is about the
    /// same for all algorithms, costs nothing here; what is moved within memory is copied.
    #[must_use]
    pub fn predict(&self, costs: &MessageCosts, block_bytes: f64) -> Prediction {
        let ranks = self.ranks() as usize;
        let mut progress = Progress {
            times: vec![0.0; ranks],
            received: vec![f64::NEG_INFINITY; ranks],
            last: vec![None; ranks],
            causes: Vec::new(),
        };
        for (number, step) in self.steps().iter().enumerate() {
            progress.take(number, step, costs, block_bytes);
        }
        progress.into_prediction()
    }
}

/// How far ranks are in time, and why.
struct Progress {
    times: Vec<f64>,
    /// When each rank's last message was in.
    received: Vec<f64>,
    /// For each rank, which of `causes` it last waited for.
    last: Vec<Option<usize>>,
    /// A message that somebody waited for, and which one its sender had waited for.
    causes: Vec<(Option<usize>, usize, Signal)>,
}

/// A message that arrives.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    signal: Signal,
    time: f64,
    /// What it adds where it comes with others.
    further: f64,
    /// For which of the causes its sender had waited.
    cause: Option<usize>,
}

impl Progress {
    fn take(&mut self, number: usize, step: &[Transfer], costs: &MessageCosts, block_bytes: f64) {
        let mut arrivals = Vec::new();
        // When each sender's messages so far will have left; all of a step leave from what was before it.
        let mut sent: Vec<(Rank, f64)> = Vec::new();
        for transfer in step {
            let (from, bytes) = (transfer.from, transfer.blocks.len() as f64 * block_bytes);
            let before = self.times[from.index()];
            if transfer.is_local() {
                sent.push((from, before + costs.copy(bytes)));
                continue;
            }
            let time = match sent.last() {
                Some(&(last, time)) if last == from => time + costs.further_message(bytes),
                _ => before + costs.message(bytes),
            };
            sent.push((from, time));
            let signal = Signal { from, to: transfer.to };
            let (further, cause) = (costs.further_message(bytes), self.last[from.index()]);
            arrivals.push(Arrival { signal, time, further, cause });
        }
        for (from, time) in sent {
            self.times[from.index()] = time;
        }
        self.receive(number, arrivals);
    }

    fn receive(&mut self, number: usize, mut arrivals: Vec<Arrival>) {
        arrivals.sort_by(|one, other| {
            (one.signal.to.cmp(&other.signal.to)).then(one.time.total_cmp(&other.time))
        });
        for Arrival { signal, time, further, cause } in arrivals {
            let to = signal.to.index();
            let received = time.max(self.received[to] + further);
            self.received[to] = received;
            if self.times[to] < received {
                self.times[to] = received;
                self.last[to] = Some(self.causes.len());
                self.causes.push((cause, number, signal));
            }
        }
    }

    fn into_prediction(self) -> Prediction {
        Prediction::of(self.times, &self.last, &self.causes)
    }
}
