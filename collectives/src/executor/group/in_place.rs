//! The operations whose data is where it has to be already, beside those that are in place anyway: bcast, allgatherv,
//! allreduce, reduce, scan, exscan.
//!
//! Members in place and others do the same operation: a root can gather in place from members that call
//! [`gather`](Group::gather).

use std::ops::Range;

use super::Group;
use super::direct::kept_after_errors;
use crate::executor::blocks::{Row, apart, apart_mut};
use crate::executor::error::Result;
use crate::executor::operation::Operation;

impl Group {
    /// As [`allgather`](Self::allgather); each member's own data is in its part of `data` already.
    ///
    /// # Errors
    /// As [`allgather`](Self::allgather).
    pub fn allgather_in_place(&mut self, data: &mut [u8]) -> Result<()> {
        let length = data.len() / self.size();
        self.check_length("what is gathered", data.len(), length * self.size())?;
        self.share(None, &mut Row { bytes: data, length }, length)
    }

    /// [`gather`](Self::gather) as its root, which is this member; its own data is in its part of `data` already.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn gather_in_place(&mut self, data: &mut [u8]) -> Result<()> {
        let length = data.len() / self.size();
        self.check_length("what is gathered", data.len(), length * self.size())?;
        self.gather_others(self.own, length, &[], data)
    }

    /// [`gatherv`](Self::gatherv) as its root, which is this member; its own data is in its block of `data` already.
    ///
    /// # Errors
    /// As [`gatherv`](Self::gatherv).
    pub fn gatherv_in_place(&mut self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        let mut apart = self.tell(apart_mut(data, blocks))?;
        self.gather_blocks_in_place(&mut apart)
    }

    /// The same, where each block is memory by itself.
    ///
    /// # Errors
    /// As [`gatherv`](Self::gatherv).
    pub fn gather_blocks_in_place(&mut self, blocks: &mut [&mut [u8]]) -> Result<()> {
        self.check_count(blocks.len())?;
        let length = blocks[self.own].len();
        self.gather_other_blocks(self.own, length, &[], blocks)
    }

    /// [`scatter`](Self::scatter) as its root, which is this member; its own part stays where it is.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    pub fn scatter_in_place(&mut self, data: &[u8]) -> Result<()> {
        let length = data.len() / self.size();
        self.check_length("what is scattered", data.len(), length * self.size())?;
        self.scatter_others(self.own, length, data, &mut [])
    }

    /// [`scatterv`](Self::scatterv) as its root, which is this member; its own block stays where it is.
    ///
    /// # Errors
    /// As [`scatterv`](Self::scatterv).
    pub fn scatterv_in_place(&mut self, data: &[u8], blocks: &[Range<usize>]) -> Result<()> {
        let apart = self.tell(apart(data, blocks))?;
        self.scatter_blocks_in_place(&apart)
    }

    /// The same, where each block is memory by itself.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    pub fn scatter_blocks_in_place(&mut self, blocks: &[&[u8]]) -> Result<()> {
        self.check_count(blocks.len())?;
        self.scatter_to_others(blocks)
    }

    /// As [`alltoall`](Self::alltoall); what comes from a member replaces what went to it. All members do it in place
    /// or none.
    ///
    /// # Errors
    /// As [`alltoall`](Self::alltoall).
    pub fn alltoall_in_place(&mut self, data: &mut [u8]) -> Result<()> {
        // Others may read this member's data after theirs has come.
        let sent = data.to_vec();
        let ended = self.alltoall(&sent, data);
        kept_after_errors(sent, ended).map(drop)
    }

    /// As [`alltoallv`](Self::alltoallv); what comes from a member replaces what went to it, which is as long. All
    /// members do it in place or none.
    ///
    /// # Errors
    /// As [`alltoallv`](Self::alltoallv).
    pub fn alltoallv_in_place(&mut self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        let sent = data.to_vec();
        let ended = self.alltoallv(&sent, blocks, data, blocks);
        kept_after_errors(sent, ended).map(drop)
    }

    /// As [`reduce_scatter`](Self::reduce_scatter); the first bytes of `data` become what this member gets, the others
    /// are undefined.
    ///
    /// # Errors
    /// As [`reduce_scatter`](Self::reduce_scatter).
    pub fn reduce_scatter_in_place(
        &mut self,
        data: &mut [u8],
        counts: &[usize],
        operation: &dyn Operation,
    ) -> Result<()> {
        self.check_length("the list of counts", counts.len(), self.size())?;
        let mut own = vec![0; counts[self.own]];
        self.reduce_scatter(data, counts, &mut own, operation)?;
        data[..own.len()].copy_from_slice(&own);
        Ok(())
    }
}
