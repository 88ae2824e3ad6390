//! Which barrier is meant.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use svmio_collectives::{Algorithm, AlgorithmError, Schedule};

/// A barrier as it is named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// By its algorithm.
    Algorithm(Algorithm),
    /// Made for a profile, level by level.
    Composed,
    /// The best for a profile.
    Tuned,
    /// In a file.
    File(PathBuf),
}

/// A barrier, and how it is called.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) schedule: Schedule,
}

impl Wanted {
    /// What a file's name ends in.
    pub(super) const ENDING: &str = ".json";
}

impl FromStr for Wanted {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        Ok(match text {
            "composed" => Self::Composed,
            "tuned" => Self::Tuned,
            file if file.ends_with(Self::ENDING) => Self::File(file.into()),
            algorithm => Self::Algorithm(algorithm.parse()?),
        })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Algorithm(algorithm) => algorithm.fmt(formatter),
            Self::Composed => formatter.write_str("composed"),
            Self::Tuned => formatter.write_str("tuned"),
            Self::File(path) => path.display().fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Wanted;

    #[test]
    fn a_barrier_is_called_as_it_was_typed() {
        for text in ["tree:4", "two-level:8:nx:6", "composed", "tuned", "a/best.json"] {
            assert_eq!(text.parse::<Wanted>().unwrap().to_string(), text);
        }
        assert!("best".parse::<Wanted>().unwrap_err().to_string().contains("dissemination"));
    }
}
