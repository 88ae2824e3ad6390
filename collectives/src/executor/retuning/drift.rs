//! Whether a barrier costs what it is expected to cost.
//!
//! ```text
//!   bursts of barriers ─► window: their median ─► agreed among the members ─► drift: so many in a row that are off
//! ```
//!
//! One late rank, and any turn that another process takes, spoils one burst, which the median leaves out. What spoils a
//! whole window once is forgotten with the next one.

use crate::executor::measuring::pairs::median;

/// What the last bursts took.
#[derive(Debug)]
pub(super) struct Window {
    bursts: Vec<f64>,
    length: usize,
}

impl Window {
    /// One of so many bursts.
    pub(super) fn new(length: u32) -> Self {
        Self { bursts: Vec::new(), length: length as usize }
    }

    /// Takes in another burst; tells the median when there are enough, and begins anew.
    pub(super) fn push(&mut self, burst: f64) -> Option<f64> {
        self.bursts.push(burst);
        (self.bursts.len() >= self.length).then(|| median(std::mem::take(&mut self.bursts)))
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.bursts.clear();
    }
}

/// How far a cost is from what is expected, and for how long.
#[derive(Debug)]
pub(super) struct Drift {
    expected: f64,
    factor: f64,
    enough: u32,
    in_a_row: u32,
}

impl Drift {
    /// None, where `expected` is the cost. `enough` windows in a row that are off by more than `factor`, upwards or
    /// downwards, are a drift.
    pub(super) fn new(expected: f64, factor: f64, enough: u32) -> Self {
        Self { expected, factor, enough, in_a_row: 0 }
    }

    /// Takes in what a window found; tells whether that is a drift. It stays one until a window finds the expected
    /// cost, or there is another one to expect.
    pub(super) fn observe(&mut self, cost: f64) -> bool {
        let is_expected = (self.expected / self.factor..=self.expected * self.factor).contains(&cost);
        self.in_a_row = if is_expected { 0 } else { self.in_a_row.saturating_add(1) };
        self.in_a_row >= self.enough
    }

    /// From now on, another cost is expected.
    pub(super) fn expect(&mut self, expected: f64) {
        self.expected = expected;
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Drift, Window};

    /// After how many bursts drifts were found, each of which is followed by the expectation of what was measured.
    fn found(expected: f64, bursts: impl IntoIterator<Item = f64>) -> Vec<usize> {
        let (mut window, mut drift) = (Window::new(8), Drift::new(expected, 2.0, 3));
        let mut found = Vec::new();
        for (number, burst) in bursts.into_iter().enumerate() {
            if let Some(cost) = window.push(burst)
                && drift.observe(cost)
            {
                found.push(number + 1);
                drift.expect(cost);
            }
        }
        found
    }

    /// Bursts of barriers of four threads on two cores, as a member has timed them in a build for debugging, in
    /// nanoseconds.
    const RECORDED: [f64; 24] = [
        7457.0, 6556.0, 5294.0, 5246.0, 5638.0, 5296.0, 5388.0, 5410.0, 5452.0, 5389.0, 5362.0, 5379.0,
        5425.0, 5376.0, 5350.0, 5042.0, 5600.0, 5089.0, 5505.0, 5540.0, 5142.0, 4892.0, 5557.0, 5345.0,
    ];

    /// The same, where every fifth burst is in the way of another process's turn of 4 ms.
    fn disturbed() -> impl Iterator<Item = f64> {
        (0..).zip(RECORDED.into_iter().cycle()).map(|(number, cost)| match number % 5 {
            3 => cost + 4e6 / 16.0,
            _ => cost,
        })
    }

    #[test]
    fn costs_that_stay_are_no_drift() {
        assert!(found(5400.0, RECORDED.into_iter().cycle().take(2400)).is_empty());
        assert!(found(5400.0, disturbed().take(2400)).is_empty());
    }

    #[test]
    fn a_drift_is_found_once_after_three_windows() {
        let slow = disturbed().map(|cost| 3.0 * cost).take(2400);
        assert_eq!(found(5400.0, disturbed().take(240).chain(slow)), [240 + 24]);
        // Whatever has become cheaper may be done better in another way, too.
        assert_eq!(found(16_200.0, disturbed().take(2400)), [24]);
    }

    #[test]
    fn what_is_predicted_wrongly_is_a_drift_and_what_is_no_number_too() {
        assert_eq!(found(300.0, [1200.0; 80]), [24]);
        assert_eq!(found(f64::NAN, [1200.0; 80]), [24]);
    }

    #[test]
    fn two_windows_that_are_off_are_forgotten() {
        let series = [[9000.0; 16].as_slice(), &[1000.0; 8]].concat();
        assert!(found(1000.0, series.into_iter().cycle().take(2400)).is_empty());
    }

    proptest! {
        #[test]
        fn a_late_rank_is_no_slow_barrier(
            late in prop::collection::vec((0_usize..8, 0_usize..8, 1e3_f64..1e9), 50), cost in 10.0_f64..1e5
        ) {
            // Up to two bursts of each window are spoilt, by whatever.
            let bursts = late.iter().flat_map(|&(one, other, by)| {
                let mut window = [cost; 8];
                window[one] += by;
                window[other] += by;
                window
            });
            prop_assert!(found(cost, bursts).is_empty());
        }
    }
}
