//! Something else of each to each: alltoall.

use std::ops::Range;

use super::group::NetworkGroup;
use crate::collective::AlltoallAlgorithm;
use crate::executor::arguments::{check_count, check_length};
use crate::executor::blocks::{Given, Room, Row, apart, apart_mut};
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
            match group.settings.choices.alltoall.unwrap_or_else(|| group.model().alltoall(length)) {
                AlltoallAlgorithm::Bruck => group.trade_by_bits(data, into, length),
                AlltoallAlgorithm::Pairwise => {
                    group.trade_by_pairs(&Row { bytes: data, length }, &mut Row { bytes: into, length })
                }
            }
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
            group.trade_by_pairs(sent, received)
        })
    }

    pub(super) fn trade_by_pairs(
        &self,
        sent: &(impl Given + ?Sized),
        received: &mut (impl Room + ?Sized),
    ) -> Result<()> {
        received.of(self.own).copy_from_slice(sent.of(self.own));
        for distance in 1..self.size() {
            let (to, from) = self.neighbours(distance);
            self.exchange(to, sent.of(to), from, received.of(from))?;
        }
        Ok(())
    }

    /// A part whose way has a bit goes that far in that bit's round: so each takes ⌈log *p*⌉ messages at most.
    fn trade_by_bits(&self, data: &[u8], into: &mut [u8], length: usize) -> Result<()> {
        let size = self.size();
        // By how far they have to go.
        let mut parts = vec![0; data.len()];
        for way in 0..size {
            let (member, _) = self.neighbours(way);
            parts[way * length..][..length].copy_from_slice(&data[member * length..][..length]);
        }
        let mut distance = 1;
        while distance < size {
            let ways: Vec<usize> = (0..size).filter(|way| way & distance != 0).collect();
            let leaving: Vec<u8> =
                ways.iter().flat_map(|way| &parts[way * length..][..length]).copied().collect();
            let mut coming = vec![0; leaving.len()];
            let (after, before) = self.neighbours(distance);
            self.exchange(after, &leaving, before, &mut coming)?;
            for (at, way) in ways.into_iter().enumerate() {
                parts[way * length..][..length].copy_from_slice(&coming[at * length..][..length]);
            }
            distance *= 2;
        }
        for way in 0..size {
            let (_, member) = self.neighbours(way);
            into[member * length..][..length].copy_from_slice(&parts[way * length..][..length]);
        }
        Ok(())
    }
}
