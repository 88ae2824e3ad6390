//! Data of all, combined: reduce, allreduce, reduce_scatter.

use std::ops::Range;

use super::group::NetworkGroup;
use super::memory::{Memory, Place, Region};
use super::shares::share;
use crate::collective::{
    AllreduceAlgorithm, CollectiveAlgorithm, Operands, ReduceAlgorithm, ReduceScatterAlgorithm,
};
use crate::executor::arguments::{check_elements, check_is_not_root, check_length};
use crate::executor::error::Result;
use crate::executor::operation::Operation;
use crate::rank::Rank;

impl NetworkGroup {
    /// `data` becomes, for all, all members' `data` combined in the order of members.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length) where it is no whole number of elements; the fabric's, for a
    /// lost member.
    pub fn allreduce(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            check_elements(data.len(), operation)?;
            let commutes = operation.is_commutative();
            let chosen = match group.settings.choices.allreduce {
                Some(AllreduceAlgorithm::Ring) if !commutes => None,
                chosen => chosen,
            };
            let algorithm = chosen.unwrap_or_else(|| group.model().allreduce(data.len(), commutes));
            let length = data.len();
            group.combine_vectors(
                &CollectiveAlgorithm::Allreduce(algorithm),
                length,
                Region::Room(data),
                operation,
            )
        })
    }

    /// `data` becomes, at `root`, all members' `data` combined in the order of members; elsewhere it stays.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce); [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember).
    pub fn reduce(&mut self, root: usize, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            if group.own != root {
                return group.reduce_to(root, data, operation);
            }
            check_elements(data.len(), operation)?;
            let reduce = group.reduce_algorithm(root, data.len(), operation);
            let length = data.len();
            group.combine_vectors(&reduce, length, Region::Room(data), operation)
        })
    }

    /// [`reduce`](Self::reduce) as a member other than its root, which only reads.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce); [`Error::IsRoot`](crate::executor::Error::IsRoot).
    pub fn reduce_to(&mut self, root: usize, data: &[u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            check_is_not_root(group.own, root)?;
            check_elements(data.len(), operation)?;
            let reduce = group.reduce_algorithm(root, data.len(), operation);
            group.combine_vectors(&reduce, data.len(), Region::Given(data), operation)
        })
    }

    fn reduce_algorithm(&self, root: usize, length: usize, operation: &dyn Operation) -> CollectiveAlgorithm {
        let algorithm: ReduceAlgorithm =
            self.settings.choices.reduce.unwrap_or_else(|| self.model().reduce(length));
        let operands = if operation.is_commutative() { Operands::Commuting } else { Operands::Ordered };
        CollectiveAlgorithm::Reduce { root: Rank(root as u32), algorithm, operands }
    }

    /// Combines vectors of `length` bytes, which all blocks together are.
    fn combine_vectors(
        &self,
        algorithm: &CollectiveAlgorithm,
        length: usize,
        data: Region<'_>,
        operation: &dyn Operation,
    ) -> Result<()> {
        let (width, blocks) = (operation.width(), algorithm.blocks(self.size() as u32) as usize);
        let place = |block: u64| Place { region: 0, range: share(length, width, blocks, block as usize) };
        let part = self.part_of(algorithm);
        let data = match data {
            // What comes is combined elsewhere.
            Region::Given(data) if part.receives() => Region::Scratch(data.to_vec()),
            data => data,
        };
        self.combine(&part, &mut Memory::of(vec![data], &place), operation)
    }

    /// All members' `data` combined in the order of members and divided among them: member `i` gets `counts[i]` bytes,
    /// behind those of the members before. `counts` are the same everywhere.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce).
    pub fn reduce_scatter(
        &mut self,
        data: &[u8],
        counts: &[usize],
        into: &mut [u8],
        operation: &dyn Operation,
    ) -> Result<()> {
        self.attempt(|group| {
            check_length("the list of counts", counts.len(), group.size())?;
            check_length("what is combined", data.len(), counts.iter().sum())?;
            check_length("what is received", into.len(), counts[group.own])?;
            counts.iter().try_for_each(|&count| check_elements(count, operation))?;
            let mut end = 0;
            let block = |count: &usize| {
                end += count;
                end - count..end
            };
            let blocks: Vec<Range<usize>> = counts.iter().map(block).collect();
            let own = &data[blocks[group.own].clone()];
            let chosen = group.settings.choices.reduce_scatter;
            match chosen.unwrap_or_else(|| group.model().reduce_scatter(data.len())) {
                ReduceScatterAlgorithm::Allreduce => {
                    let mut all = data.to_vec();
                    group.allreduce(&mut all, operation)?;
                    into.copy_from_slice(&all[blocks[group.own].clone()]);
                    Ok(())
                }
                ReduceScatterAlgorithm::Pairwise => {
                    let length = own.len();
                    into.copy_from_slice(own);
                    // The members' parts; of the own one, what members up to this one have, and what later ones have.
                    let place = |block: u64| match block as usize {
                        block if block == group.own => Place { region: 1, range: 0..length },
                        block if block == group.size() => Place { region: 2, range: 0..length },
                        block => Place { region: 0, range: blocks[block].clone() },
                    };
                    let later = Region::Scratch(vec![0; length]);
                    let regions = vec![Region::Given(data), Region::Room(into), later];
                    let part = group.part_of(&CollectiveAlgorithm::ReduceScatter);
                    group.combine(&part, &mut Memory::of(regions, &place), operation)
                }
            }
        })
    }
}
