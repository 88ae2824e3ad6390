//! Data from one to all: bcast.

use super::group::NetworkGroup;
use super::memory::{Memory, Place, Region};
use super::shares::share;
use crate::collective::{BcastAlgorithm, CollectiveAlgorithm};
use crate::executor::blocks::part;
use crate::executor::error::Result;
use crate::rank::Rank;

impl NetworkGroup {
    /// All get `root`'s `data`, which has the same length everywhere.
    ///
    /// # Errors
    /// [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember); the fabric's, for a lost member.
    pub fn bcast(&mut self, root: usize, data: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            group.spread(root, data.len(), Region::Room(data))
        })
    }

    /// [`bcast`](Self::bcast) as its root, which is this member, and only reads.
    ///
    /// # Errors
    /// As [`bcast`](Self::bcast).
    pub fn bcast_from(&mut self, data: &[u8]) -> Result<()> {
        self.attempt(|group| group.spread(group.own, data.len(), Region::Given(data)))
    }

    fn spread(&self, root: usize, length: usize, data: Region<'_>) -> Result<()> {
        let algorithm = self.settings.choices.bcast.unwrap_or_else(|| self.model().bcast(length));
        // However long the data is, its segments are counted in a word.
        let (size, segment) = (self.size(), self.settings.segment.max(length >> 30));
        let place = |block: u64| {
            let range = match algorithm {
                BcastAlgorithm::Binomial => 0..length,
                BcastAlgorithm::Pipelined => part(0..length, block as usize, segment),
                BcastAlgorithm::ScatterAllgather => share(length, 1, size, block as usize),
            };
            Place { region: 0, range }
        };
        let segments = length.div_ceil(segment) as u32;
        let bcast = CollectiveAlgorithm::Bcast { root: Rank(root as u32), algorithm, segments };
        self.carry_out(&self.part_of(&bcast), &mut Memory::of(vec![data], &place))
    }
}
