//! A survey that all members make together.
//!
//! All of them go through the same measurements. The two who are measured exchange signals, and everybody else sleeps
//! until the time is known to all; so all get the same profile, and come to the same conclusions from it. Who cannot do
//! its part leaves, and is waited for neither by the one with whom it exchanges signals nor by those who sleep.

use super::council::{Council, Waiting};
use crate::executor::error::Result;
use crate::executor::measuring::conducting::{Conductor, measure_by_conducting};
use crate::executor::measuring::pairs::{Exchange, Pairs};
use crate::partition::Partition;
use crate::profile::{Profile, SurveyError, survey_nodes};

use super::settings::RetuningSettings;

/// The profile of the members, who are on these nodes; none where what was measured makes none. And how many signals
/// were sent for it one after the other.
///
/// # Errors
/// [`Error::Refused`](crate::executor::Error::Refused) where another member could not do its part; the fabric's. After
/// one, this member is to [leave](Council::leave) the council.
pub(super) fn survey(
    pairs: Pairs,
    council: &mut Council,
    nodes: &Partition,
    settings: &RetuningSettings,
) -> Result<(Option<Profile>, f64)> {
    let mut concerted = Concerted { pairs, council };
    let profile = match survey_nodes(&mut concerted, nodes, &settings.survey, settings.look_alike) {
        Ok(profile) => Some(profile),
        Err(SurveyError::Measure(error)) => {
            if let Some(member) = error.who_leaves(concerted.pairs.own()) {
                concerted.pairs.leave(member);
            }
            return Err(error);
        }
        // What all have in common, they find no line in.
        Err(SurveyError::NoLine { .. } | SurveyError::NoRepetitions | SurveyError::Profile(_)) => None,
    };
    Ok((profile, concerted.pairs.signals()))
}

struct Concerted<'council> {
    pairs: Pairs,
    council: &'council mut Council,
}

impl Concerted<'_> {
    /// What the one tells who has taken a time.
    fn told(&mut self, time: Option<f64>) -> Result<f64> {
        let [time, ..] =
            self.council.largest([time.unwrap_or(f64::NEG_INFINITY), 0.0, 0.0, 0.0], Waiting::Asleep)?;
        Ok(time)
    }
}

impl Conductor for Concerted<'_> {
    fn pairs(&mut self) -> &mut Pairs {
        &mut self.pairs
    }

    fn exchanged(&mut self, from: (usize, Exchange), to: (usize, Exchange)) -> Result<f64> {
        let own = self.pairs.own();
        let part = [from, to].into_iter().find(|(member, _)| *member == own);
        let time = part.map(|(_, part)| self.pairs.exchange(part)).transpose()?.flatten();
        self.told(time)
    }

    fn started(&mut self, member: usize, repetitions: u32) -> Result<f64> {
        let is_own = self.pairs.own() == member;
        let time = is_own.then(|| self.pairs.time_start(repetitions)).transpose()?;
        self.told(time)
    }
}

measure_by_conducting!(Concerted<'_>);
