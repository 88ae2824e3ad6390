//! What is written, so that what arrives can be told from everything else, and from what was there before.

use super::bare::PAGE;

const WORD: usize = size_of::<u64>();

/// What a page of a file begins with that was written in this turn; never 0.
pub(super) fn word(page: u64, turn: u64) -> u64 {
    ((turn << 40) + page + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Has each page of some bytes begin with its word: those from page number `first` on.
pub(super) fn stamp(bytes: &mut [u8], first: u64, turn: u64) {
    for (page, bytes) in (first..).zip(bytes.chunks_mut(PAGE)) {
        bytes[..WORD].copy_from_slice(&word(page, turn).to_le_bytes());
    }
}

/// Looks whether each page begins so, of which `turn` tells in which turn it was written last.
///
/// # Panics
/// Where one does not.
pub(super) fn check(bytes: &[u8], first: u64, turn: impl Fn(u64) -> u64) {
    for (page, bytes) in (first..).zip(bytes.chunks(PAGE)) {
        let (found, turn) = (bytes.first_chunk().map(|word| u64::from_le_bytes(*word)), turn(page));
        assert!(found == Some(word(page, turn)), "page {page} is not as it was written in turn {turn}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_they_were_written_last() {
        let mut bytes = vec![0; 2 * PAGE + 1024];
        stamp(&mut bytes, 5, 1);
        check(&bytes, 5, |_| 1);
        stamp(&mut bytes[PAGE..2 * PAGE], 6, 2);
        check(&bytes, 5, |page| if page == 6 { 2 } else { 1 });
    }

    #[test]
    #[should_panic(expected = "page 6 is not as it was written in turn 2")]
    fn what_was_there_before_is_noticed() {
        let mut bytes = vec![0; 2 * PAGE];
        stamp(&mut bytes, 5, 1);
        stamp(&mut bytes[..PAGE], 5, 2);
        check(&bytes, 5, |_| 2);
    }

    #[test]
    #[should_panic(expected = "page 5 is not")]
    fn so_is_what_belongs_elsewhere() {
        let mut bytes = vec![0; PAGE];
        stamp(&mut bytes, 4, 1);
        check(&bytes, 5, |_| 1);
    }
}
