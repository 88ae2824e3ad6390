//! What every fabric promises, checked on whichever fabric is given: the suite of the fabric's face.
//!
//! ```text
//!   every rank of a job of two or more:   run  ──►  the same cases, one after the other
//!                                         end  ──►  losses and closing, from which no fabric comes back
//!
//!   Participant   one rank in a case: its fabric, and the meeting of all ranks, by remote writes only
//! ```
//!
//! A case learns what the fabric can do from its capabilities, and expects exactly that: what it offers must work,
//! what it does not offer must be refused. All waiting is done by the fabric, so time may be virtual.
//! A case that fails panics.

mod atomics;
mod dma;
mod end;
mod inquiries;
mod interrupts;
mod participant;
mod refusals;
mod registered;
mod segments;
mod sequences;
#[cfg(test)]
mod tests;
mod threads;
mod transactions;
mod waits;
mod writes;

use std::time::Duration;

use svmio_transport::{Fabric, Time};

pub use end::end;
pub use participant::Participant;

/// One thing that a fabric promises.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What it is about.
    pub name: &'static str,
    /// Checks it; called by all ranks.
    pub check: fn(&Participant),
}

/// All of them, in the order in which they run.
pub const CASES: &[Case] = &[
    Case { name: "ids of segments", check: segments::ids },
    Case { name: "segments on demand", check: segments::on_demand },
    Case { name: "segments of files", check: segments::of_files },
    Case { name: "direct mapping", check: segments::direct_mapping },
    Case { name: "shortage of memory", check: segments::shortage },
    Case { name: "writes against an oracle", check: writes::against_an_oracle },
    Case { name: "large writes", check: writes::large },
    Case { name: "writes to oneself", check: writes::to_oneself },
    Case { name: "bounds", check: writes::bounds },
    Case { name: "store barriers", check: sequences::store_barriers },
    Case { name: "sequence checks", check: sequences::checks },
    Case { name: "whole transactions", check: transactions::arrive_whole },
    Case { name: "DMA chains", check: dma::chains },
    Case { name: "DMA chains to two peers", check: dma::two_peers },
    Case { name: "DMA, many in flight", check: dma::many_in_flight },
    Case { name: "DMA, ends of transfers", check: dma::ends },
    Case { name: "DMA reads", check: dma::reads },
    Case { name: "DMA beyond bounds", check: dma::bounds },
    Case { name: "remote reads", check: dma::remote_reads },
    Case { name: "registered user memory", check: registered::user_memory },
    Case { name: "counts of interrupts", check: interrupts::counts },
    Case { name: "interrupts tell of writes", check: interrupts::tell_of_writes },
    Case { name: "interrupts with writes", check: interrupts::come_with_writes },
    Case { name: "callbacks of interrupts", check: interrupts::callbacks },
    Case { name: "deadlines of interrupts", check: interrupts::deadlines },
    Case { name: "waiters sleep", check: waits::sleep },
    Case { name: "deadlines of waits", check: waits::deadlines },
    Case { name: "rings", check: waits::rings },
    Case { name: "waiters that attend an interrupt", check: waits::attending },
    Case { name: "wakes within the process", check: waits::wakes },
    Case { name: "fetch and add", check: atomics::fetch_and_add },
    Case { name: "locks by compare and swap", check: atomics::locks },
    Case { name: "atomics refused", check: atomics::refusals },
    Case { name: "ranks that do not exist", check: refusals::no_such_rank },
    Case { name: "several threads", check: threads::at_once },
    Case { name: "statistics", check: refusals::statistics },
    Case { name: "inquiries", check: inquiries::answered },
];

/// Runs all cases; called by every rank, before anything else is done with the fabric. `gather` waits for all other
/// ranks by other means than the fabric; where time is virtual it may let a second pass instead, and where the job
/// waits for all by itself, do nothing as long as what this returns is kept until then.
///
/// # Panics
/// Where the fabric does not keep a promise.
pub fn run(fabric: &Fabric, gather: impl Fn()) -> Participant {
    assert!(fabric.size() > 1, "the suite needs two ranks or more");
    let first = segments::nothing_is_connected_before_it_is_used(fabric);
    let participant = Participant::new(fabric, 0);
    participant.meet();
    drop(first);
    for case in CASES {
        participant.check(case);
    }
    // Who has seen all others come to the last meeting may still have to answer them.
    gather();
    participant
}

/// How long anything may take before it counts as hanging; long, since machines are loaded.
const LIMIT: Duration = Duration::from_secs(60);

/// When what begins now counts as hanging.
fn limit(fabric: &Fabric) -> Time {
    fabric.now().after(LIMIT)
}
