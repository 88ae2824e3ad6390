//! Something else of each to each: alltoall.

use std::ops::Range;

use super::group::NetworkGroup;
use super::memory::{Memory, Place, Region};
use crate::collective::{AlltoallAlgorithm, CollectiveAlgorithm};
use crate::executor::arguments::{check_count, check_length};
use crate::executor::blocks::{apart, apart_mut};
use crate::executor::error::Result;

impl NetworkGroup {
    /// Each gets from each: part `i` of `data` goes to member `i`, and into part `j` comes what member `j` has for this
    /// one. All parts are equally long.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length); the fabric's, for a lost member.
    pub fn alltoall(&mut self, data: &[u8], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            let length = data.len() / group.size();
            check_length("what is sent", data.len(), length * group.size())?;
            check_length("what is received", into.len(), data.len())?;
            let chosen = group.settings.choices.alltoall;
            let algorithm = chosen.unwrap_or_else(|| group.model().alltoall(length));
            let (own, size) = (group.own, group.size());
            into[own * length..][..length].copy_from_slice(&data[own * length..][..length]);
            // By whose a block is, and whom it is for; what only passes through, by how far that is.
            let place = |block: u64| {
                let (from, to) = (block as usize / size, block as usize % size);
                let (region, at) = match (from == own, to == own) {
                    (true, _) => (0, to),
                    (false, true) => (1, from),
                    (false, false) => (2, (to + size - from) % size),
                };
                Place::nth(region, at, length)
            };
            let passing = if algorithm == AlltoallAlgorithm::Bruck { data.len() } else { 0 };
            let regions = vec![Region::Given(data), Region::Room(into), Region::Scratch(vec![0; passing])];
            let part = group.part_of(&CollectiveAlgorithm::Alltoall(algorithm));
            group.carry_out(&part, &mut Memory::of(regions, &place))
        })
    }

    /// Each gets from each: block `i` of `data`, by `sent`, goes to member `i`; into block `j` of `into`, by
    /// `received`, comes what member `j` has for this one.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length), also for blocks of `received` that lie over each other; the
    /// fabric's, for a lost member.
    pub fn alltoallv(
        &mut self,
        data: &[u8],
        sent: &[Range<usize>],
        into: &mut [u8],
        received: &[Range<usize>],
    ) -> Result<()> {
        self.attempt(|group| group.alltoall_blocks(&apart(data, sent)?, &mut apart_mut(into, received)?))
    }

    /// The same, where each block is memory by itself.
    ///
    /// # Errors
    /// As [`alltoallv`](Self::alltoallv).
    pub fn alltoall_blocks(&mut self, sent: &[&[u8]], received: &mut [&mut [u8]]) -> Result<()> {
        self.attempt(|group| {
            check_count(sent.len(), group.size())?;
            check_count(received.len(), group.size())?;
            check_length("what a member sends to itself", sent[group.own].len(), received[group.own].len())?;
            let (own, size) = (group.own, group.size());
            received[own].copy_from_slice(sent[own]);
            let lengths: Vec<usize> = sent
                .iter()
                .map(|block| block.len())
                .chain(received.iter().map(|block| block.len()))
                .collect();
            // What is sent, by whom it is for, and behind that what is received, by whose it is.
            let place = |block: u64| {
                let (from, to) = (block as usize / size, block as usize % size);
                let region = if from == own { to } else { size + from };
                Place { region, range: 0..lengths[region] }
            };
            let given = sent.iter().map(|block| Region::Given(block));
            let regions = given.chain(received.iter_mut().map(|block| Region::Room(block))).collect();
            let part = group.part_of(&CollectiveAlgorithm::Alltoall(AlltoallAlgorithm::Pairwise));
            group.carry_out(&part, &mut Memory::of(regions, &place))
        })
    }
}
