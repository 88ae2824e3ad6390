//! How a barrier is watched, and when it is tuned again.

use crate::profile::{LookAlike, SurveySettings, Weights};

/// How a [`TunedBarrier`](super::TunedBarrier) is watched, and when it is tuned again: the same for all members.
#[derive(Debug, Clone, PartialEq)]
pub struct RetuningSettings {
    /// After how many barriers a burst of further ones is measured: 1024.
    pub every: u64,
    /// How many barriers are timed in a burst, after one to begin together: 16. So less than a 60th of all barriers are
    /// there only to be measured.
    pub burst: u32,
    /// How many bursts are a window, of which the median counts: 8.
    pub window: u32,
    /// By which factor the cost of a window may differ from what is expected, upwards or downwards: 2.
    pub factor: f64,
    /// How many windows in a row have to differ: 3.
    pub windows: u32,
    /// Which share of all time, from joining on, tuning again may take: a 50th. It is begun when as much is saved up
    /// as it is likely to take, from how many signals are measured and what the barrier costs; twice as much for each
    /// time in a row that it has changed nothing.
    pub share: f64,
    /// Which part of the cost of the barrier in use another one may have at most to be taken instead: 0.9.
    pub gain: f64,
    /// How many of the barriers with the cheapest prediction are tried: 3. Where ranks of one node outnumber its
    /// processors, as many again of those with the cheapest prediction for that.
    pub candidates: usize,
    /// How much of the machine is measured: messages up to a cache line, bursts of up to four, three times each;
    /// about a millisecond per pair in shared memory.
    pub survey: SurveySettings,
    /// When nodes look alike, of which one is measured then.
    pub look_alike: LookAlike,
}

impl Default for RetuningSettings {
    fn default() -> Self {
        let survey = SurveySettings {
            largest_message: 64,
            longest_burst: 4,
            repetitions: 3,
            weights: Weights::Relative,
        };
        Self {
            every: 1024,
            burst: 16,
            window: 8,
            factor: 2.0,
            windows: 3,
            share: 0.02,
            gain: 0.9,
            candidates: 3,
            survey,
            look_alike: LookAlike::default(),
        }
    }
}

impl RetuningSettings {
    /// What cannot be meant, if anything.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let counts = self.every > 0 && self.burst > 0 && self.window > 0 && self.windows > 0;
        let problems = [
            (!counts, "every, burst, window and windows are numbers from 1 on"),
            (self.factor.is_nan() || self.factor <= 1.0, "the factor of a drift is above 1"),
            (!(0.0..=1.0).contains(&self.share), "the share of all time is from 0 to 1"),
            (!(0.0..=1.0).contains(&self.gain), "the gain is a part of the cost, from 0 to 1"),
        ];
        problems.into_iter().find_map(|(is_one, problem)| is_one.then_some(problem))
    }

    /// A number that others' settings are unlikely to have, if they are not the same.
    pub(super) fn fingerprint(&self) -> u32 {
        // FNV-1a: the same in every process.
        let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        format!("{self:?}").bytes().fold(0x811c_9dc5, mix)
    }

    /// How many measurements there are between two.
    pub(super) fn measurements(&self) -> u32 {
        self.survey.largest_message.max(1).ilog2() + 1 + self.survey.longest_burst
    }
}

#[cfg(test)]
mod tests {
    use super::RetuningSettings;

    #[test]
    fn settings_that_make_no_sense_are_told() {
        let usual = RetuningSettings::default();
        assert_eq!(usual.problem(), None);
        for broken in [
            RetuningSettings { every: 0, ..usual.clone() },
            RetuningSettings { factor: 1.0, ..usual.clone() },
            RetuningSettings { factor: f64::NAN, ..usual.clone() },
            RetuningSettings { share: 1.5, ..usual.clone() },
            RetuningSettings { gain: -0.1, ..usual.clone() },
        ] {
            assert!(broken.problem().is_some(), "{broken:?}");
            assert_ne!(broken.fingerprint(), usual.fingerprint());
        }
    }
}
