//! An emulated controller: shared memory for the lines, and a thread or process that is the controller.
//!
//! ```text
//!   DIRECTORY/controller     who holds its lock is the only controller of the directory
//!   DIRECTORY/lines          the memory: locked by the controller for as long as it is there     (memory)
//!     ├── bell                 where the controller sleeps
//!     └── circuit …            for which group; a line out and a line in per node, each in a cache line of its own
//!           └── wire, bell       a level, and where a node sleeps                                (wire)
//!   DIRECTORY/circuit-N      locked by all nodes of the group that has this circuit              (circuits)
//! ```
//!
//! Locks are the kernel's (`flock`), so whatever ends a process ends what it held: a controller that was killed is
//! found to be gone, and the circuit of a group that was killed is free. The number of the group's claim stands in
//! every wire beside its level: what a node or a controller still drives for a group that is no more has no effect.

mod circuits;
mod controller;
mod memory;
mod wire;

#[cfg(all(test, loom))]
mod loom_tests;

pub use circuits::{EmulatedLines, Ticket};
pub use controller::{Emulator, RunningEmulator};

/// How many circuits an emulated controller may have.
pub const MOST_CIRCUITS: usize = 1024;

/// The files of a controller.
mod files {
    pub(super) const CONTROLLER: &str = "controller";
    pub(super) const LINES: &str = "lines";

    pub(super) fn circuit(number: usize) -> String {
        format!("circuit-{number}")
    }
}
