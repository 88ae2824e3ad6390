//! What is said of a number that makes no sense.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::Error;

/// A value that makes no sense, without its place, which only the reader of the settings knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The key in its section.
    pub key: &'static str,
    /// The value, and what would be right.
    pub problem: String,
}

impl Misfit {
    /// As an error that names `place`: the file and line, the variable, or whatever else leads to the value.
    #[must_use]
    pub fn at(&self, place: impl Display) -> Error {
        Error::Setting { place: place.to_string(), problem: self.problem.clone() }
    }
}

/// Whether a number of `unit` is in `range`.
///
/// # Errors
/// That it is not.
pub(crate) fn within<T: PartialOrd + Display>(
    key: &'static str,
    value: T,
    range: RangeInclusive<T>,
    unit: &str,
) -> Result<(), Misfit> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(Misfit { key, problem: format!("{key} is {value}, should be from {least} to {most} {unit}") })
}

/// The longest time that a setting may be: far beyond, deadlines could no longer be reckoned.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Whether a time is `least` or longer, and no more than a year.
///
/// # Errors
/// That it is not.
pub(crate) fn at_least(key: &'static str, value: Duration, least: Duration) -> Result<(), Misfit> {
    if (least..=A_YEAR).contains(&value) {
        return Ok(());
    }
    Err(Misfit { key, problem: format!("{key} is {value:?}, should be from {least:?} to a year") })
}
