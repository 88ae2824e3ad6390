//! Nodes that are lost, jobs that end in the middle, and what the others and the next job make of it.

mod crowded_cache;
mod interrupted;
#[path = "../job/mod.rs"]
mod job;
