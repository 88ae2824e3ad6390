//! Which bytes of a page are not those of its twin.

use std::ops::Range;

/// The runs of bytes that differ, ascending; none touches the next. Equal bytes between two runs are in neither:
/// another writer of the page may have changed them at home.
pub(super) fn runs(page: &[u8], twin: &[u8]) -> Vec<Range<usize>> {
    assert_eq!(page.len(), twin.len(), "a page and its twin");
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (number, (page, twin)) in page.chunks(BLOCK).zip(twin.chunks(BLOCK)).enumerate() {
        // Most blocks are equal.
        if page == twin {
            continue;
        }
        let (mut differs, mut at) = (differing(page, twin), number * BLOCK);
        while differs != 0 {
            let equal = differs.trailing_zeros() as usize;
            let changed = (differs >> equal).trailing_ones() as usize;
            let run = at + equal..at + equal + changed;
            match runs.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => runs.push(run),
            }
            at += equal + changed;
            // All of it was one run where this is the width.
            differs = differs.checked_shr((equal + changed) as u32).unwrap_or(0);
        }
    }
    runs
}

/// The runs of bytes that are in either, ascending; none touches the next.
pub(super) fn union(one: &[Range<usize>], other: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut all: Vec<_> = one.iter().chain(other).cloned().collect();
    all.sort_unstable_by_key(|run| run.start);
    let mut united: Vec<Range<usize>> = Vec::with_capacity(all.len());
    for run in all {
        match united.last_mut() {
            Some(last) if last.end >= run.start => last.end = last.end.max(run.end),
            _ => united.push(run),
        }
    }
    united
}

/// Bytes that are compared at once.
const BLOCK: usize = u64::BITS as usize;

/// A bit for each byte of two blocks, the lowest for the first, set where they differ.
fn differing(page: &[u8], twin: &[u8]) -> u64 {
    let (words, rest) = page.as_chunks::<8>();
    let (twin_words, twin_rest) = twin.as_chunks::<8>();
    let mut bits = 0;
    for (number, (word, twin)) in words.iter().zip(twin_words).enumerate() {
        bits |= nonzero_bytes(u64::from_le_bytes(*word) ^ u64::from_le_bytes(*twin)) << (8 * number);
    }
    for (number, (byte, twin)) in rest.iter().zip(twin_rest).enumerate() {
        bits |= u64::from(byte != twin) << (8 * words.len() + number);
    }
    bits
}

/// A bit for each byte of a word, set where it is not zero.
fn nonzero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // The highest bit of each byte that is not zero: no sum within a byte reaches the next one.
    let highest = (((word & LOW) + LOW) | word) & !LOW;
    // Each of these bits meets the highest byte once, and no two meet in one place.
    (highest >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_those_that_a_look_at_each_byte_finds(
            bytes in prop::collection::vec((0u8..3, 0u8..3), 0..300), dense in any::<bool>(),
        ) {
            let twin: Vec<u8> = bytes.iter().map(|(_, twin)| twin.wrapping_mul(128)).collect();
            let differ = |(byte, twin): &(u8, u8)| if dense { *byte == 0 && *twin == 0 } else { byte == twin };
            let changed = |(pair, twin): (&(u8, u8), &u8)| if differ(pair) { *twin } else { twin ^ 1 << pair.0 };
            let page: Vec<u8> = bytes.iter().zip(&twin).map(changed).collect();
            let mut expected: Vec<Range<usize>> = Vec::new();
            for at in (0..page.len()).filter(|at| page[*at] != twin[*at]) {
                match expected.last_mut() {
                    Some(last) if last.end == at => last.end += 1,
                    _ => expected.push(at..at + 1),
                }
            }
            prop_assert_eq!(runs(&page, &twin), expected);
        }

        #[test]
        fn applied_to_the_twin_the_difference_makes_the_page(
            changes in prop::collection::vec((0usize..4096, prop::collection::vec(0u8..4, 1..200)), 0..20),
            twin in prop::collection::vec(0u8..4, 4096),
        ) {
            let mut page = twin.clone();
            for (at, bytes) in changes {
                let end = (at + bytes.len()).min(page.len());
                page[at..end].copy_from_slice(&bytes[..end - at]);
            }
            let (runs, mut merged) = (runs(&page, &twin), twin.clone());
            for run in &runs {
                prop_assert!(run.clone().all(|at| page[at] != twin[at]), "only what differs");
                merged[run.clone()].copy_from_slice(&page[run.clone()]);
            }
            prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(merged, page);
        }
    }
}
