//! What svmio promises, shown by real MPI programs on every MPI that it serves.
//!
//! ```text
//!   musts/NAME.rs       a promise: which programs are run with which MPI, and what must come of it
//!   programs/NAME.c     an MPI program that knows nothing of svmio; programs/support: what they share
//!
//!   Mpi ── compile ──► Program ── Job ──► svmio run -n N -- program    in a process group of its own,
//!                                            │                         with a time limit
//!   Installation ── bin/svmio, lib/… ────────┘
//!   Scratch      a store and files for one test, in memory, gone afterwards
//!   Installation::cat, verify: what `svmio cat` and `svmio verify` say of the store
//!
//!   Controller   `svmio barrier controller`, of which hardware barriers can be had
//!   MemoryProgram  compiled with `pkg-config`, run by `svmio start`: a program that maps files and has no MPI
//!   standing     where the processes of a job that does not end hang, told before they are killed
//!   Nodes        where a job's ranks run: one node, emulated ones, Hosts; and where their stores are
//!
//!   FabricJob ── starts ──► bin/fabric_process: a rank of a job that has to do with the fabric alone
//!   face         the suite of the fabric's face, for any fabric; ranks: the ranks of a job as threads
//!   Hosts        several hosts out of this machine: network, name, /dev/shm and boot id of their own
//! ```
//!
//! Nothing is replaced by a stand-in: stock MPIs, an installation as users have it, real files and processes.
//! What is missing makes a test fail and say what to do.

pub mod asking;
pub mod collectives;
pub mod controller;
pub mod fabric_job;
pub mod face;
pub mod hosts;
pub mod installation;
pub mod job;
mod launching;
mod leftovers;
pub mod memory_program;
pub mod mounts;
pub mod mpi;
pub mod nodes;
pub mod processes;
pub mod program;
pub mod random;
pub mod ranks;
pub mod report;
pub mod scratch;
mod standing;
pub mod statistics;
pub mod stock;

pub use asking::{is_full_run, ranks_tried};
pub use controller::Controller;
pub use fabric_job::{FabricJob, RunningFabricJob};
pub use hosts::{Hosts, Rate};
pub use installation::Installation;
pub use job::{Files, Finished, Job, Running};
pub use mpi::Mpi;
pub use nodes::Nodes;
pub use program::Program;
pub use random::Random;
pub use report::Reports;
pub use scratch::Scratch;
pub use statistics::requests;
pub use stock::Stock;
