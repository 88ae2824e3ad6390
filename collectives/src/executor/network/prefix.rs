//! What the members before a member have, combined: scan, exscan.

use super::group::NetworkGroup;
use super::memory::{Memory, Place, Region};
use crate::collective::CollectiveAlgorithm;
use crate::executor::arguments::{check_elements, check_is_first};
use crate::executor::error::Result;
use crate::executor::operation::Operation;

impl NetworkGroup {
    /// `data` becomes the `data` of the members up to this one, combined in their order.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce).
    pub fn scan(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            check_elements(data.len(), operation)?;
            let length = data.len();
            let place = |_| Place { region: 0, range: 0..length };
            let part = group.part_of(&CollectiveAlgorithm::Scan);
            group.combine(&part, &mut Memory::of(vec![Region::Room(data)], &place), operation)
        })
    }

    /// `data` becomes the `data` of the members before this one, combined in their order; the first member's stays.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce).
    pub fn exscan(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            if group.own == 0 {
                return group.exscan_from(data, operation);
            }
            check_elements(data.len(), operation)?;
            let length = data.len();
            // What is known up to this member, what before it, which is the result, and what comes.
            let place = |block: u64| Place { region: block as usize, range: 0..length };
            let (known, coming) = (data.to_vec(), vec![0; length]);
            let regions = vec![Region::Scratch(known), Region::Room(data), Region::Scratch(coming)];
            let part = group.part_of(&CollectiveAlgorithm::Exscan);
            group.combine(&part, &mut Memory::of(regions, &place), operation)
        })
    }

    /// [`exscan`](Self::exscan) as its first member, which only gives.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce); [`Error::NotFirst`](crate::executor::Error::NotFirst).
    pub fn exscan_from(&mut self, data: &[u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            check_is_first(group.own)?;
            check_elements(data.len(), operation)?;
            let place = |_| Place { region: 0, range: 0..data.len() };
            let part = group.part_of(&CollectiveAlgorithm::Exscan);
            group.combine(&part, &mut Memory::of(vec![Region::Given(data)], &place), operation)
        })
    }
}
