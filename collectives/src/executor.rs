//! Executing: barriers and collectives as they are done.
//!
//! ```text
//!   Barrier    any schedule, over any fabric: flags at whom they are for                   (barrier)
//!     └─ ground    the members' memory, and how signals go through it
//!          └─ flags    words in mapped memory                                                   loom tests it
//!   Group      collectives of processes on one machine, over what they share               (group)
//!     │  board     a line per member: numbered cards, who has finished, who sleeps         loom tests it
//!     │  arguments  what is checked of them, whoever carries the operation out
//!     │  blocks    one for each member: evenly in one buffer, or each by itself
//!     │  slots     behind each line a ring of slots for data
//!     │  patience  polling, giving the core away, or sleeping: what this machine's state asks for
//!     │  cores     whether those who wait for each other have a core each
//!     │  coroutine  operations in the background pause where they would wait
//!     └─ joining   a segment of each member, connected by all
//!   network    members on several nodes: signals by two fabrics, collectives by messages and on two levels; all of it
//!              by a host library's send and receive, too, and by a thread in the background       (network)
//!   Machine    what signals cost between processes, for a profile: over the same ground      (measuring)
//!   TunedBarrier    a barrier that is measured in use, and changed for another where that pays     (retuning)
//! ```
//!
//! Three things can carry a barrier or collective:
//!
//! | | by | |
//! |---|---|---|
//! | the fabric | flags and messages | [`Barrier::join`], [`NetworkGroup::join`], [`TwoLevelGroup::join`] |
//! | a host library | its send and receive | [`PointToPoint`], [`NetworkGroup::over`] |
//! | a fabric that nobody has | virtual time | the first, over `svmio_transport::sim` |
//!
//! The second is how the SCI Collectives Library reached its host libraries (B. Bierbaum and others, "Evaluation of
//! Optimized Barrier Algorithms for SCI Networks with Different MPI Implementations", section 3.2).
//!
//! Flags are numbers that only grow, each with a single writer; nothing is reset between two operations.

pub(crate) mod arguments;
mod barrier;
mod bed;
pub(crate) mod blocks;
mod board;
mod cores;
mod coroutine;
mod error;
#[cfg(all(test, not(loom)))]
mod failing;
mod flags;
mod ground;
mod group;
mod joining;
mod measuring;
pub mod network;
mod operation;
mod patience;
mod pinning;
mod retuning;
mod slots;

pub use barrier::Barrier;
pub use error::{Error, Result};
pub use group::{Group, GroupSettings, LentMemory, Request};
pub(crate) use joining::place_of;
pub use measuring::Machine;
pub use network::{Fabrics, NetworkGroup, NetworkSettings, PointToPoint, TwoLevelGroup};
pub use operation::{Element, Elementwise, Operation};
pub use patience::PatienceSettings;
pub(crate) use patience::{NAP, Patience, Polled, with_meanwhile};
pub use retuning::{RetuningSettings, Retunings, TunedBarrier, Tuning};
