//! The simulated fabric through its public face.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod costs;
mod faults;
mod memory;
mod runs;
mod worlds;
