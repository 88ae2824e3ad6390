//! The fabric: other processes' memory, written to as if it were one's own.
//!
//! ```text
//!   message   short │ eager │ rendezvous      order per pair, credits, a progress thread
//!      │
//!   Fabric    segments, remote writes, sequence checks, DMA, interrupts, atomics      (fabric)
//!      │
//!   BackEnd   the contract                                                            (back_end)
//!      ├── shm     same machine: stores are stores, interrupts are futexes, DMA is a thread
//!      ├── ofi     libfabric: whichever provider the machine has, tcp everywhere
//!      ├── sim     virtual time, thousands of nodes in one process, the papers' adapters as cost models
//!      └── faulty  any of them, with transfers dropped, delayed and repeated
//!
//!   job       start-up over TCP, addresses, watchdog, signals; Membership: who is there, who is lost
//!   settings  numbers and sizes of buffers, thresholds: file and environment
//!
//!   beneath   memory that is mapped, copied (mapping, copying), and slept on (futex); threads that serve beside the
//!             program (service_thread); what signals do (handlers); dma, callback: what goes on behind the program
//! ```
//!
//! A program holds a [`Fabric`]; what it can do, its [`Capabilities`] tell. A *segment* is memory that a process
//! exports under an id; others connect to it when they first need it, and write to it. Writing is the cheap direction.
//! Nothing here knows of MPI.
//!
//! ```
//! use svmio_transport::back_end::Backing;
//! use svmio_transport::{Rank, SegmentId, shm};
//!
//! // Two processes of a job; here as two threads would hold them. Programs get theirs from `job::Job`.
//! let [zero, one] = &shm::within_process(2)[..] else { unreachable!() };
//! let id = SegmentId::new(1, 0);
//! let exported = one.create(id, &Backing::Anonymous { length: 4096 })?;
//!
//! let remote = zero.connect(Rank(1), id)?;
//! zero.write_checked(Rank(1), || remote.write(100, b"straight there"))?;
//!
//! let mut bytes = [0; 14];
//! exported.memory().read(100, &mut bytes)?;
//! assert_eq!(&bytes, b"straight there");
//! # Ok::<(), svmio_transport::Error>(())
//! ```

pub mod back_end;
mod callback;
mod capabilities;
mod computing;
mod copying;
pub mod dma;
mod error;
mod fabric;
pub mod faulty;
pub mod futex;
mod handlers;
pub mod job;
mod mapping;
mod membership;
mod memory;
pub mod message;
pub mod ofi;
mod ports;
mod secret;
mod segment;
mod service_thread;
pub mod settings;
pub mod shm;
pub mod sim;
mod statistics;
mod stopwatch;
mod units;

pub use capabilities::{Atomics, Capabilities, Dma, WriteOrder};
pub use copying::{PAST_CACHES, StreamingStores, copy_bytes, copy_part, copy_past_caches};
pub use error::{Error, Result};
pub use fabric::Fabric;
pub use handlers::{end_by, has_default_action, register_ending};
pub use membership::{Membership, Subscription};
pub use memory::{SharedMemory, UserMemory};
pub use secret::{InvalidSecret, JobSecret};
pub use segment::{LocalSegment, Registration, RemoteSegment};
pub use service_thread::{run_with_helpers, spawn_service_thread};
pub use statistics::Statistics;
pub use units::{Interrupt, Rank, SegmentId, Time};
