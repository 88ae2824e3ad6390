//! What will be written next, as far as one write tells.

use std::ops::Range;

/// What is likely to be written soon where `bytes` bytes within `bounds` are now, of a file of `size` bytes. Where an
/// eighth of all is, others will often write what is between. And what has grown to some size bit by bit will often
/// grow by as much again. (That is for whoever gives pages storage: one page or two ahead of what is written.)
pub(super) fn likely(bounds: &Range<u64>, bytes: u64, size: u64) -> Range<u64> {
    const DENSE: u64 = 8;
    /// Bytes: small files are to take no more storage than they need.
    const LEAST: u64 = 1 << 20;
    let length = bounds.end - bounds.start;
    if bytes < length / DENSE {
        return 0..0;
    }
    // Others may have been faster with their parts of the same.
    let is_at_end = bounds.end.saturating_add(length) >= size;
    let before = bounds.start.min(size);
    let growth = if is_at_end && before >= LEAST { before } else { 0 };
    bounds.start..bounds.end.saturating_add(growth)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_grows_is_likely_to_go_on() {
        assert_eq!(likely(&(8 * MIB..9 * MIB), MIB, 8 * MIB), 8 * MIB..17 * MIB);
        // Another one has written his part of the same already.
        assert_eq!(likely(&(8 * MIB..9 * MIB), MIB / 2, 9 * MIB), 8 * MIB..17 * MIB);
        let rest = 0..9 * MIB;
        assert_eq!(likely(&rest, 9 * MIB, 0), rest, "all of it at once");
        assert_eq!(likely(&rest, 9 * MIB, 9 * MIB), rest, "the same again");
        assert_eq!(likely(&(MIB..2 * MIB), MIB, 9 * MIB), MIB..2 * MIB, "within what there is");
        assert_eq!(likely(&(80 * MIB..81 * MIB), MIB, 4 * MIB), 80 * MIB..85 * MIB, "behind a hole");
        assert_eq!(likely(&(MIB / 2..MIB), MIB / 2, MIB / 2), MIB / 2..MIB, "a small file");
        assert_eq!(likely(&(8 * MIB..16 * MIB), MIB / 2, 8 * MIB), 0..0, "with large gaps");
    }
}
