//! Data of all to one, and of one to all, different for each: gather, scatter.

use std::ops::Range;

use super::group::NetworkGroup;
use super::memory::{Memory, Place, Region};
use crate::collective::{CollectAlgorithm, CollectiveAlgorithm, subtree};
use crate::executor::arguments::{check_count, check_length};
use crate::executor::blocks::{apart, apart_mut};
use crate::executor::error::Result;
use crate::rank::Rank;

impl NetworkGroup {
    /// `root` gets all members' `own`, which have the same length, one behind the other; elsewhere `into` is not used.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length),
    /// [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember); the fabric's, for a lost member.
    pub fn gather(&mut self, root: usize, own: &[u8], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            let length = own.len();
            if group.own == root {
                check_length("what is gathered", into.len(), length * group.size())?;
            }
            let chosen = group.settings.choices.gather;
            let algorithm = chosen.unwrap_or_else(|| group.model().collect(length));
            if group.own != root {
                return group.give_to(root, algorithm, own);
            }
            into[root * length..][..length].copy_from_slice(own);
            let place = |block: u64| Place::nth(0, block as usize, length);
            let part = group.part_of(&CollectiveAlgorithm::Gather { root: Rank(root as u32), algorithm });
            group.carry_out(&part, &mut Memory::of(vec![Region::Room(into)], &place))
        })
    }

    /// `root` gets all members' `own`, each into its block of `into`; elsewhere `into` and `blocks` are not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather); also for blocks that lie over each other.
    pub fn gatherv(
        &mut self,
        root: usize,
        own: &[u8],
        into: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<()> {
        self.attempt(|group| {
            let mut apart = if group.own == root { apart_mut(into, blocks)? } else { Vec::new() };
            group.gather_blocks(root, own, &mut apart)
        })
    }

    /// The same, where each block is memory by itself; elsewhere than at `root` there are none.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn gather_blocks(&mut self, root: usize, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            let algorithm = CollectAlgorithm::Linear;
            if group.own != root {
                return group.give_to(root, algorithm, own);
            }
            check_count(blocks.len(), group.size())?;
            check_length("the root's own block", blocks[root].len(), own.len())?;
            blocks[root].copy_from_slice(own);
            let lengths: Vec<usize> = blocks.iter().map(|block| block.len()).collect();
            let place = |block: u64| Place { region: block as usize, range: 0..lengths[block as usize] };
            let regions = blocks.iter_mut().map(|block| Region::Room(block)).collect();
            let part = group.part_of(&CollectiveAlgorithm::Gather { root: Rank(root as u32), algorithm });
            group.carry_out(&part, &mut Memory::of(regions, &place))
        })
    }

    /// A gather of equal blocks as a member that is not its root.
    fn give_to(&self, root: usize, algorithm: CollectAlgorithm, own: &[u8]) -> Result<()> {
        let part = self.part_of(&CollectiveAlgorithm::Gather { root: Rank(root as u32), algorithm });
        let length = own.len();
        let place = |block: u64| self.held(block, length);
        let held = if part.receives() {
            let mut held = vec![0; self.below(root) * length];
            held[..length].copy_from_slice(own);
            Region::Scratch(held)
        } else {
            Region::Given(own)
        };
        self.carry_out(&part, &mut Memory::of(vec![held], &place))
    }

    /// Where a member keeps the block of another one that passes through it by a binomial tree: those of its subtree
    /// behind its own, so that they are one message.
    fn held(&self, block: u64, length: usize) -> Place {
        let behind = (block as usize + self.size() - self.own) % self.size();
        Place::nth(0, behind, length)
    }

    /// How many members' blocks those are.
    fn below(&self, root: usize) -> usize {
        let place = (self.own + self.size() - root) % self.size();
        subtree(place as u32, self.size() as u32).len()
    }

    /// All get their part of `root`'s `data`, which lie one behind the other and are as long as `into`; elsewhere
    /// `data` is not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatter(&mut self, root: usize, data: &[u8], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            let length = into.len();
            if group.own == root {
                check_length("what is scattered", data.len(), length * group.size())?;
            }
            let chosen = group.settings.choices.scatter;
            let algorithm = chosen.unwrap_or_else(|| group.model().collect(length));
            if group.own != root {
                return group.take_from(root, algorithm, into);
            }
            into.copy_from_slice(&data[root * length..][..length]);
            let place = |block: u64| Place::nth(0, block as usize, length);
            let part = group.part_of(&CollectiveAlgorithm::Scatter { root: Rank(root as u32), algorithm });
            group.carry_out(&part, &mut Memory::of(vec![Region::Given(data)], &place))
        })
    }

    /// All get their block of `root`'s `data`, as long as `into`; elsewhere `data` and `blocks` are not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatterv(
        &mut self,
        root: usize,
        data: &[u8],
        blocks: &[Range<usize>],
        into: &mut [u8],
    ) -> Result<()> {
        self.attempt(|group| {
            let apart = if group.own == root { apart(data, blocks)? } else { Vec::new() };
            group.scatter_blocks(root, &apart, into)
        })
    }

    /// The same, where each block is memory by itself; elsewhere than at `root` there are none.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatter_blocks(&mut self, root: usize, blocks: &[&[u8]], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            let algorithm = CollectAlgorithm::Linear;
            if group.own != root {
                return group.take_from(root, algorithm, into);
            }
            check_count(blocks.len(), group.size())?;
            check_length("the root's own block", blocks[root].len(), into.len())?;
            into.copy_from_slice(blocks[root]);
            let place = |block: u64| Place { region: block as usize, range: 0..blocks[block as usize].len() };
            let regions = blocks.iter().map(|block| Region::Given(block)).collect();
            let part = group.part_of(&CollectiveAlgorithm::Scatter { root: Rank(root as u32), algorithm });
            group.carry_out(&part, &mut Memory::of(regions, &place))
        })
    }

    /// A scatter of equal blocks as a member that is not its root.
    fn take_from(&self, root: usize, algorithm: CollectAlgorithm, into: &mut [u8]) -> Result<()> {
        let part = self.part_of(&CollectiveAlgorithm::Scatter { root: Rank(root as u32), algorithm });
        let length = into.len();
        let place = |block: u64| self.held(block, length);
        if algorithm == CollectAlgorithm::Linear || self.below(root) == 1 {
            return self.carry_out(&part, &mut Memory::of(vec![Region::Room(into)], &place));
        }
        let held = Region::Scratch(vec![0; self.below(root) * length]);
        let mut memory = Memory::of(vec![held], &place);
        self.carry_out(&part, &mut memory)?;
        into.copy_from_slice(memory.at(&place(self.own as u64)));
        Ok(())
    }
}
