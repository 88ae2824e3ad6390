//! Data of all to all: allgather.

use std::ops::Range;

use super::group::NetworkGroup;
use crate::collective::AllgatherAlgorithm;
use crate::executor::arguments::{check_count, check_length};
use crate::executor::blocks::{apart_mut, longest};
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
            let blocks: Vec<_> =
                (0..group.size()).map(|member| member * length..(member + 1) * length).collect();
            group.allgatherv(into, &blocks)
        })
    }

    /// All get all members' blocks: `blocks` says where in `data` each lies, the same everywhere; each member's own is
    /// there already.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length), also for blocks that lie over each other; the fabric's, for a
    /// lost member.
    pub fn allgatherv(&mut self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        self.attempt(|group| group.allgather_blocks(&mut apart_mut(data, blocks)?))
    }

    /// The same, where each block is memory by itself.
    ///
    /// # Errors
    /// As [`allgatherv`](Self::allgatherv).
    pub fn allgather_blocks(&mut self, blocks: &mut [&mut [u8]]) -> Result<()> {
        self.attempt(|group| {
            check_count(blocks.len(), group.size())?;
            if group.size() == 1 {
                return Ok(());
            }
            match group.settings.choices.allgather.unwrap_or_else(|| group.model().allgather(longest(blocks)))
            {
                AllgatherAlgorithm::Bruck => group.share_doubling(blocks),
                AllgatherAlgorithm::Ring => group.share_around(blocks),
            }
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

    /// Each has the blocks of the members from itself on, as many as its distance to the next whom it gets more from.
    fn share_doubling(&self, blocks: &mut [&mut [u8]]) -> Result<()> {
        let size = self.size();
        let member = |place: usize| (self.own + place) % size;
        let mut held = blocks[self.own].to_vec();
        let mut distance = 1;
        while distance < size {
            let count = distance.min(size - distance);
            let sent = (0..count).map(|place| blocks[member(place)].len()).sum();
            let received = (distance..distance + count).map(|place| blocks[member(place)].len()).sum();
            let (after, before) = self.neighbours(distance);
            let mut more = vec![0; received];
            self.exchange(before, &held[..sent], after, &mut more)?;
            held.append(&mut more);
            distance *= 2;
        }
        let mut rest = held.as_slice();
        for place in 0..size {
            let block = &mut *blocks[member(place)];
            let (bytes, behind) = rest.split_at(block.len());
            block.copy_from_slice(bytes);
            rest = behind;
        }
        Ok(())
    }

    /// Each block goes around.
    pub(super) fn share_around(&self, blocks: &mut [&mut [u8]]) -> Result<()> {
        let size = self.size();
        let (after, before) = self.neighbours(1);
        let mut coming = vec![0; longest(blocks)];
        for round in 0..size - 1 {
            let sent = &*blocks[(self.own + size - round) % size];
            let received = (self.own + 2 * size - round - 1) % size;
            let coming = &mut coming[..blocks[received].len()];
            self.exchange(after, sent, before, coming)?;
            blocks[received].copy_from_slice(coming);
        }
        Ok(())
    }
}
