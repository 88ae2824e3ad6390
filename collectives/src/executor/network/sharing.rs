//! Data of all to all: allgather.

use std::ops::Range;

use super::group::NetworkGroup;
use super::memory::{Memory, Place, Region};
use crate::collective::CollectiveAlgorithm;
use crate::executor::arguments::{check_count, check_length};
use crate::executor::blocks::{apart_mut, longest, whole};
use crate::executor::error::Result;

impl NetworkGroup {
    /// All get all members' `own`, which have the same length, one behind the other.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length); the fabric's, for a lost member.
    pub fn allgather(&mut self, own: &[u8], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            let length = own.len();
            check_length("what is gathered", into.len(), length * group.size())?;
            into[group.own * length..][..length].copy_from_slice(own);
            let place = |block: u64| Place::nth(0, block as usize, length);
            group.share(length, &mut Memory::of(vec![Region::Room(into)], &place))
        })
    }

    /// All get all members' blocks: `blocks` says where in `data` each lies, the same everywhere; each member's own is
    /// there already.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length), also for blocks that lie over each other; the fabric's, for a
    /// lost member.
    pub fn allgatherv(&mut self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        self.attempt(|group| {
            check_count(blocks.len(), group.size())?;
            let longest = longest(&apart_mut(data, blocks)?);
            let place = |block: u64| Place { region: 0, range: whole(&blocks[block as usize]) };
            group.share(longest, &mut Memory::of(vec![Region::Room(data)], &place))
        })
    }

    /// The same, where each block is memory by itself.
    ///
    /// # Errors
    /// As [`allgatherv`](Self::allgatherv).
    pub fn allgather_blocks(&mut self, blocks: &mut [&mut [u8]]) -> Result<()> {
        self.attempt(|group| {
            check_count(blocks.len(), group.size())?;
            let longest = longest(blocks);
            let lengths: Vec<usize> = blocks.iter().map(|block| block.len()).collect();
            let place = |block: u64| Place { region: block as usize, range: 0..lengths[block as usize] };
            let regions = blocks.iter_mut().map(|block| Region::Room(block)).collect();
            group.share(longest, &mut Memory::of(regions, &place))
        })
    }

    /// The same, where each member's own is what it gives: `own`.
    ///
    /// # Errors
    /// As [`allgatherv`](Self::allgatherv).
    pub fn allgather_blocks_from(&mut self, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<()> {
        self.attempt(|group| {
            check_count(blocks.len(), group.size())?;
            check_length("what a member gives to all", own.len(), blocks[group.own].len())?;
            blocks[group.own].copy_from_slice(own);
            group.allgather_blocks(blocks)
        })
    }

    /// Has all get all blocks, of which the longest has so many bytes.
    fn share(&self, longest: usize, memory: &mut Memory<'_>) -> Result<()> {
        let algorithm = self.settings.choices.allgather.unwrap_or_else(|| self.model().allgather(longest));
        self.carry_out(&self.part_of(&CollectiveAlgorithm::Allgather(algorithm)), memory)
    }
}
