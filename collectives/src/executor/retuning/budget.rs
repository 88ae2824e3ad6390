//! How much time re-tuning may take.
//!
//! To restructure a barrier pays only where it is amortised over many barriers that follow (J. C. Meyer and A. C.
//! Elster, "Optimized Barriers for Heterogeneous Systems Using MPI", section VIII). What follows is not known, so
//! re-tuning gets a share of the time that has passed: what was done so often is likely to be done as often again.

/// How often what is planned may be doubled.
const MOST_DOUBLINGS: u32 = 10;

/// What was spent, and what may be. All times are nanoseconds that the members have agreed upon, from the beginning on.
#[derive(Debug)]
pub(super) struct Budget {
    share: f64,
    spent: f64,
    /// When the last attempt was over.
    last: f64,
    fruitless: u32,
}

impl Budget {
    /// One of so large a share of all time.
    pub(super) fn new(share: f64) -> Self {
        Self { share, spent: 0.0, last: 0.0, fruitless: 0 }
    }

    /// Whether it is time for something that is likely to take `planned`: that much is saved up since the last
    /// attempt. Each attempt in a row that has changed nothing lets the next one save up for twice as long.
    pub(super) fn allows(&self, planned: f64, elapsed: f64) -> bool {
        let doublings = self.fruitless.min(MOST_DOUBLINGS);
        planned * f64::from(1_u32 << doublings) <= self.share * (elapsed - self.last)
            && self.spent + planned <= self.share * elapsed
    }

    /// An attempt took so long, is over, and was for something or not.
    pub(super) fn charge(&mut self, spent: f64, elapsed: f64, was_fruitful: bool) {
        self.spent += spent;
        self.last = elapsed;
        self.fruitless = if was_fruitful { 0 } else { self.fruitless.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn attempts_in_vain_become_rare_and_all_of_them_stay_within_the_share() {
        let (mut budget, mut spent, mut attempts) = (Budget::new(0.02), 0.0, Vec::new());
        for second in 1..=10_000_u32 {
            let elapsed = f64::from(second) * 1e9;
            if budget.allows(1e8, elapsed) {
                budget.charge(1e8, elapsed, false);
                spent += 1e8;
                attempts.push(second);
            }
            assert!(spent <= 0.02 * elapsed);
        }
        // A tenth of a second is a fiftieth of five.
        assert_eq!(attempts, [5, 15, 35, 75, 155, 315, 635, 1275, 2555, 5115]);
    }

    #[test]
    fn an_attempt_that_was_for_something_ends_the_waiting() {
        let mut budget = Budget::new(0.5);
        budget.charge(10.0, 20.0, false);
        assert!(budget.allows(10.0, 60.0) && !budget.allows(10.0, 59.0));
        budget.charge(10.0, 60.0, true);
        assert!(budget.allows(10.0, 80.0) && !budget.allows(10.0, 79.0));
    }

    #[test]
    fn what_took_longer_than_planned_is_saved_up_afterwards() {
        let mut budget = Budget::new(0.1);
        budget.charge(1000.0, 1000.0, true);
        assert!(!budget.allows(10.0, 10_000.0) && budget.allows(10.0, 10_100.0));
    }
}
