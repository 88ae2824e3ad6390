//! Messages between members, and the pieces that data is divided into.

use std::ops::Range;

use super::group::NetworkGroup;
use crate::executor::arguments::{self, check_length};
use crate::executor::error::Result;
use crate::executor::operation::Operation;

/// A vector of `length` bytes divided into `parts`, between elements of `width` bytes, as evenly as can be.
pub(super) fn shares(length: usize, width: usize, parts: usize) -> Vec<Range<usize>> {
    let elements = length / width.max(1);
    (0..parts)
        .map(|part| width * (elements * part / parts)..width * (elements * (part + 1) / parts))
        .collect()
}

/// From the beginning of the first to the end of the last.
pub(super) fn spanned(blocks: &[Range<usize>]) -> Range<usize> {
    match (blocks.first(), blocks.last()) {
        (Some(first), Some(last)) => first.start..last.end,
        _ => 0..0,
    }
}

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

    /// The member so many places after this one, and the one so many before.
    pub(super) fn neighbours(&self, distance: usize) -> (usize, usize) {
        let size = self.size();
        ((self.own + distance) % size, (self.own + size - distance % size) % size)
    }

    /// This member's place counted from `root`, and which member has a place counted so.
    pub(super) fn counted_from(&self, root: usize) -> (usize, impl Fn(usize) -> usize + use<>) {
        let size = self.size();
        ((self.own + size - root) % size, move |place| (place + root) % size)
    }

    pub(super) fn check_member(&self, member: usize) -> Result<()> {
        arguments::check_member(member, self.size())
    }
}

/// Combines two neighbouring parts into `own`: `own` is the left one where `own_is_left`. `other` is used up.
pub(super) fn combine(operation: &dyn Operation, own: &mut [u8], other: &mut [u8], own_is_left: bool) {
    if own_is_left {
        operation.combine(own, other);
        own.copy_from_slice(other);
    } else {
        operation.combine(other, own);
    }
}
