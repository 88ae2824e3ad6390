//! What overlapping computation and communication brought: how much of a transfer the computation hid, and from which
//! computation on sending asynchronously is the better choice.

use serde::Serialize;

use super::plan::{Point, Variant};

/// What overlapping brought for one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Hiding {
    /// Bytes.
    pub(crate) size: u64,
    /// Seconds that a message takes without any computation, synchronously.
    pub(crate) synchronous: f64,
    /// Seconds that a message takes without any computation, asynchronously.
    pub(crate) asynchronous: f64,
    /// Seconds of computation from which on asynchronous is not slower, where the two curves meet, but for noise; what
    /// `break_even_calculated` says where they meet before the first measured point; none where they do not meet.
    pub(crate) break_even_measured: Option<f64>,
    /// `asynchronous - synchronous`, seconds.
    pub(crate) break_even_calculated: f64,
    /// For each computation that is longer than the transfer, how much of the transfer it hid, 0 to 1; the least. At
    /// rest both ends copy, beside a computation only the receiver: longer is what takes twice as long as at rest.
    pub(crate) hidden: Option<f64>,
    /// The measurements.
    pub(crate) steps: Vec<Step>,
}

/// One computation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Step {
    /// Seconds of computation.
    pub(crate) compute: f64,
    /// Seconds altogether, synchronously.
    pub(crate) synchronous: f64,
    /// Seconds altogether, asynchronously.
    pub(crate) asynchronous: f64,
    /// How much of the asynchronous transfer was hidden, 0 to 1: what of it was not beside the computation, as long as
    /// that takes alone. A computation can hide no more than its own time; measured, it may be a little outside of that.
    pub(crate) hidden: f64,
}

impl Hiding {
    /// What `points` tell, each by its `summary`, of messages of `size` bytes. They have a measurement without
    /// computation for both variants.
    pub(crate) fn of(
        points: &[Point],
        size: u64,
        asynchronous: Variant,
        summary: fn(&Point) -> f64,
    ) -> Option<Hiding> {
        let total = |compute: f64, is_wanted: &dyn Fn(Variant) -> bool| {
            let found =
                points.iter().find(|p| p.size == size && p.compute == compute && is_wanted(p.variant));
            found.map(summary)
        };
        let is_synchronous = |variant| matches!(variant, Variant::Synchronous(_));
        let is_asynchronous = |variant| variant == asynchronous;
        let at_rest = [total(0.0, &is_synchronous)?, total(0.0, &is_asynchronous)?];
        let mut computes: Vec<f64> = points.iter().filter(|p| p.size == size).map(|p| p.compute).collect();
        computes.sort_by(f64::total_cmp);
        computes.dedup();
        let steps: Vec<Step> = computes
            .into_iter()
            .filter_map(|compute| {
                let asynchronous = total(compute, &is_asynchronous)?;
                let alone = total(compute, &|variant| variant == Variant::Computation)?;
                let hidden = (at_rest[1] + alone - asynchronous) / at_rest[1];
                Some(Step { compute, synchronous: total(compute, &is_synchronous)?, asynchronous, hidden })
            })
            .collect();
        let longer = steps.iter().filter(|step| step.compute >= LONGER * at_rest[1]).map(|step| step.hidden);
        let calculated = at_rest[1] - at_rest[0];
        Some(Hiding {
            size,
            synchronous: at_rest[0],
            asynchronous: at_rest[1],
            break_even_measured: meeting(&steps, calculated),
            break_even_calculated: calculated,
            hidden: longer.min_by(f64::total_cmp),
            steps,
        })
    }
}

/// How many times as long as the transfer at rest a computation is that hides it.
const LONGER: f64 = 2.0;

/// Times that differ by no more than this share of the transfer's are the same: processors are not one's own.
const NOISE: f64 = 0.02;

/// Where the curves meet.
fn meeting(steps: &[Step], calculated: f64) -> Option<f64> {
    let lead = |step: &Step| step.asynchronous - step.synchronous;
    let first = steps.first()?;
    if lead(first) <= 0.0 {
        return Some(calculated);
    }
    let is_even = |step: &&Step| lead(step) <= NOISE * first.synchronous;
    let crossing = steps.windows(2).find(|pair| lead(&pair[1]) <= 0.0).map(|pair| {
        let (before, after) = (lead(&pair[0]), lead(&pair[1]));
        pair[0].compute + (pair[1].compute - pair[0].compute) * before / (before - after)
    });
    let touching = steps.iter().find(is_even).map(|step| step.compute);
    match (crossing, touching) {
        (Some(crossing), Some(touching)) => Some(crossing.min(touching)),
        (crossing, touching) => crossing.or(touching),
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Protocol;
    use super::*;

    const SYNCHRONOUS: Variant = Variant::Synchronous(Protocol::Automatic);
    const ASYNCHRONOUS: Variant = Variant::Asynchronous(Protocol::RendezvousStaged);

    /// Curves as in the paper's figure 11: seconds of a synchronous and of an asynchronous message.
    fn points(synchronous: f64, asynchronous: f64) -> Vec<Point> {
        let computes = [0.0, 0.01, 0.02, 0.04, 0.06];
        let point = |variant, compute, total| Point { variant, size: 1 << 20, compute, seconds: vec![total] };
        let of_all = computes.iter().flat_map(|&compute| {
            [
                point(SYNCHRONOUS, compute, synchronous + compute),
                point(ASYNCHRONOUS, compute, f64::max(asynchronous, compute)),
                point(Variant::Computation, compute, compute),
            ]
        });
        of_all.collect()
    }

    #[test]
    fn the_papers_break_even_point_is_found_both_ways() {
        let hiding = Hiding::of(&points(0.018, 0.029), 1 << 20, ASYNCHRONOUS, Point::median).unwrap();
        assert!((hiding.break_even_calculated - 0.011).abs() < 1e-12);
        assert!((hiding.break_even_measured.unwrap() - 0.011).abs() < 1e-3, "{hiding:?}");
        assert!((hiding.hidden.unwrap() - 1.0).abs() < 1e-12, "{hiding:?}");
        assert!((hiding.steps[1].hidden - 0.01 / 0.029).abs() < 1e-12);
    }

    #[test]
    fn what_is_never_slower_breaks_even_below_zero() {
        let hiding = Hiding::of(&points(0.018, 0.017), 1 << 20, ASYNCHRONOUS, Point::median).unwrap();
        assert!((hiding.break_even_measured.unwrap() + 0.001).abs() < 1e-12);
    }

    #[test]
    fn what_is_even_but_for_noise_breaks_even_at_once() {
        let mut points = points(0.018, 0.018);
        for point in points.iter_mut().filter(|point| point.variant == SYNCHRONOUS) {
            point.seconds = vec![f64::max(0.0178, point.compute)];
        }
        let hiding = Hiding::of(&points, 1 << 20, ASYNCHRONOUS, Point::median).unwrap();
        assert_eq!(hiding.break_even_measured, Some(0.0));
    }

    #[test]
    fn what_hides_nothing_never_breaks_even() {
        let mut points = points(0.018, 0.029);
        for point in points.iter_mut().filter(|point| point.variant == ASYNCHRONOUS) {
            point.seconds = vec![0.029 + point.compute];
        }
        let hiding = Hiding::of(&points, 1 << 20, ASYNCHRONOUS, Point::median).unwrap();
        assert_eq!(hiding.break_even_measured, None);
        assert!(hiding.hidden.unwrap().abs() < 1e-12);
        assert_eq!(Hiding::of(&points, 4, ASYNCHRONOUS, Point::median), None);
    }
}
