//! The pieces that data is divided into.

use std::ops::Range;

/// The piece of that number of a vector of `length` bytes divided into `parts`, between elements of `width` bytes, as
/// evenly as can be.
pub(super) fn share(length: usize, width: usize, parts: usize, part: usize) -> Range<usize> {
    let elements = length / width.max(1);
    width * (elements * part / parts)..width * (elements * (part + 1) / parts)
}
