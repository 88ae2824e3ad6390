//! Numbers of ranks or nodes, as they are typed.

use std::str::FromStr;

/// The most ranks of anything.
pub(in crate::commands) const MOST_RANKS: u32 = 1 << 20;

/// A number, or a range: `8`, `2..16` for each number, `2..1024x2` for each twice the one before, and the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counts(Vec<u32>);

/// A text that is neither.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidCounts {
    /// Not written as numbers and ranges are.
    #[error("numbers are written like 8, 2..16 for each number, or 2..1024x2 for each twice the one before")]
    Text,
    /// No barrier has so many.
    #[error("there can be 1 to {MOST_RANKS}")]
    Number,
    /// From more to less.
    #[error("the range goes from more to less")]
    Backwards,
}

impl Counts {
    /// All numbers of a list, each once, in order.
    pub(in crate::commands) fn all(list: &[Self]) -> Vec<u32> {
        let mut counts: Vec<u32> = list.iter().flat_map(|counts| counts.0.iter().copied()).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }
}

impl FromStr for Counts {
    type Err = InvalidCounts;

    fn from_str(text: &str) -> Result<Self, InvalidCounts> {
        let count = |text: &str| {
            let count = text.parse().map_err(|_| InvalidCounts::Text)?;
            if (1..=MOST_RANKS).contains(&count) { Ok(count) } else { Err(InvalidCounts::Number) }
        };
        let Some((first, last)) = text.split_once("..") else { return Ok(Self(vec![count(text)?])) };
        let (last, doubles) = last.strip_suffix("x2").map_or((last, false), |last| (last, true));
        let (first, last) = (count(first)?, count(last)?);
        if first > last {
            return Err(InvalidCounts::Backwards);
        }
        if !doubles {
            return Ok(Self((first..=last).collect()));
        }
        let doubled = std::iter::successors(Some(first), |count| count.checked_mul(2));
        let below = doubled.take_while(|&count| count < last);
        Ok(Self(below.chain([last]).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, InvalidCounts};

    #[test]
    fn numbers_and_ranges_are_read() {
        let all =
            |texts: &[&str]| Counts::all(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>());
        assert_eq!(all(&["8", "2..4", "3"]), [2, 3, 4, 8]);
        assert_eq!(all(&["3..20x2"]), [3, 6, 12, 20]);
        assert_eq!(all(&["4..4x2"]), [4]);
        for (bad, problem) in [
            ("", InvalidCounts::Text),
            ("2..", InvalidCounts::Text),
            ("2..8x3", InvalidCounts::Text),
            ("0", InvalidCounts::Number),
            ("1..2000000x2", InvalidCounts::Number),
            ("8..2", InvalidCounts::Backwards),
        ] {
            assert_eq!(bad.parse::<Counts>(), Err(problem), "{bad}");
        }
    }
}
