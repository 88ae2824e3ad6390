//! svmio's files as memory, for C: what the functions of `svmio.h` do.
//!
//! ```text
//!   program ── svm_map, … ──► libsvmio ──► Functions ─┬─ job        the Session: who the others are
//!                              (library)              │    └ exchange   the function that a program gives
//!                                                     ├─ together   calls that all make: none waits for who refuses
//!                                                     ├─ files      open, read_at, write_at, sync
//!                                                     ├─ mappings   map, unmap, sync, barrier, advise, fetch
//!                                                     │    └ held    locks that C holds
//!                                                     └─ failure    every outcome is a number, with a text beside it
//! ```
//!
//! The names that C sees are those of the library: each function there calls the one of a table, [`Functions`]. In a
//! process that has svmio's preload library for MPI, it is the table of *that*: its MPI-IO and this face then share
//! clusters, and can have one file open at the same time.
//!
//! What C gives is checked: pointers for not being null, handles and addresses for being known, options for not saying
//! more than this release understands. A panic ends as [`SVM_ERR_INTERNAL`] and goes no further.
//!
//! This crate knows nothing of MPI: a program that has it gives a function by which its ranks tell each other bytes.

mod exchange;
mod failure;
mod files;
mod functions;
mod held;
mod job;
mod mappings;
mod together;
mod types;

pub use functions::{FUNCTIONS, Functions, NAME, RELEASE, beside_mpi};
pub use types::*;
