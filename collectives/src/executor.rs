//! Executing: barriers and collectives as they are done.
//!
//! ```text
//!   Barrier    any schedule, over any fabric: flags at whom they are for                   (barrier)
//!     └─ ground    the members' memory, and how signals go through it
//!   Group      collectives of processes on one machine, over what they share               (group)
//!     │  board     a line per member: numbered cards, who has finished, who sleeps         loom tests it
//!     │  slots     behind each line a ring of slots for data
//!     │  patience  polling, giving the core away, or sleeping: what this machine's state asks for
//!     └─ joining   a segment of each member, connected by all
//!   Machine    what signals cost between processes, for a profile: over the same ground      (measuring)
//! ```
//!
//! Flags are numbers that only grow, each with a single writer; nothing is reset between two operations.

mod barrier;
mod bed;
mod board;
mod error;
mod ground;
mod group;
mod joining;
mod measuring;
mod operation;
mod patience;
mod pinning;
mod slots;

pub use barrier::Barrier;
pub use error::{Error, Result};
pub use group::{Group, GroupSettings};
pub use measuring::Machine;
pub use operation::{Element, Elementwise, Operation};
pub use patience::PatienceSettings;
