//! What the members before a member have, combined: scan, exscan.

use super::group::NetworkGroup;
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
            if let Some(before) = group.before(data, operation)? {
                operation.combine(&before, data);
            }
            Ok(())
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
            if let Some(before) = group.before(data, operation)? {
                data.copy_from_slice(&before);
            }
            Ok(())
        })
    }

    /// [`exscan`](Self::exscan) as its first member, which only gives.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce); [`Error::NotFirst`](crate::executor::Error::NotFirst).
    pub fn exscan_from(&mut self, data: &[u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            check_is_first(group.own)?;
            group.before(data, operation).map(|_| ())
        })
    }

    /// What the members before this one have, combined. In each round each knows of twice as many up to itself, and
    /// tells the one that many further.
    fn before(&self, data: &[u8], operation: &dyn Operation) -> Result<Option<Vec<u8>>> {
        check_elements(data.len(), operation)?;
        let (size, own) = (self.size(), self.own);
        // Up to this one, of the last `distance` members.
        let mut known = data.to_vec();
        let mut before: Option<Vec<u8>> = None;
        let mut distance = 1;
        while distance < size {
            let mut coming = vec![0; data.len()];
            match (own >= distance, own + distance < size) {
                (true, true) => self.exchange(own + distance, &known, own - distance, &mut coming)?,
                (true, false) => self.receive(own - distance, &mut coming)?,
                (false, true) => self.send(own + distance, &known)?,
                (false, false) => {}
            }
            if own >= distance {
                operation.combine(&coming, &mut known);
                // What comes lies before all that is known of before.
                before = Some(match before {
                    None => coming,
                    Some(mut later) => {
                        operation.combine(&coming, &mut later);
                        later
                    }
                });
            }
            distance *= 2;
        }
        Ok(before)
    }
}
