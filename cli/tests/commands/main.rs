//! The subcommands that look at a store and carry files: the real program, real stores, real damage.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

mod access;
mod command_line;
mod copying;
mod damage;
mod listing;
mod mapping;
mod property;
mod removing;
mod setting;
