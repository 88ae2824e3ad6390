//! The subcommands that look at a store and carry files, and those of the fabric: the real program, real stores,
//! real damage, real jobs.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

mod access;
mod barrier;
mod benchmarks;
mod command_line;
mod copying;
mod damage;
mod ending;
mod fabric;
mod hosts;
mod limits;
mod listing;
mod lost_hosts;
mod mapping;
mod mounting;
mod moving;
mod property;
mod removing;
mod setting;
mod several_stores;
mod staging;
mod store;
mod tuning;
mod wrapped;
