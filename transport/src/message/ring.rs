//! Rings of packets in the receiver's memory.
//!
//! The writer's side and the reader's side share nothing but the ring's bytes. Every part carries its number: the
//! reader knows a part for new by that, in whatever order parts arrive, and never takes one that stands there from an
//! earlier round, or arrives once more, for a new one. What the reader has consumed comes back as credit.

mod mapped;
mod parts;
mod reader;
mod watch;
mod writer;

pub(super) use reader::{Found, Peek, Reader};
pub(super) use watch::Watch;
pub(super) use writer::{Along, Promises, Target, Writer};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
