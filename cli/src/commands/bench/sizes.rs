//! The sizes of messages that a benchmark is run with.

use std::str::FromStr;

use super::super::byte_count::ByteCount;

/// The largest message that is measured: larger ones tell nothing more.
const MOST: u64 = 1 << 30;

/// A size, or a range of sizes each twice the one before: `64K`, `8..64M`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes(Vec<u64>);

/// A text that is neither.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidSizes {
    /// Not written as sizes are.
    #[error("sizes are written like 64K, or like 8..64M for each power of two from 8 bytes to 64 MiB")]
    Text,
    /// No message of that size can be measured.
    #[error("a message has from 1 byte to {} MiB", MOST >> 20)]
    Size,
    /// From more to less.
    #[error("the range goes from more to less")]
    Backwards,
}

impl Sizes {
    /// All sizes of a list, each once, in order.
    pub(crate) fn all(list: &[Sizes]) -> Vec<u64> {
        let mut sizes: Vec<u64> = list.iter().flat_map(|sizes| sizes.0.iter().copied()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

impl FromStr for Sizes {
    type Err = InvalidSizes;

    fn from_str(text: &str) -> Result<Sizes, InvalidSizes> {
        let size = |text: &str| {
            let ByteCount(size) = text.parse().map_err(|_| InvalidSizes::Text)?;
            if (1..=MOST).contains(&size) { Ok(size) } else { Err(InvalidSizes::Size) }
        };
        let Some((first, last)) = text.split_once("..") else { return Ok(Sizes(vec![size(text)?])) };
        let (first, last) = (size(first)?, size(last)?);
        if first > last {
            return Err(InvalidSizes::Backwards);
        }
        Ok(Sizes(
            std::iter::successors(Some(first), |size| Some(size * 2)).take_while(|s| *s <= last).collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ranges_are_read() {
        let sizes = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.0);
        assert_eq!(sizes("64K"), Ok(vec![65536]));
        assert_eq!(sizes("8..64"), Ok(vec![8, 16, 32, 64]));
        assert_eq!(sizes("3..10"), Ok(vec![3, 6]));
        assert_eq!(sizes("0"), Err(InvalidSizes::Size));
        assert_eq!(sizes("2G"), Err(InvalidSizes::Size));
        assert_eq!(sizes("64..8"), Err(InvalidSizes::Backwards));
        for bad in ["", "..", "8..", "..8", "8...16", "x"] {
            assert_eq!(sizes(bad), Err(InvalidSizes::Text), "{bad}");
        }
        let list = ["64", "8..64", "1K"].map(|text| text.parse::<Sizes>().unwrap());
        assert_eq!(Sizes::all(&list), [8, 16, 32, 64, 1024]);
    }
}
