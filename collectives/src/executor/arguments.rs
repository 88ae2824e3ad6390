//! What is checked of the arguments of a collective, whoever carries it out.

use std::ops::Range;

use super::error::{Error, Result};
use super::operation::Operation;

/// That a buffer has the length that it must have.
#[inline]
pub(crate) fn check_length(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::Length { what, expected, found }) }
}

/// That there is such a member in a group of `size`.
pub(crate) fn check_member(member: usize, size: usize) -> Result<()> {
    if member < size { Ok(()) } else { Err(Error::NoSuchMember { member, size }) }
}

/// That there is a block for each of `size` members.
pub(crate) fn check_count(blocks: usize, size: usize) -> Result<()> {
    check_length("the list of blocks", blocks, size)
}

/// That none of the blocks reaches beyond a buffer of `length` bytes.
pub(crate) fn check_within(blocks: &[Range<usize>], length: usize) -> Result<()> {
    blocks.iter().try_for_each(|block| {
        let end = block.end.max(block.start);
        check_length("a buffer with a block beyond its end", length, length.max(end))
    })
}

/// That a member other than the root of a reduction only gives.
pub(crate) fn check_is_not_root(member: usize, root: usize) -> Result<()> {
    if member == root { Err(Error::IsRoot { member }) } else { Ok(()) }
}

/// That only the first member gets nothing of those before it.
pub(crate) fn check_is_first(member: usize) -> Result<()> {
    if member == 0 { Ok(()) } else { Err(Error::NotFirst { member }) }
}

/// That a vector has whole elements.
#[inline]
pub(crate) fn check_elements(length: usize, operation: &dyn Operation) -> Result<()> {
    check_length("a vector of elements", length, length.next_multiple_of(operation.width().max(1)))
}
