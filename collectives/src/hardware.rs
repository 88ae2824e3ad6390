//! The hardware barrier: one line out and one line in per node, and a controller that watches all of them.
//!
//! ```text
//!   Barrier        toggles its line out, waits until its line in has toggled                   (barrier)
//!     │  Node        that as steps                                                             (machine)
//!     ▼
//!   Lines          a node's end of the two lines                                               (lines)
//!     ├── emulated   shared memory, and an Emulator: a thread or process that is the controller
//!     │     └── Controller   the two states, as steps                                          (machine)
//!     └── port       Linux's parallel port: data lines out, status lines in
//!           ├── Ppdev        /dev/parportN, for whoever may open it
//!           └── PortAccess   /dev/port, for root
//!   trial          whether a controller answers as one should, before anybody relies on it     (trial)
//! ```
//!
//! After T. Hoefler, J. M. Squyres, T. Mehlan, F. Mietke and W. Rehm, "Implementing a Hardware-Based Barrier in Open
//! MPI", section 2. The controller drives all lines in to one level. When all lines out have the other level, it
//! changes over to that. So the whole machine has two states, a barrier is one change of state, and nothing has to be
//! reset. Up to [`MOST_NODES`] nodes take part.
//!
//! Beyond the paper, which has one barrier for all nodes, there are several *circuits*: a line out and a line in per
//! node, and two states, for each group by itself. An emulated controller has as many as it was made with, a parallel
//! port five, as that is how many status lines it has. And nobody has to be root.
//!
//! ```
//! use std::thread;
//! use svmio_collectives::hardware::{Barrier, Emulator, EmulatedLines, Error};
//!
//! let directory = tempfile::tempdir()?;
//! let controller = Emulator::create(directory.path(), 2)?.spawn()?;
//! let claimed = EmulatedLines::claim(directory.path(), 3)?;
//! let ticket = claimed.ticket();
//! thread::scope(|scope| {
//!     for node in 1..3 {
//!         let directory = directory.path();
//!         scope.spawn(move || {
//!             let lines = EmulatedLines::attach(directory, ticket, node)?;
//!             Barrier::new(Box::new(lines), 3).wait(|| Ok::<(), Error>(()))
//!         });
//!     }
//!     Barrier::new(Box::new(claimed), 3).wait(|| Ok::<(), Error>(()))
//! })?;
//! controller.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod barrier;
mod emulated;
mod error;
mod lines;
mod machine;
mod port;
mod trial;

pub use barrier::Barrier;
pub use emulated::{EmulatedLines, Emulator, MOST_CIRCUITS, RunningEmulator, Ticket};
pub use error::{Error, Result};
pub use lines::Lines;
pub use machine::{Controller, ControllerStep, Level, Node, NodeStep, settled};
pub use port::{Port, PortAccess, PortLines, Ppdev, Registers};
pub use trial::{Trial, trial};

/// How many nodes a controller has lines for: as many as the paper's.
pub const MOST_NODES: usize = 60;
