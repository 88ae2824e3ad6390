//! Reading and writing many pieces of a file as one access.
//!
//! Pieces in segments of this node go straight between the caller's memory and the mapping. Those on other nodes go
//! past the page cache where they are so many, or so far between, that whole pages would carry more than they are
//! worth.

mod elsewhere;
mod long_blocks;
mod reading;
mod writing;

use crate::blocks::Blocks;

pub use reading::StridedRead;
pub use writing::StridedWrite;

/// The first of `blocks`, cut at `at`.
fn halves(blocks: &Blocks, at: u64) -> (Blocks, Blocks) {
    let end = blocks.start + blocks.length;
    (Blocks::one(blocks.start, at - blocks.start), Blocks::one(at, end - at))
}
