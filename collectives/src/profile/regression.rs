//! The straight line through measurements.

use serde::{Deserialize, Serialize};

/// How much each measurement counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// All the same, as the paper has it. With sizes from a byte to a mebibyte, the largest alone decide, and their
    /// noise can be more than what a small message costs at all.
    Equal,
    /// By the inverse square of what was measured: relative errors count. What is less than a millionth of the largest
    /// counts as much as that: a clock may tell no time at all.
    #[default]
    Relative,
}

/// Which part of the largest height the least is, for relative errors.
const LEAST: f64 = 1e-6;

/// A straight line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Its height at zero.
    pub intercept: f64,
    /// How much it rises per unit.
    pub slope: f64,
}

impl Line {
    /// The line from which `points` (place, height) are least far, by the sum of weighted squares. None for fewer than
    /// two different places, or for heights that are no numbers.
    #[must_use]
    pub fn through(points: &[(f64, f64)], weights: Weights) -> Option<Self> {
        let largest = points.iter().map(|&(_, y)| y).fold(0.0, f64::max);
        let weight = |height: f64| match weights {
            Weights::Relative if largest > 0.0 => (largest / height.max(LEAST * largest)).powi(2),
            _ => 1.0,
        };
        let total: f64 = points.iter().map(|&(_, y)| weight(y)).sum();
        let mean = |of: fn(&(f64, f64)) -> f64| {
            points.iter().map(|point| weight(point.1) * of(point)).sum::<f64>() / total
        };
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let (mut covariance, mut variance) = (0.0, 0.0);
        for &(x, y) in points {
            covariance += weight(y) * (x - mean_x) * (y - mean_y);
            variance += weight(y) * (x - mean_x).powi(2);
        }
        let slope = covariance / variance;
        slope.is_finite().then_some(Self { intercept: mean_y - slope * mean_x, slope })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Line, Weights};

    proptest! {
        #[test]
        fn points_on_a_line_give_the_line(intercept in 1.0..1e5_f64, slope in 0.0..10.0_f64) {
            let places = (0..=20).map(|power| f64::from(1 << power));
            let points: Vec<_> = places.map(|x| (x, intercept + slope * x)).collect();
            for weights in [Weights::Equal, Weights::Relative] {
                let line = Line::through(&points, weights).unwrap();
                prop_assert!((line.intercept - intercept).abs() < 1e-6 * (intercept + slope * 1e6), "{line:?}");
                prop_assert!((line.slope - slope).abs() < 1e-6 * (slope + 1.0), "{line:?}");
            }
        }
    }

    #[test]
    fn a_wrong_measurement_at_the_far_end_hides_the_intercept_unless_errors_are_relative() {
        let mut points: Vec<_> =
            (0..=20).map(|power| f64::from(1 << power)).map(|x| (x, 500.0 + 0.1 * x)).collect();
        points[20].1 *= 1.5;
        let intercept = |weights| Line::through(&points, weights).unwrap().intercept;
        assert!(intercept(Weights::Equal) < 0.0);
        assert!((intercept(Weights::Relative) - 500.0).abs() < 25.0);
    }

    #[test]
    fn what_took_no_time_that_a_clock_tells_has_a_line_all_the_same() {
        let points = [(1.0, 5.0), (2.0, 5.0), (4.0, 0.0), (8.0, 5.0)];
        for weights in [Weights::Equal, Weights::Relative] {
            let line = Line::through(&points, weights).unwrap();
            assert!(line.intercept.is_finite(), "{line:?}");
            // Between the lowest and the highest.
            assert!((-0.1..=5.0).contains(&(line.intercept + 4.0 * line.slope)), "{line:?}");
            let nothing = points.map(|(place, _)| (place, 0.0));
            assert_eq!(Line::through(&nothing, weights), Some(Line { intercept: 0.0, slope: 0.0 }));
            // However small or large all are.
            for scale in [1e-300, 1e300_f64.sqrt()] {
                let line = Line::through(&points.map(|(x, y)| (x, y * scale)), weights).unwrap();
                assert!(line.intercept.is_finite(), "{scale}: {line:?}");
            }
        }
    }

    #[test]
    fn one_place_gives_no_line() {
        assert_eq!(Line::through(&[], Weights::Equal), None);
        assert_eq!(Line::through(&[(1.0, 2.0), (1.0, 3.0)], Weights::Equal), None);
        assert_eq!(Line::through(&[(1.0, 2.0), (2.0, f64::NAN)], Weights::Equal), None);
    }
}
