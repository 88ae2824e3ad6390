//! Messages between members.

use super::group::NetworkGroup;
use crate::executor::arguments::{self, check_length};
use crate::executor::error::Result;

impl NetworkGroup {
    /// Sends to a member; returns when the bytes may be changed.
    pub(super) fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        self.messages.send(to, bytes)
    }

    /// Receives what a member sends, of that length.
    pub(super) fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        let length = self.messages.receive(from, into)?;
        check_length("a member's message", length, into.len())
    }

    /// Sends to one and receives from another, or the same, side by side.
    pub(super) fn exchange(&self, to: usize, bytes: &[u8], from: usize, into: &mut [u8]) -> Result<()> {
        let expected = into.len();
        let length = self.messages.exchange(to, bytes, from, into)?;
        check_length("a member's message", length, expected)
    }

    pub(super) fn check_member(&self, member: usize) -> Result<()> {
        arguments::check_member(member, self.size())
    }
}
