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
    /// How many seconds `asynchronous` is more than `synchronous`.
    pub(crate) break_even_calculated: f64,
    /// For each computation that takes at least as long as the transfer at rest, how much of the transfer it hid, 0 to 1;
    /// the least. None where none was as long.
    pub(crate) hidden: Option<f64>,
    /// The same for computations of at least twice the transfer: where both ends copy at rest, and beside a computation
    /// only the receiver, they are the first that can hide all of it.
    pub(crate) hidden_by_double: Option<f64>,
    /// As `hidden`, of a bare copy beside the same computations: no message can be hidden better.
    pub(crate) bare_hidden: Option<f64>,
    /// As `hidden_by_double`, of a bare copy beside the same computations.
    pub(crate) bare_hidden_by_double: Option<f64>,
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
    /// Seconds that the asynchronous transfer took in the same rounds without a computation.
    pub(crate) transfer: f64,
    /// Seconds by which the computation with the asynchronous transfer took longer than alone.
    pub(crate) not_hidden: f64,
    /// How much of the asynchronous transfer was hidden, 0 to 1: what of it was not beside the computation, as long as
    /// that takes alone. A computation can hide no more than its own time; measured, it may be a little outside of
    /// that.
    pub(crate) hidden: f64,
    /// What came of a bare copy, where the fabric has memory that both map.
    pub(crate) bare: Option<Bare>,
}

/// A copy by the peer without any message: a word tells it to begin, another one that it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Bare {
    /// Seconds without a computation.
    pub(crate) transfer: f64,
    /// Seconds by which the computation with the copy took longer than alone.
    pub(crate) not_hidden: f64,
    /// How much of the copy was hidden, 0 to 1.
    pub(crate) hidden: f64,
}

/// How the repetitions of a measurement become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Summary {
    /// The middle one, and of differences the middle one between what was measured in the same rounds.
    Median,
    /// The least one, and the difference of the least ones: what nobody disturbed.
    Least,
}

impl Summary {
    fn of(self, point: &Point) -> f64 {
        match self {
            Summary::Median => point.median(),
            Summary::Least => point.least(),
        }
    }

    /// How much more `longer` is than `shorter`.
    fn difference(self, longer: &Point, shorter: &Point) -> f64 {
        match self {
            Summary::Median => longer.median_beyond(shorter),
            Summary::Least => longer.least() - shorter.least(),
        }
    }
}

impl Hiding {
    /// What `points` tell, each by its `summary`, of messages of `size` bytes. They have a measurement without
    /// computation for both variants.
    pub(crate) fn of(points: &[Point], size: u64, asynchronous: Variant, summary: Summary) -> Option<Hiding> {
        let Variant::Asynchronous(protocol) = asynchronous else { return None };
        let find = |compute: f64, is_wanted: &dyn Fn(Variant) -> bool| {
            points.iter().find(|p| p.size == size && p.compute == compute && is_wanted(p.variant))
        };
        let is_synchronous = |variant| matches!(variant, Variant::Synchronous(_));
        let mut computes: Vec<f64> = points.iter().filter(|p| p.size == size).map(|p| p.compute).collect();
        computes.sort_by(f64::total_cmp);
        computes.dedup();
        let step = |compute| {
            let find = |wanted: Variant| find(compute, &|variant| variant == wanted);
            let alone = find(Variant::Computation)?;
            let bare = |(beside, at_rest): (&Point, &Point)| {
                let (transfer, not_hidden) = (summary.of(at_rest), summary.difference(beside, alone));
                Bare { transfer, not_hidden, hidden: 1.0 - not_hidden / transfer }
            };
            let transfer = summary.of(find(Variant::AtRest(protocol))?);
            let not_hidden = summary.difference(find(asynchronous)?, alone);
            Some(Step {
                compute,
                synchronous: summary.of(points
                    .iter()
                    .find(|p| p.size == size && p.compute == compute && is_synchronous(p.variant))?),
                asynchronous: summary.of(find(asynchronous)?),
                transfer,
                not_hidden,
                hidden: 1.0 - not_hidden / transfer,
                bare: find(Variant::Bare).zip(find(Variant::BareAtRest)).map(bare),
            })
        };
        let steps: Vec<Step> = computes.into_iter().filter_map(step).collect();
        let at_rest = [find(0.0, &is_synchronous)?, find(0.0, &|variant| variant == asynchronous)?];
        let calculated = summary.difference(at_rest[1], at_rest[0]);
        let hidden = |factor| least(&steps, factor, |step| Some(step.hidden));
        let bare_hidden = |factor| least(&steps, factor, |step| step.bare.map(|bare| bare.hidden));
        Some(Hiding {
            size,
            synchronous: summary.of(at_rest[0]),
            asynchronous: summary.of(at_rest[1]),
            break_even_measured: meeting(&steps, calculated),
            break_even_calculated: calculated,
            hidden: hidden(ONCE),
            hidden_by_double: hidden(DOUBLE),
            bare_hidden: bare_hidden(ONCE),
            bare_hidden_by_double: bare_hidden(DOUBLE),
            steps,
        })
    }
}

/// How many times as long as the transfer at rest a computation is that should hide it,
const ONCE: f64 = 1.0;

/// and that can hide it also where the receiver then does alone what both do at rest.
const DOUBLE: f64 = 2.0;

/// Times that differ by no more than this share of the transfer's are the same: processors are not one's own.
const NOISE: f64 = 0.02;

/// The least share of those computations that are `factor` times as long as the transfer, or longer.
fn least(steps: &[Step], factor: f64, share: impl Fn(&Step) -> Option<f64>) -> Option<f64> {
    let long = steps.iter().filter(|step| step.compute >= factor * step.transfer);
    long.filter_map(share).min_by(f64::total_cmp)
}

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
                point(Variant::AtRest(Protocol::RendezvousStaged), compute, asynchronous),
                point(Variant::Computation, compute, compute),
            ]
        });
        of_all.collect()
    }

    #[test]
    fn the_papers_break_even_point_is_found_both_ways() {
        let hiding = Hiding::of(&points(0.018, 0.029), 1 << 20, ASYNCHRONOUS, Summary::Median).unwrap();
        assert!((hiding.break_even_calculated - 0.011).abs() < 1e-12);
        assert!((hiding.break_even_measured.unwrap() - 0.011).abs() < 1e-3, "{hiding:?}");
        assert!((hiding.hidden.unwrap() - 1.0).abs() < 1e-12, "{hiding:?}");
        assert!((hiding.steps[1].hidden - 0.01 / 0.029).abs() < 1e-12);
        assert_eq!((hiding.bare_hidden, hiding.steps[1].bare), (None, None));
    }

    #[test]
    fn what_is_hidden_is_judged_from_once_and_from_twice_the_transfer_on() {
        let mut points = points(0.018, 0.029);
        let beside = |points: &mut Vec<Point>, compute: f64, seconds: f64| {
            let of_message = points.iter_mut().filter(|point| point.variant == ASYNCHRONOUS);
            of_message
                .filter(|point| point.compute == compute)
                .for_each(|point| point.seconds = vec![seconds]);
        };
        // 40 ms are longer than 29, but less than twice as long; 20 are shorter, and judged by neither.
        beside(&mut points, 0.04, 0.04 + 0.029 * 0.25);
        beside(&mut points, 0.06, 0.06 + 0.029 * 0.125);
        beside(&mut points, 0.02, 0.02 + 0.029);
        let hiding = Hiding::of(&points, 1 << 20, ASYNCHRONOUS, Summary::Median).unwrap();
        assert!((hiding.hidden.unwrap() - 0.75).abs() < 1e-9, "{hiding:?}");
        assert!((hiding.hidden_by_double.unwrap() - 0.875).abs() < 1e-9, "{hiding:?}");
        points.retain(|point| point.compute < 0.06);
        let hiding = Hiding::of(&points, 1 << 20, ASYNCHRONOUS, Summary::Median).unwrap();
        assert_eq!((hiding.hidden.is_some(), hiding.hidden_by_double), (true, None));
        points.retain(|point| point.compute < 0.04);
        let hiding = Hiding::of(&points, 1 << 20, ASYNCHRONOUS, Summary::Median).unwrap();
        assert_eq!((hiding.hidden, hiding.hidden_by_double), (None, None));
    }

    #[test]
    fn what_is_never_slower_breaks_even_below_zero() {
        let hiding = Hiding::of(&points(0.018, 0.017), 1 << 20, ASYNCHRONOUS, Summary::Median).unwrap();
        assert!((hiding.break_even_measured.unwrap() + 0.001).abs() < 1e-12);
    }

    #[test]
    fn what_is_even_but_for_noise_breaks_even_at_once() {
        let mut points = points(0.018, 0.018);
        for point in points.iter_mut().filter(|point| point.variant == SYNCHRONOUS) {
            point.seconds = vec![f64::max(0.0178, point.compute)];
        }
        let hiding = Hiding::of(&points, 1 << 20, ASYNCHRONOUS, Summary::Median).unwrap();
        assert_eq!(hiding.break_even_measured, Some(0.0));
    }

    #[test]
    fn what_hides_nothing_never_breaks_even() {
        let mut points = points(0.018, 0.029);
        for point in points.iter_mut().filter(|point| point.variant == ASYNCHRONOUS) {
            point.seconds = vec![0.029 + point.compute];
        }
        let hiding = Hiding::of(&points, 1 << 20, ASYNCHRONOUS, Summary::Median).unwrap();
        assert_eq!(hiding.break_even_measured, None);
        assert!(hiding.hidden.unwrap().abs() < 1e-12);
        assert_eq!(Hiding::of(&points, 4, ASYNCHRONOUS, Summary::Median), None);
    }
}
