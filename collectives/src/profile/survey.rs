//! Measuring a machine, pair by pair.

use serde::{Deserialize, Serialize};

use crate::profile::{Line, Matrix, Profile, ProfileError, Weights};
use crate::rank::Rank;

/// What measures: an executor that can time its own signals. All answers are nanoseconds; `repetitions` is how often
/// what is measured is repeated to find one that holds.
///
/// Where the ranks are processes that run the same survey together, each of them must get the same answers, since what
/// is measured next may depend on them.
pub trait Measure {
    /// What can go wrong.
    type Error: std::error::Error;

    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// How long `bytes` bytes take from one rank to the other: half a round trip.
    ///
    /// # Errors
    /// The implementation's own.
    fn one_way(&mut self, from: Rank, to: Rank, bytes: u64, repetitions: u32) -> Result<f64, Self::Error>;

    /// How long `signals` signals take from one rank to the other that are sent without waiting between.
    ///
    /// # Errors
    /// The implementation's own.
    fn burst(&mut self, from: Rank, to: Rank, signals: u32, repetitions: u32) -> Result<f64, Self::Error>;

    /// How long it takes a rank to begin to send, without sending.
    ///
    /// # Errors
    /// The implementation's own.
    fn start(&mut self, rank: Rank, repetitions: u32) -> Result<f64, Self::Error>;
}

/// How much is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SurveySettings {
    /// Message sizes are powers of two, up to this one.
    pub largest_message: u64,
    /// Bursts are of one signal, of two, and so on up to so many.
    pub longest_burst: u32,
    /// How often each measurement is made, from 1 on.
    pub repetitions: u32,
    /// How much each measurement counts in the regressions.
    pub weights: Weights,
}

impl Default for SurveySettings {
    /// A few milliseconds per pair on fast fabrics: signals are small, so that large messages tell little of them.
    fn default() -> Self {
        Self { largest_message: 1 << 12, longest_burst: 8, repetitions: 10, weights: Weights::Relative }
    }
}

impl SurveySettings {
    /// What the paper measured (section IV.A): messages of a byte to a mebibyte and bursts of up to 32, 25 times each,
    /// all counting the same. Of the 25 the paper took the arithmetic mean; what [measures](Measure) here takes the
    /// median.
    #[must_use]
    pub fn paper() -> Self {
        Self { largest_message: 1 << 20, longest_burst: 32, repetitions: 25, weights: Weights::Equal }
    }

    /// That anything is measured by them.
    pub(crate) fn check<E: std::error::Error>(&self) -> Result<(), SurveyError<E>> {
        if self.repetitions > 0 { Ok(()) } else { Err(SurveyError::NoRepetitions) }
    }
}

/// What a signal costs between two ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PairCost {
    pub(crate) overhead: f64,
    pub(crate) latency: f64,
}

/// Measures every pair of ranks once. Links are taken to be the same in both directions.
///
/// # Errors
/// [`SurveyError`].
pub fn survey<M: Measure>(
    measure: &mut M,
    settings: &SurveySettings,
) -> Result<Profile, SurveyError<M::Error>> {
    settings.check()?;
    let mut matrices = Matrices::new(measure.ranks());
    for one in 0..measure.ranks() {
        let one = Rank(one);
        matrices.set_start(one, measure_start(measure, settings, one)?);
        for other in one.0 + 1..measure.ranks() {
            let cost = measure_pair(measure, settings, one, Rank(other))?;
            matrices.set(one, Rank(other), cost);
        }
    }
    matrices.into_profile()
}

/// *O*ᵢⱼ is the intercept over message sizes, *L*ᵢⱼ the slope over message counts.
pub(crate) fn measure_pair<M: Measure>(
    measure: &mut M,
    settings: &SurveySettings,
    from: Rank,
    to: Rank,
) -> Result<PairCost, SurveyError<M::Error>> {
    let sizes = std::iter::successors(Some(1_u64), |size| Some(2 * size));
    let mut by_size = Vec::new();
    for bytes in sizes.take_while(|&bytes| bytes <= settings.largest_message) {
        let time = measure.one_way(from, to, bytes, settings.repetitions).map_err(SurveyError::Measure)?;
        by_size.push((bytes as f64, time));
    }
    let mut by_count = Vec::new();
    for signals in 1..=settings.longest_burst {
        let time = measure.burst(from, to, signals, settings.repetitions).map_err(SurveyError::Measure)?;
        by_count.push((f64::from(signals), time));
    }
    let line = |points: &[_]| Line::through(points, settings.weights).ok_or(SurveyError::NoLine { from, to });
    // What noise makes less than nothing is nothing.
    let overhead = line(&by_size)?.intercept.max(0.0);
    Ok(PairCost { overhead, latency: line(&by_count)?.slope.max(0.0) })
}

pub(crate) fn measure_start<M: Measure>(
    measure: &mut M,
    settings: &SurveySettings,
    rank: Rank,
) -> Result<f64, SurveyError<M::Error>> {
    measure.start(rank, settings.repetitions).map_err(SurveyError::Measure)
}

/// Both matrices while they are filled.
pub(crate) struct Matrices {
    overhead: Matrix,
    latency: Matrix,
}

impl Matrices {
    pub(crate) fn new(ranks: u32) -> Self {
        let zeros = || Matrix::from_fn(ranks, |_, _| 0.0);
        Self { overhead: zeros(), latency: zeros() }
    }

    pub(crate) fn set(&mut self, one: Rank, other: Rank, cost: PairCost) {
        for (from, to) in [(one, other), (other, one)] {
            self.overhead.set(from, to, rounded(cost.overhead));
            self.latency.set(from, to, rounded(cost.latency));
        }
    }

    pub(crate) fn get(&self, from: Rank, to: Rank) -> PairCost {
        PairCost { overhead: self.overhead.at(from, to), latency: self.latency.at(from, to) }
    }

    pub(crate) fn set_start(&mut self, rank: Rank, cost: f64) {
        self.overhead.set(rank, rank, rounded(cost));
    }

    pub(crate) fn start(&self, rank: Rank) -> f64 {
        self.overhead.at(rank, rank)
    }

    pub(crate) fn into_profile<E: std::error::Error>(self) -> Result<Profile, SurveyError<E>> {
        Ok(Profile::new(self.overhead, self.latency)?)
    }
}

/// To hundredths of a nanosecond: more digits tell nothing, and files of many ranks are long.
fn rounded(cost: f64) -> f64 {
    (cost * 100.0).round() / 100.0
}

/// Why a machine could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SurveyError<E: std::error::Error> {
    /// Measuring failed.
    #[error(transparent)]
    Measure(E),
    /// The settings have nothing measured.
    #[error("a survey with 0 repetitions measures nothing: give 1 or more")]
    NoRepetitions,
    /// Too few measurements for a line.
    #[error(
        "what was measured between ranks {from} and {to} gives no line; measure more sizes and longer bursts"
    )]
    NoLine {
        /// The one rank.
        from: Rank,
        /// The other.
        to: Rank,
    },
    /// What came out is no profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}
