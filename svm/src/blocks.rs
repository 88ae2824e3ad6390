//! Blocks of bytes at equal distances, and copying them.

use svmio_transport::copy_bytes;

/// `count` blocks of `length` bytes each in a file, one every `stride` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// Where the first one begins, bytes.
    pub start: u64,
    /// Bytes of each, at least one.
    pub length: u64,
    /// From one's beginning to the next one's, bytes. Blocks may overlap where they are only read.
    pub stride: u64,
    /// How many there are, at least one.
    pub count: u64,
}

impl Blocks {
    /// A single block.
    pub fn one(start: u64, length: u64) -> Blocks {
        Blocks { start, length, stride: length, count: 1 }
    }

    /// How many bytes they have together.
    pub fn bytes(&self) -> u64 {
        self.length * self.count
    }

    /// Where the last one ends.
    pub fn end(&self) -> u64 {
        self.start + self.stride * (self.count - 1) + self.length
    }

    /// How many of them, from the first on, end at or before `limit`.
    pub(crate) fn whole_before(&self, limit: u64) -> u64 {
        let room = limit.saturating_sub(self.start);
        match self.stride {
            _ if room < self.length => 0,
            0 => self.count,
            stride => ((room - self.length) / stride + 1).min(self.count),
        }
    }

    /// The first `count` of them.
    pub(crate) fn first(&self, count: u64) -> Blocks {
        Blocks { count, ..*self }
    }

    /// Those behind the first `count`.
    pub(crate) fn behind(&self, count: u64) -> Blocks {
        Blocks { start: self.start + self.stride * count, count: self.count - count, ..*self }
    }

    /// All of these and of `next`, if they are one row.
    pub(crate) fn joined(&self, next: &Blocks) -> Option<Blocks> {
        let stride = match self.count {
            1 => next.start.checked_sub(self.start)?,
            _ => self.stride,
        };
        let goes_on = stride >= self.length
            && next.length == self.length
            && next.start == self.start + stride * self.count
            && (next.count == 1 || next.stride == stride);
        goes_on.then(|| Blocks { stride, count: self.count + next.count, ..*self })
    }

    /// The same, counted from `origin`, at or behind which they begin.
    pub(crate) fn within(&self, origin: u64) -> Blocks {
        Blocks { start: self.start - origin, ..*self }
    }
}

/// Copies `count` blocks of `length` bytes, which are `from_stride` bytes from each other, to places that are
/// `to_stride` bytes from each other.
///
/// # Safety
/// All blocks at `from` are valid for reads, all at `to` for writes, and no block at `from` overlaps one at `to`.
pub(crate) unsafe fn copy(
    (to, to_stride): (*mut u8, isize),
    (from, from_stride): (*const u8, isize),
    length: usize,
    count: usize,
) {
    /// Blocks of a length that the compiler knows become a few instructions each.
    ///
    /// # Safety
    /// That of [`copy`].
    #[inline(always)]
    unsafe fn of_length<const LENGTH: usize>(
        (mut to, to_stride): (*mut u8, isize),
        (mut from, from_stride): (*const u8, isize),
        count: usize,
    ) {
        for _ in 0..count {
            // SAFETY: the caller vouches for each block; an array of bytes needs no alignment.
            unsafe {
                to.cast::<[u8; LENGTH]>().write_unaligned(from.cast::<[u8; LENGTH]>().read_unaligned())
            };
            // What lies behind the last block is not looked at.
            (to, from) = (to.wrapping_offset(to_stride), from.wrapping_offset(from_stride));
        }
    }

    let (at, source) = ((to, to_stride), (from, from_stride));
    // SAFETY: the caller's promise.
    unsafe {
        match length {
            1 => of_length::<1>(at, source, count),
            2 => of_length::<2>(at, source, count),
            4 => of_length::<4>(at, source, count),
            8 => of_length::<8>(at, source, count),
            12 => of_length::<12>(at, source, count),
            16 => of_length::<16>(at, source, count),
            24 => of_length::<24>(at, source, count),
            32 => of_length::<32>(at, source, count),
            40 => of_length::<40>(at, source, count),
            64 => of_length::<64>(at, source, count),
            _ => {
                for number in 0..count as isize {
                    let to = to.wrapping_offset(to_stride.wrapping_mul(number));
                    let from = from.wrapping_offset(from_stride.wrapping_mul(number));
                    copy_bytes(from, to, length);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn blocks() -> impl Strategy<Value = Blocks> {
        (0u64..50, 1u64..20, 0u64..40, 1u64..20).prop_map(|(start, length, stride, count)| Blocks {
            start,
            length,
            stride,
            count,
        })
    }

    proptest! {
        #[test]
        fn parts_are_the_whole(blocks in blocks(), limit in 0u64..800) {
            let starts = |blocks: &Blocks| -> Vec<u64> {
                (0..blocks.count).map(|number| blocks.start + number * blocks.stride).collect()
            };
            let whole = blocks.whole_before(limit);
            let expected = starts(&blocks).iter().filter(|start| **start + blocks.length <= limit).count();
            prop_assert_eq!(whole, expected as u64);
            let mut parts = starts(&blocks.first(whole));
            parts.extend(starts(&blocks.behind(whole)));
            prop_assert_eq!(parts, starts(&blocks));
        }

        #[test]
        fn rows_are_joined(blocks in blocks(), cuts in (0u64..20, 0u64..20), off in 0u64..2) {
            let blocks = Blocks { stride: blocks.stride.max(blocks.length), ..blocks };
            let (first, behind) = (cuts.0 % blocks.count, cuts.1 % blocks.count);
            prop_assume!(first > 0);
            let (head, tail) = (blocks.first(first), blocks.behind(first));
            prop_assert_eq!(head.joined(&tail).map(|row| (row.start, row.end(), row.count)), Some((blocks.start, blocks.end(), blocks.count)));
            let shifted = Blocks { start: tail.start + off, ..tail };
            let is_row = off == 0 || first == 1 && tail.count == 1;
            prop_assert_eq!(head.joined(&shifted).is_some(), is_row);
            prop_assert_eq!(head.joined(&blocks.behind(behind)).is_some(), behind == first || head.count == 1 && behind > 0 && blocks.behind(behind).count == 1);
        }

        #[test]
        fn blocks_are_copied(length in prop_oneof![1usize..70, 500..600usize], count in 0usize..9, gaps in (0usize..9, 0usize..9), backwards: bool) {
            let (to_step, from_step) = (length + gaps.0, length + gaps.1);
            let from: Vec<u8> = (0..from_step * 9).map(|at| (at % 251) as u8 + 1).collect();
            let mut to = vec![0; to_step * 9];
            let mut expected = to.clone();
            for number in 0..count {
                let source = if backwards { 8 - number } else { number };
                let bytes = &from[source * from_step..][..length];
                expected[number * to_step..][..length].copy_from_slice(bytes);
            }
            let first = if backwards { 8 * from_step } else { 0 };
            let stride = if backwards { -(from_step as isize) } else { from_step as isize };
            // SAFETY: both vectors have nine blocks of their strides.
            unsafe {
                let source = (from.as_ptr().add(first), stride);
                copy((to.as_mut_ptr(), to_step as isize), source, length, count);
            }
            prop_assert_eq!(to, expected);
        }
    }
}
