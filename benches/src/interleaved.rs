//! Comparing runs on a machine whose speed drifts.

use std::str::FromStr;

/// How often each side of a comparison is run.
pub const REPETITIONS: usize = 5;

/// How often, where a comparison is only to show that nothing is far from what it was.
pub const CHECKED: usize = 3;

/// How often, or how many, as an option says it.
///
/// # Errors
/// Where that is not at least one.
pub fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let number = text.parse::<T>().ok().filter(|number| *number >= T::from(1));
    number.ok_or_else(|| "a number above zero is needed".to_owned())
}

/// Runs the sides in turn, each [`REPETITIONS`] times, and gives the median of each value of each side.
pub fn medians<const VALUES: usize>(
    sides: usize,
    mut run: impl FnMut(usize) -> [f64; VALUES],
) -> Vec<[f64; VALUES]> {
    let medians = medians_of_lists(sides, |side| run(side).to_vec());
    medians.into_iter().map(|values| std::array::from_fn(|value| values[value])).collect()
}

/// The same for any number of values, as many in each run.
pub fn medians_of_lists(sides: usize, run: impl FnMut(usize) -> Vec<f64>) -> Vec<Vec<f64>> {
    summaries(REPETITIONS, sides, median, run)
}

/// The smallest of each value of [`CHECKED`] runs instead: what a side takes when nobody disturbs it.
pub fn least_of_lists(sides: usize, run: impl FnMut(usize) -> Vec<f64>) -> Vec<Vec<f64>> {
    summaries(CHECKED, sides, |values| values.into_iter().fold(f64::INFINITY, f64::min), run)
}

/// The largest of each value of as many.
pub fn most_of_lists(sides: usize, run: impl FnMut(usize) -> Vec<f64>) -> Vec<Vec<f64>> {
    summaries(CHECKED, sides, |values| values.into_iter().fold(f64::NEG_INFINITY, f64::max), run)
}

fn summaries(
    repetitions: usize,
    sides: usize,
    summary: fn(Vec<f64>) -> f64,
    run: impl FnMut(usize) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    let runs = in_turn(repetitions, sides, run);
    let of_side = |runs: &Vec<Vec<f64>>| {
        (0..runs[0].len()).map(|value| summary(runs.iter().map(|run| run[value]).collect())).collect()
    };
    runs.iter().map(of_side).collect()
}

/// Runs the sides in turn, each so many times, and gives what came of each side's runs.
pub fn in_turn<T>(repetitions: usize, sides: usize, mut run: impl FnMut(usize) -> T) -> Vec<Vec<T>> {
    let mut runs: Vec<Vec<T>> = (0..sides).map(|_| Vec::new()).collect();
    for _ in 0..repetitions {
        for (side, runs) in runs.iter_mut().enumerate() {
            runs.push(run(side));
        }
    }
    runs
}

/// The median of some values; of an even number, the mean of both in the middle. Not a number where one is not, or there
/// is none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        _ if values.iter().any(|value| value.is_nan()) => f64::NAN,
        count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_run_in_turn_and_each_value_has_its_own_median() {
        let mut order = Vec::new();
        let medians = medians(2, |side| {
            order.push(side);
            let number = order.len() as f64;
            [number, -number * (side as f64)]
        });
        assert_eq!(order, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(medians, [[5.0, 0.0], [6.0, -6.0]]);
    }

    #[test]
    fn neither_side_of_the_middle_is_preferred_and_what_failed_is_not_passed_by() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![8.0, 1.0, 2.0, 4.0]), 3.0);
        assert!(median(vec![1.0, f64::NAN, 2.0]).is_nan());
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn the_least_and_the_most_are_those_of_each_value() {
        let mut count = 0.0;
        let least = least_of_lists(1, |_| {
            count += 1.0;
            vec![count, -count]
        });
        assert_eq!(least, [[1.0, -(CHECKED as f64)]]);
        let mut count = 0.0;
        let most = most_of_lists(1, |_| {
            count += 1.0;
            vec![count, -count]
        });
        assert_eq!(most, [[CHECKED as f64, -1.0]]);
    }
}
