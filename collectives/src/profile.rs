//! What signals cost on a machine, between any two of its ranks.
//!
//! J. C. Meyer and A. C. Elster, "Optimized Barriers for Heterogeneous Systems Using MPI", section IV. A profile is
//! measured once ([`survey()`]), kept in a file, and used without the machine.

mod look_alike;
mod matrix;
mod positions;
mod regression;
mod survey;

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use self::look_alike::{LookAlike, survey_nodes};
pub use self::matrix::{Matrix, MatrixError};
pub use self::regression::{Line, Weights};
pub use self::survey::{Measure, SurveyError, SurveySettings, survey};
use crate::rank::Rank;
use crate::saving::save;

/// The costs of signals on a machine: the matrices *O* and *L* of the paper. All in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ProfileFile", into = "ProfileFile")]
pub struct Profile {
    overhead: Matrix,
    latency: Matrix,
    processors: Option<NonZeroU32>,
}

impl Profile {
    /// From both matrices: *O*, whose diagonal is what it costs to begin to send at all, and *L*.
    ///
    /// # Errors
    /// [`ProfileError`] where they are not of one size, or hold what is no time.
    pub fn new(overhead: Matrix, latency: Matrix) -> Result<Self, ProfileError> {
        if overhead.size() != latency.size() {
            return Err(ProfileError::Sizes { overhead: overhead.size(), latency: latency.size() });
        }
        for matrix in [&overhead, &latency] {
            if let Some(&cost) = matrix.values().iter().find(|cost| !cost.is_finite() || **cost < 0.0) {
                return Err(ProfileError::NoTime { cost });
            }
        }
        Ok(Self { overhead, latency, processors: None })
    }

    /// The same machine where all ranks share so many processors, be they on as many nodes as they are told: ranks that
    /// wait cost nothing then, but every signal costs a processor's time.
    #[must_use]
    pub fn sharing(mut self, processors: u32) -> Self {
        self.processors = NonZeroU32::new(processors);
        self
    }

    /// How many processors all ranks share; none where each has one.
    #[must_use]
    pub fn processors(&self) -> Option<NonZeroU32> {
        self.processors
    }

    /// The profile in a file.
    ///
    /// # Errors
    /// What reading gives; [`io::ErrorKind::InvalidData`] for a file that holds no profile.
    pub fn load(path: &Path) -> io::Result<Self> {
        serde_json::from_slice(&fs::read(path)?)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Writes it to a file, which is there whole or as it was: the one that a link points to. What is no file, as a
    /// device or a pipe, is written into.
    ///
    /// # Errors
    /// What writing gives.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        save(self, path)
    }

    /// How many ranks it is of.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.overhead.size()
    }

    /// The matrix *O*.
    #[must_use]
    pub fn overheads(&self) -> &Matrix {
        &self.overhead
    }

    /// The matrix *L*.
    #[must_use]
    pub fn latencies(&self) -> &Matrix {
        &self.latency
    }

    /// *O*ᵢⱼ: what one signal costs, from call to completion.
    #[must_use]
    pub fn overhead(&self, from: Rank, to: Rank) -> f64 {
        self.overhead.at(from, to)
    }

    /// *O*ᵢᵢ: what it costs to begin to send.
    #[must_use]
    pub fn start(&self, rank: Rank) -> f64 {
        self.overhead.at(rank, rank)
    }

    /// *L*ᵢⱼ: what a signal costs that is added to others.
    #[must_use]
    pub fn latency(&self, from: Rank, to: Rank) -> f64 {
        self.latency.at(from, to)
    }

    /// How far ranks are from one another: what one signal costs, both directions taken together. Zero from a rank to
    /// itself.
    #[must_use]
    pub fn distance(&self, one: Rank, other: Rank) -> f64 {
        if one == other {
            return 0.0;
        }
        let cost = |from, to| self.overhead(from, to) + self.latency(from, to);
        f64::midpoint(cost(one, other), cost(other, one))
    }

    /// The profile of some of the ranks, which are numbered anew in the order given.
    #[must_use]
    pub fn of(&self, ranks: &[Rank]) -> Self {
        let part = |matrix: &Matrix| {
            Matrix::from_fn(ranks.len() as u32, |from, to| matrix.at(ranks[from.index()], ranks[to.index()]))
        };
        Self { overhead: part(&self.overhead), latency: part(&self.latency), processors: self.processors }
    }
}

/// A profile as it is in a file.
#[derive(Serialize, Deserialize)]
struct ProfileFile {
    /// What the numbers are, to be told from what later versions may write.
    format: String,
    overhead_ns: Matrix,
    latency_ns: Matrix,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    processors: Option<NonZeroU32>,
}

const FORMAT: &str = "svmio profile 1";

impl TryFrom<ProfileFile> for Profile {
    type Error = ProfileError;

    fn try_from(file: ProfileFile) -> Result<Self, ProfileError> {
        if file.format != FORMAT {
            return Err(ProfileError::Format { format: file.format });
        }
        let profile = Self::new(file.overhead_ns, file.latency_ns)?;
        Ok(Self { processors: file.processors, ..profile })
    }
}

impl From<Profile> for ProfileFile {
    fn from(profile: Profile) -> Self {
        let Profile { overhead, latency, processors } = profile;
        Self { format: FORMAT.to_owned(), overhead_ns: overhead, latency_ns: latency, processors }
    }
}

/// Why something is no profile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// Matrices of different machines.
    #[error("the overheads are of {overhead} ranks, the latencies of {latency}")]
    Sizes {
        /// How many ranks the one has.
        overhead: u32,
        /// How many the other.
        latency: u32,
    },
    /// A number that is not a time.
    #[error("{cost} ns is not a cost")]
    NoTime {
        /// The number.
        cost: f64,
    },
    /// Another program's, or another version's, file.
    #[error("a profile of format {format:?} cannot be read; this is {FORMAT:?}")]
    Format {
        /// What it calls itself.
        format: String,
    },
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt;

    use super::{Matrix, Profile, ProfileError};
    use crate::rank::Rank;

    fn profile() -> Profile {
        let overhead = Matrix::from_fn(3, |from, to| f64::from(from.0 * 10 + to.0) + 0.25);
        let latency = Matrix::from_fn(3, |from, to| f64::from(from.0 + to.0));
        Profile::new(overhead, latency).unwrap()
    }

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profile.json");
        profile().save(&file).unwrap();
        assert_eq!(Profile::load(&file).unwrap(), profile());
        profile().sharing(2).save(&file).unwrap();
        assert_eq!(Profile::load(&file).unwrap(), profile().sharing(2));
        profile().save(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        for (from, to) in [("profile 1", "profile 2"), ("[0.25,", "["), ("[0.25,", "[-1,"), ("{", "")] {
            std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
            let error = Profile::load(&file).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{to}: {error}");
        }
        assert!(Profile::load(&folder.path().join("absent")).is_err());
    }

    #[test]
    fn a_link_stays_and_what_it_points_to_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["profile.json", "link.json"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("profile.json", &link).unwrap();
        // To nothing at first.
        for profile in [profile(), profile().sharing(2)] {
            profile.save(&link).unwrap();
            assert!(link.is_symlink() && !file.is_symlink());
            assert_eq!(Profile::load(&file).unwrap(), profile);
        }
    }

    #[test]
    fn what_is_no_file_is_written_into() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let reader = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
        profile().save(&pipe).unwrap();
        assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        let mut written = serde_json::Deserializer::from_reader(reader).into_iter();
        assert_eq!(written.next().unwrap().ok(), Some(profile()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn others_may_read_a_profile_as_they_may_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let [profiles, other] = ["profile.json", "other"].map(|name| folder.path().join(name));
        std::fs::write(&other, "").unwrap();
        profile().save(&profiles).unwrap();
        let [own, other] = [profiles, other].map(|file| std::fs::metadata(file).unwrap().permissions());
        assert_eq!(own, other);
    }

    #[test]
    fn a_part_of_a_profile_is_numbered_anew() {
        let part = profile().of(&[Rank(2), Rank(0)]);
        assert_eq!(
            (part.ranks(), part.overhead(Rank(0), Rank(1)), part.latency(Rank(0), Rank(0))),
            (2, 20.25, 4.0)
        );
        assert_eq!(profile().distance(Rank(0), Rank(2)), f64::midpoint(2.25 + 2.0, 20.25 + 2.0));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let zeros = |size| Matrix::from_fn(size, |_, _| 0.0);
        assert_eq!(Profile::new(zeros(2), zeros(3)), Err(ProfileError::Sizes { overhead: 2, latency: 3 }));
        assert!(Profile::new(zeros(2), Matrix::from_fn(2, |_, _| f64::INFINITY)).is_err());
    }
}
