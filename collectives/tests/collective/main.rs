//! Collective schedules: that each constructor makes its collective, what is predicted, and what is simulated.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod algorithms;
mod mutations;

mod proof;
mod simulation;
mod trial;
