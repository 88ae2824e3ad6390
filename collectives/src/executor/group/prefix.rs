//! What the members before a member have, combined: scan, exscan.

use super::Group;
use crate::executor::arguments;
use crate::executor::error::Result;
use crate::executor::operation::Operation;

impl Group {
    /// `data` becomes the `data` of the members up to this one, combined in their order.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce).
    pub fn scan(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        let mut left = Vec::new();
        self.prefix(data, operation, &mut left, |left, own| operation.combine(left, own))
    }

    /// `data` becomes the `data` of the members before this one, combined in their order; the first member's stays.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce).
    pub fn exscan(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        if self.own == 0 {
            return self.exscan_from(data, operation);
        }
        let mut left = Vec::new();
        self.prefix(data, operation, &mut left, |left, own| own.copy_from_slice(left))
    }

    /// [`exscan`](Self::exscan) as its first member, which only gives.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce); [`Error::NotFirst`](crate::executor::Error::NotFirst).
    pub fn exscan_from(&mut self, data: &[u8], operation: &dyn Operation) -> Result<()> {
        self.tell(arguments::check_is_first(self.own))?;
        self.check_elements(data.len(), operation)?;
        for piece in data.chunks(self.piece(operation)) {
            let number = self.begin()?;
            self.put(number, piece)?;
            self.finish(number);
            self.leave();
        }
        Ok(())
    }

    /// Gives `end` what the members before this one have, combined, and this member's own.
    fn prefix(
        &mut self,
        data: &mut [u8],
        operation: &dyn Operation,
        left: &mut Vec<u8>,
        end: impl Fn(&[u8], &mut [u8]),
    ) -> Result<()> {
        self.check_elements(data.len(), operation)?;
        let size = self.piece(operation);
        let mut right = vec![0; size.min(data.len())];
        for piece in data.chunks_mut(size) {
            let number = self.begin()?;
            self.put(number, piece)?;
            for member in 0..self.own {
                self.await_member(member, number)?;
                let right = &mut right[..piece.len()];
                self.take(member, number, right)?;
                if member > 0 {
                    operation.combine(left, right);
                }
                left.clear();
                left.extend_from_slice(right);
            }
            if self.own > 0 {
                end(left, piece);
            }
            self.finish(number);
            self.leave();
        }
        Ok(())
    }
}
