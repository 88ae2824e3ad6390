//! A simulated fabric: virtual time, chance by seed, thousands of nodes in one process.
//!
//! ```text
//!   World      runs a body per rank as coroutines on one thread; what came of it is a SimReport   (world, fiber)
//!     │
//!   adapter    the contract of back ends: calls that wait switch to others, calls that don't add
//!     │        to the caller's own clock                              (adapter, waits, service, shared, stores)
//!   state      processes, tasks, pairs; packets and engines change them as events come (state, traffic, engine)
//!     ├── Agenda    events by time                                                     (agenda)
//!     ├── Network   topology, links, contention: usable alone, without coroutines      (network, routes)
//!     ├── Model     what things cost: TOML files                                       (model, quantities)
//!     └── faults    what is dropped, late, repeated; who dies or hangs                 (faults, losses)
//! ```
//!
//! Each coroutine has a processor to itself. A call that does not wait takes effect at the caller's own time, which
//! may be ahead of the world's; when the caller next waits, computes or sleeps, the world catches up. So a process
//! that polls without ever waiting stands still in time, and so does the world: poll with `wait_until`, or compute
//! between. A copy of some microseconds counts as a call that waits: hold no lock meanwhile but one whose waiters wait
//! by `wait_until`.
//!
//! Remote segments are never mapped, since stores through a mapping could neither cost time nor be lost; between
//! processes of one node, writes cost what copies cost.

mod adapter;
mod agenda;
mod engine;
mod faults;
mod fiber;
pub mod figures;
mod losses;
mod memory;
pub mod model;
mod network;
mod options;
mod quantities;
mod report;
mod routes;
mod service;
mod shared;
mod state;
mod stores;
mod traffic;
mod waits;
mod world;

pub use agenda::Agenda;
pub use model::Model;
pub use network::{Flight, LinkId, LinkUse, Network, Next, Node};
pub use options::{FaultOptions, SimOptions};
pub use quantities::{Bandwidth, BlockSize, CopyCurve, Count, Delay};
pub use report::{FaultCounts, RankReport, SimError, SimReport, Waiter};
pub use world::World;
