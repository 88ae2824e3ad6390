//! Which bytes of a page are not those of its twin.

use std::ops::Range;

/// The runs of bytes that differ, ascending; none touches the next. Equal bytes between two runs are in neither:
/// another writer of the page may have changed them at home.
pub(super) fn runs(page: &[u8], twin: &[u8]) -> Vec<Range<usize>> {
    assert_eq!(page.len(), twin.len(), "a page and its twin");
    /// Bytes that are compared at once where they are equal, as most are.
    const BLOCK: usize = 64;
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (number, (page, twin)) in page.chunks(BLOCK).zip(twin.chunks(BLOCK)).enumerate() {
        if page == twin {
            continue;
        }
        let start = number * BLOCK;
        for at in page.iter().zip(twin).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| start + at) {
            match runs.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
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
