//! Algorithms for collectives as users write them: `allreduce:ring`.

use std::fmt;
use std::str::FromStr;

use super::algorithm::CollectiveAlgorithm;
use super::names::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, CollectAlgorithm,
    ReduceAlgorithm,
};
use super::proof::Operands;
use crate::rank::Rank;

/// Into how many segments data is divided that goes from rank to rank, where a text says nothing of it.
const SEGMENTS: u32 = 32;

/// The most that there may be.
const MOST_SEGMENTS: u32 = 1 << 20;

/// A text that names no algorithm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is none of {}", known().join(", "))]
pub struct UnknownCollective {
    text: String,
}

/// A collective and how it goes, `allgather:bruck`, or a collective alone where there is one way only, `scan`. What has
/// a root has rank 0. `bcast:pipelined:64` is in 64 segments, of at most 2²⁰.
impl FromStr for CollectiveAlgorithm {
    type Err = UnknownCollective;

    fn from_str(text: &str) -> Result<Self, UnknownCollective> {
        let unknown = || UnknownCollective { text: text.to_owned() };
        let (plain, segments) = match text.strip_prefix("bcast:pipelined:") {
            Some(segments) => (
                "bcast:pipelined",
                segments.parse().ok().filter(|segments| (1..=MOST_SEGMENTS).contains(segments)),
            ),
            None => (text, Some(SEGMENTS)),
        };
        let segments = segments.ok_or_else(unknown)?;
        all(segments).into_iter().find(|known| known.plain() == plain).ok_or_else(unknown)
    }
}

impl fmt::Display for CollectiveAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plain())?;
        match self {
            Self::Bcast { algorithm: BcastAlgorithm::Pipelined, segments, .. } => write!(f, ":{segments}"),
            _ => Ok(()),
        }
    }
}

impl CollectiveAlgorithm {
    /// Its name, without its parameters.
    fn plain(&self) -> String {
        let (collective, algorithm) = match *self {
            Self::Bcast { algorithm, .. } => ("bcast", algorithm.name()),
            Self::Gather { algorithm, .. } => ("gather", algorithm.name()),
            Self::Scatter { algorithm, .. } => ("scatter", algorithm.name()),
            Self::Allgather(algorithm) => ("allgather", algorithm.name()),
            Self::Alltoall(algorithm) => ("alltoall", algorithm.name()),
            Self::Reduce { algorithm, .. } => ("reduce", algorithm.name()),
            Self::Allreduce(algorithm) => ("allreduce", algorithm.name()),
            Self::ReduceScatter => return "reduce-scatter".into(),
            Self::Scan => return "scan".into(),
            Self::Exscan => return "exscan".into(),
        };
        format!("{collective}:{algorithm}")
    }
}

/// All that there are.
fn all(segments: u32) -> Vec<CollectiveAlgorithm> {
    let root = Rank(0);
    let mut all = Vec::new();
    all.extend(BcastAlgorithm::ALL.iter().map(|&algorithm| CollectiveAlgorithm::Bcast {
        root,
        algorithm,
        segments,
    }));
    all.extend(
        CollectAlgorithm::ALL.iter().map(|&algorithm| CollectiveAlgorithm::Gather { root, algorithm }),
    );
    all.extend(
        CollectAlgorithm::ALL.iter().map(|&algorithm| CollectiveAlgorithm::Scatter { root, algorithm }),
    );
    all.extend(AllgatherAlgorithm::ALL.iter().copied().map(CollectiveAlgorithm::Allgather));
    all.extend(AlltoallAlgorithm::ALL.iter().copied().map(CollectiveAlgorithm::Alltoall));
    let operands = Operands::Commuting;
    let reduce = |&algorithm: &ReduceAlgorithm| CollectiveAlgorithm::Reduce { root, algorithm, operands };
    all.extend(ReduceAlgorithm::ALL.iter().map(reduce));
    all.extend(AllreduceAlgorithm::ALL.iter().copied().map(CollectiveAlgorithm::Allreduce));
    all.extend([CollectiveAlgorithm::ReduceScatter, CollectiveAlgorithm::Scan, CollectiveAlgorithm::Exscan]);
    all
}

fn known() -> Vec<String> {
    all(SEGMENTS).iter().map(CollectiveAlgorithm::plain).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{CollectiveAlgorithm, SEGMENTS, all};

    #[test]
    fn each_is_what_its_text_says() {
        for algorithm in all(SEGMENTS) {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        let pipelined: CollectiveAlgorithm = "bcast:pipelined:7".parse().unwrap();
        assert_eq!((pipelined.blocks(5), pipelined.to_string().as_str()), (7, "bcast:pipelined:7"));
        assert_eq!("bcast:pipelined".parse(), "bcast:pipelined:32".parse::<CollectiveAlgorithm>());
    }

    #[test]
    fn what_is_none_is_refused_with_all_there_are() {
        for text in [
            "",
            "allreduce",
            "scan:",
            "bcast:pipelined:0",
            "bcast:pipelined:4000000000",
            "bcast:binomial:2",
            "barrier",
        ] {
            let error = text.parse::<CollectiveAlgorithm>().unwrap_err().to_string();
            assert!(error.contains("allreduce:ring") && error.contains("exscan"), "{error}");
        }
    }
}
