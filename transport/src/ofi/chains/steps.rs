//! The steps of a chain.

use crate::dma::Direction;
use crate::memory::UserMemory;
use crate::ofi::sources::Source;
use crate::units::Rank;

/// One transfer.
pub(super) struct Step {
    pub(super) direction: Direction,
    pub(super) local: UserMemory,
    /// Of local memory, where a write begins there.
    pub(super) source: Source,
    pub(super) owner: Rank,
    pub(super) key: u64,
    pub(super) base: u64,
    /// Where in the remote memory.
    pub(super) offset: u64,
}
