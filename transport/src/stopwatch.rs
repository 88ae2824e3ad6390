//! How long something has been waited for.

use std::time::{Duration, Instant};

/// The most that counts of the time between two looks: longer ones mean that this process stood still itself, and could
/// not have seen what came. Who waits looks at least so often.
pub(crate) const STEP: Duration = Duration::from_millis(100);

/// Counts the time that this process has waited, and not what it stood still.
pub(crate) struct Stopwatch {
    waited: Duration,
    looked: Instant,
}

impl Stopwatch {
    /// It begins now.
    pub(crate) fn new(now: Instant) -> Self {
        Self { waited: Duration::ZERO, looked: now }
    }

    /// Counts the time since the last look; returns how much it is in all.
    pub(crate) fn look(&mut self, now: Instant) -> Duration {
        self.look_if(now, true)
    }

    /// The same, but the time since the last look counts only if `counts`.
    pub(crate) fn look_if(&mut self, now: Instant, counts: bool) -> Duration {
        if counts {
            self.waited += now.saturating_duration_since(self.looked).min(STEP);
        }
        self.looked = now;
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{STEP, Stopwatch};

    #[test]
    fn time_in_which_the_process_stood_still_counts_little() {
        let began = Instant::now();
        let mut stopwatch = Stopwatch::new(began);
        let short = Duration::from_millis(30);
        assert_eq!(stopwatch.look(began + short), short);
        assert_eq!(stopwatch.look(began + Duration::from_secs(40)), short + STEP);
        assert_eq!(stopwatch.look(began + Duration::from_secs(40) + short), 2 * short + STEP);
    }

    #[test]
    fn time_that_does_not_count_is_left_out() {
        let began = Instant::now();
        let mut stopwatch = Stopwatch::new(began);
        let short = Duration::from_millis(30);
        assert_eq!(stopwatch.look_if(began + short, true), short);
        assert_eq!(stopwatch.look_if(began + 2 * short, false), short);
        assert_eq!(stopwatch.look_if(began + 3 * short, true), 2 * short);
    }
}
