//! Blocks of bytes, one for each member: evenly in one buffer, or each by itself.

use std::ops::Range;

use svmio_transport::copy_part;

use super::arguments::check_within;
use super::error::{Error, Result};

/// Blocks that are read.
pub(super) trait Given {
    /// That of a member.
    fn of(&self, member: usize) -> &[u8];
}

/// Blocks that are filled.
pub(super) trait Room {
    /// That of a member.
    fn of(&mut self, member: usize) -> &mut [u8];
}

/// Blocks of one length, one behind the other.
#[derive(Debug)]
pub(super) struct Row<B> {
    pub(super) bytes: B,
    pub(super) length: usize,
}

impl Given for Row<&[u8]> {
    #[inline]
    fn of(&self, member: usize) -> &[u8] {
        &self.bytes[member * self.length..][..self.length]
    }
}

impl Room for Row<&mut [u8]> {
    #[inline]
    fn of(&mut self, member: usize) -> &mut [u8] {
        &mut self.bytes[member * self.length..][..self.length]
    }
}

impl Given for [&[u8]] {
    fn of(&self, member: usize) -> &[u8] {
        self[member]
    }
}

impl Room for [&mut [u8]] {
    fn of(&mut self, member: usize) -> &mut [u8] {
        self[member]
    }
}

/// The piece of that number of a block in pieces of `size` bytes; empty behind the end.
pub(super) fn part(block: Range<usize>, piece: usize, size: usize) -> Range<usize> {
    let start = block.end.min(block.start + piece * size);
    start..block.end.min(start + size)
}

/// The same of a block by itself.
#[inline]
pub(super) fn piece_of(block: &[u8], piece: usize, size: usize) -> &[u8] {
    &block[part(0..block.len(), piece, size)]
}

/// The same of one that is filled.
#[inline]
pub(super) fn room_of(block: &mut [u8], piece: usize, size: usize) -> &mut [u8] {
    let range = part(0..block.len(), piece, size);
    &mut block[range]
}

/// Copies a block, or a piece of one, to where there is as much room, as a part of `whole` bytes that come together.
pub(super) fn copy(block: &[u8], room: &mut [u8], whole: usize) {
    assert_eq!(block.len(), room.len(), "who asks for it has checked that");
    // SAFETY: both are as long as each other, and apart, since the room is nobody else's.
    unsafe { copy_part(block.as_ptr(), room.as_mut_ptr(), room.len(), whole) };
}

/// The bytes of the longest.
pub(super) fn longest<B: AsRef<[u8]>>(blocks: &[B]) -> usize {
    blocks.iter().map(|block| block.as_ref().len()).max().unwrap_or(0)
}

/// Blocks of `data`, which may lie over each other.
///
/// # Errors
/// [`Error::Length`] where one is not within it.
pub(crate) fn apart<'b>(data: &'b [u8], ranges: &[Range<usize>]) -> Result<Vec<&'b [u8]>> {
    check_within(ranges, data.len())?;
    Ok(ranges.iter().map(|range| &data[whole(range)]).collect())
}

/// Blocks of `data`, to be filled.
///
/// # Errors
/// [`Error::Length`] where one is not within it, or reaches into another.
pub(crate) fn apart_mut<'b>(mut data: &'b mut [u8], ranges: &[Range<usize>]) -> Result<Vec<&'b mut [u8]>> {
    check_within(ranges, data.len())?;
    let mut order: Vec<usize> = (0..ranges.len()).filter(|&at| !whole(&ranges[at]).is_empty()).collect();
    order.sort_by_key(|&at| ranges[at].start);
    let mut blocks: Vec<&mut [u8]> = ranges.iter().map(|_| Default::default()).collect();
    let mut passed = 0;
    for at in order {
        let range = ranges[at].clone();
        let Some(gap) = range.start.checked_sub(passed) else {
            let (what, expected) = ("the space before a block that is filled", passed);
            return Err(Error::Length { what, expected, found: range.start });
        };
        let (block, rest) = data[gap..].split_at_mut(range.len());
        (blocks[at], data, passed) = (block, rest, range.end);
    }
    Ok(blocks)
}

/// A range of a block; one that ends before it begins is empty.
pub(super) fn whole(range: &Range<usize>) -> Range<usize> {
    range.start.min(range.end)..range.end
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::{apart, apart_mut, part};

    #[test]
    fn blocks_that_are_filled_do_not_reach_into_each_other() {
        let mut data: Vec<u8> = (0..10).collect();
        assert_eq!(apart(&data, &[4..7, 0..6]).unwrap(), [&[4, 5, 6][..], &[0, 1, 2, 3, 4, 5]]);
        assert!(apart(&data, &[0..1, 4..11]).is_err());
        assert!(apart_mut(&mut data, &[4..7, 0..5]).is_err());
        assert!(apart_mut(&mut data, &[0..1, 4..11]).is_err());
        // One without bytes is nowhere.
        assert_eq!(apart_mut(&mut data, &[3..8, 5..5]).unwrap()[0], [3, 4, 5, 6, 7]);
    }

    proptest! {
        #[test]
        fn blocks_are_where_their_ranges_say(
            lengths in prop::collection::vec((0_usize..4, 0_usize..4), 0..8),
            turn in 0_usize..8,
        ) {
            let mut end = 0;
            let mut ranges = Vec::new();
            for (gap, length) in lengths {
                ranges.push(end + gap..end + gap + length);
                end += gap + length;
            }
            if !ranges.is_empty() {
                let turn = turn % ranges.len();
                ranges.rotate_left(turn);
            }
            let mut data: Vec<u8> = (0..end as u8).collect();
            let expected: Vec<Vec<u8>> = ranges.iter().map(|range| data[range.clone()].to_vec()).collect();
            prop_assert_eq!(&apart(&data, &ranges).unwrap(), &expected);
            prop_assert_eq!(&apart_mut(&mut data, &ranges).unwrap(), &expected);
        }
    }

    #[test]
    fn pieces_make_up_a_block() {
        let pieces: Vec<_> = (0..4).map(|piece| part(3..13, piece, 4)).collect();
        assert_eq!(pieces, [3..7, 7..11, 11..13, 13..13]);
    }
}
