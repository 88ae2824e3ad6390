//! The proof that a schedule is a barrier.

use crate::schedule::{Schedule, Step};

/// So many words of each rank's knowledge are looked at in one go: what all ranks know of some of them fits the cache.
const WORDS: usize = 8;

/// What a rank knows of the ranks of a block: a bit for each that has arrived.
type Known = [u64; WORDS];

const BLOCK: usize = WORDS * u64::BITS as usize;

impl Schedule {
    /// Whether no rank leaves before all have come.
    ///
    /// Each rank knows of its own arrival; with each signal the sender's knowledge from before the step goes to the
    /// receiver. (J. C. Meyer and A. C. Elster, "Optimized Barriers for Heterogeneous Systems Using MPI", equation 3:
    /// *K* += *K* *S* for the matrix of each step.) It is a barrier if at the end each knows of all. The cost is the
    /// number of signals times that of ranks, 64 at a time.
    #[must_use]
    pub fn is_barrier(&self) -> bool {
        let ranks = self.ranks() as usize;
        // Whom nobody signals, knows of nobody else. This needs no memory for each rank: a file may claim any number.
        if ranks > 1 && self.signals() < ranks {
            return false;
        }
        // Who has arrived is a column of the matrix, and columns do not depend on one another: a block of them at a
        // time.
        let (mut known, mut scratch) = (vec![Known::default(); ranks], Vec::new());
        (0..ranks).step_by(BLOCK).all(|first| {
            let block = first..ranks.min(first + BLOCK);
            let mut all = Known::default();
            known.fill(Known::default());
            for (bit, own) in known[block].iter_mut().enumerate() {
                set(own, bit);
                set(&mut all, bit);
            }
            for step in self.steps() {
                take(step, &mut known, &mut scratch);
            }
            known.iter().all(|known| *known == all)
        })
    }
}

/// What all know after a step, from what they knew before.
fn take(step: &Step, known: &mut [Known], scratch: &mut Vec<Known>) {
    scratch.clear();
    scratch.extend(step.receivers().map(|(receiver, senders)| {
        let mut row = known[receiver.index()];
        for sender in senders {
            row.iter_mut().zip(&known[sender.index()]).for_each(|(word, more)| *word |= more);
        }
        row
    }));
    for ((receiver, _), row) in step.receivers().zip(scratch.iter()) {
        known[receiver.index()] = *row;
    }
}

fn set(known: &mut Known, bit: usize) {
    known[bit / 64] |= 1 << (bit % 64);
}
