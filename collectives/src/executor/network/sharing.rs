//! Data of all to all: allgather.

use std::ops::Range;

use super::costs::AllgatherAlgorithm;
use super::exchange::check_length;
use super::group::NetworkGroup;
use crate::executor::error::Result;

impl NetworkGroup {
    /// All get all members' `own`, which have the same length, one behind the other.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length); the fabric's, for a lost member.
    pub fn allgather(&mut self, own: &[u8], into: &mut [u8]) -> Result<()> {
        let length = own.len();
        check_length("what is gathered", into.len(), length * self.size())?;
        into[self.own * length..][..length].copy_from_slice(own);
        let blocks: Vec<_> = (0..self.size()).map(|member| member * length..(member + 1) * length).collect();
        self.share_blocks(into, &blocks)
    }

    /// All get all members' blocks: `blocks` says where in `data` each lies, the same everywhere; each member's own is
    /// there already.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length); the fabric's, for a lost member.
    pub fn allgatherv(&mut self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        self.check_blocks(blocks, data.len())?;
        self.share_blocks(data, blocks)
    }

    fn share_blocks(&self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        let longest = blocks.iter().map(Range::len).max().unwrap_or(0);
        match self.settings.choices.allgather.unwrap_or_else(|| self.model().allgather(longest)) {
            AllgatherAlgorithm::Bruck => self.share_doubling(data, blocks),
            AllgatherAlgorithm::Ring => self.share_around(data, blocks),
        }
    }

    /// Each has the blocks of the members from itself on, as many as its distance to the next whom it gets more from.
    fn share_doubling(&self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        let size = self.size();
        let block = |place: usize| blocks[(self.own + place) % size].clone();
        let mut held = data[block(0)].to_vec();
        let mut distance = 1;
        while distance < size {
            let count = distance.min(size - distance);
            let sent = (0..count).map(|place| block(place).len()).sum();
            let received: usize = (distance..distance + count).map(|place| block(place).len()).sum();
            let (after, before) = self.neighbours(distance);
            let mut more = vec![0; received];
            self.exchange(before, &held[..sent], after, &mut more)?;
            held.append(&mut more);
            distance *= 2;
        }
        let mut at = 0;
        for place in 0..size {
            let block = block(place);
            let length = block.len();
            data[block].copy_from_slice(&held[at..][..length]);
            at += length;
        }
        Ok(())
    }

    /// Each block goes around.
    pub(super) fn share_around(&self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        let size = self.size();
        let (after, before) = self.neighbours(1);
        let longest = blocks.iter().map(Range::len).max().unwrap_or(0);
        let mut coming = vec![0; longest];
        for round in 0..size - 1 {
            let sent = blocks[(self.own + size - round) % size].clone();
            let received = blocks[(self.own + 2 * size - round - 1) % size].clone();
            let coming = &mut coming[..received.len()];
            self.exchange(after, &data[sent], before, coming)?;
            data[received].copy_from_slice(coming);
        }
        Ok(())
    }
}
