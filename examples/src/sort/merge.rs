//! Merging sorted sequences into one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use anyhow::Result;

/// Hands on the keys of sequences that are sorted, the smallest of all first.
///
/// # Errors
/// The first that a sequence gives, or `take`.
pub(super) fn merge(
    mut sequences: Vec<impl Iterator<Item = Result<u64>>>,
    mut take: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut heads = BinaryHeap::with_capacity(sequences.len());
    for (number, sequence) in sequences.iter_mut().enumerate() {
        if let Some(key) = sequence.next() {
            heads.push(Reverse((key?, number)));
        }
    }
    while let Some(mut smallest) = heads.peek_mut() {
        let Reverse((key, number)) = *smallest;
        take(key)?;
        match sequences[number].next() {
            Some(next) => *smallest = Reverse((next?, number)),
            None => drop(PeekMut::pop(smallest)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_sequences_becomes_one() {
        for count in 0..9usize {
            let sequences: Vec<Vec<u64>> = (0..count)
                .map(|first| (first..50).step_by(first + 1).map(|key| key as u64).collect())
                .collect();
            let mut expected = sequences.concat();
            expected.sort_unstable();
            let mut merged = Vec::new();
            let iterators = sequences.iter().map(|keys| keys.iter().map(|key| Ok(*key))).collect();
            merge(iterators, |key| {
                merged.push(key);
                Ok(())
            })
            .unwrap();
            assert_eq!(merged, expected);
        }
    }
}
