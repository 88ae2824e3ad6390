//! `svmio run` with real MPI programs under both families' real launchers.
//!
//! The preload library is an empty shared object here: these tests are about the launch. The yield library
//! is the real one, built by cargo on the first use.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

mod choice;
mod errors;
mod process;
mod ranks;
mod setting;
mod waiting;
