//! A survey that all members make together.
//!
//! All of them go through the same measurements. The two who are measured exchange signals, and everybody else sleeps
//! until the time is known to all; so all get the same profile, and come to the same conclusions from it.

use super::council::{Council, Waiting};
use crate::executor::error::{Error, Result};
use crate::executor::measuring::pairs::{Exchange, Pairs, Shape};
use crate::partition::Partition;
use crate::profile::{Measure, Profile, SurveyError, survey_nodes};
use crate::rank::Rank as Member;

use super::settings::RetuningSettings;

/// The profile of the members, who are on these nodes; none where what was measured makes none.
///
/// # Errors
/// The fabric's, for a lost member.
pub(super) fn survey(
    pairs: Pairs,
    council: &mut Council,
    nodes: &Partition,
    settings: &RetuningSettings,
) -> Result<Option<Profile>> {
    let mut concerted = Concerted { pairs, council };
    match survey_nodes(&mut concerted, nodes, &settings.survey, settings.look_alike) {
        Ok(profile) => Ok(Some(profile)),
        Err(SurveyError::Measure(error)) => Err(error),
        // What all have in common, they find no line in.
        Err(SurveyError::NoLine { .. } | SurveyError::Profile(_)) => Ok(None),
    }
}

struct Concerted<'council> {
    pairs: Pairs,
    council: &'council mut Council,
}

impl Concerted<'_> {
    fn measured(&mut self, from: Member, to: Member, shape: Shape, repetitions: u32) -> Result<f64> {
        let (from, to) = (from.index(), to.index());
        let (first, second) = self.pairs.plan(from, to, shape, repetitions);
        let part: Option<Exchange> = match self.pairs.own() {
            own if own == from => Some(first),
            own if own == to => Some(second),
            _ => None,
        };
        let time = part.map(|part| self.pairs.exchange(part)).transpose()?.flatten();
        self.told(time)
    }

    /// What the one tells who has taken a time.
    fn told(&mut self, time: Option<f64>) -> Result<f64> {
        let [time, ..] =
            self.council.largest([time.unwrap_or(f64::NEG_INFINITY), 0.0, 0.0, 0.0], Waiting::Asleep)?;
        Ok(time)
    }
}

impl Measure for Concerted<'_> {
    type Error = Error;

    fn ranks(&self) -> u32 {
        self.pairs.size() as u32
    }

    fn one_way(&mut self, from: Member, to: Member, bytes: u64, repetitions: u32) -> Result<f64> {
        self.measured(from, to, Shape::Message(bytes), repetitions)
    }

    fn burst(&mut self, from: Member, to: Member, signals: u32, repetitions: u32) -> Result<f64> {
        self.measured(from, to, Shape::Burst(signals), repetitions)
    }

    fn start(&mut self, rank: Member, repetitions: u32) -> Result<f64> {
        let other = (rank.index() + 1) % self.pairs.size();
        if other == rank.index() {
            return Ok(0.0);
        }
        let is_own = self.pairs.own() == rank.index();
        let time = is_own.then(|| self.pairs.time_start(other, repetitions)).transpose()?;
        self.told(time)
    }
}
