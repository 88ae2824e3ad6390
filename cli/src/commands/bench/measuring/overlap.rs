//! Computing while a message is sent: the paper's figure 10.

use std::time::Duration;

use svmio_transport::Result;
use svmio_transport::message::Messenger;

use super::super::plan::{Effort, Plan, Point, Protocol, Variant};
use super::bare::BareCopy;
use super::{Place, Side, core};

/// How long both compute before each measurement, as a program does between its messages: caches and cores are then as
/// a computation leaves them, whatever was measured before. A shaped link lets a burst through after a pause, so that
/// it has to be the same pause before each message, too.
const BEFORE: Duration = Duration::from_millis(3);

/// Seconds altogether for each way of sending, size and computation.
pub(super) fn measure(place: &Place<'_>, plan: &Plan, compute: &[f64]) -> Result<Vec<Point>> {
    let asynchronous = plan.protocols.iter().copied().map(Variant::Asynchronous);
    let variants: Vec<Variant> =
        [Variant::Synchronous(Protocol::Automatic)].into_iter().chain(asynchronous).collect();
    let messengers = place.messengers(&variants)?;
    let largest = plan.sizes.iter().copied().max().unwrap_or(0);
    let bare = match plan.effort {
        Effort::Real => BareCopy::of(place, largest)?,
        // Who waits by looking at memory lets no virtual time pass.
        Effort::Virtual => None,
    };
    let mut cases = Vec::new();
    for (messenger, &variant) in messengers.iter().zip(&variants) {
        cases.push(Case { variant, act: Act::Message(messenger), computes: true });
        if let Variant::Asynchronous(protocol) = variant {
            let variant = Variant::AtRest(protocol);
            cases.push(Case { variant, act: Act::Message(messenger), computes: false });
        }
    }
    cases.push(Case { variant: Variant::Computation, act: Act::Nothing, computes: true });
    if let Some(bare) = &bare {
        cases.push(Case { variant: Variant::Bare, act: Act::Copy(bare), computes: true });
        cases.push(Case { variant: Variant::BareAtRest, act: Act::Copy(bare), computes: false });
    }
    let mut points = Vec::new();
    for &size in &plan.sizes {
        let mut buffer = vec![1; size as usize];
        // Connecting, registering and first touches are not what counts.
        for _ in 0..2 {
            cases.iter().try_for_each(|case| case.seconds(place, &mut buffer, Duration::ZERO).map(drop))?;
        }
        if plan.effort == Effort::Real {
            core::keep(place.fabric);
        }
        for &compute in compute {
            let duration = Duration::from_secs_f64(compute);
            let mut seconds = vec![Vec::new(); cases.len()];
            for round in 0..samples(plan, compute) {
                // Each is the first of a round as often as the others.
                for turn in 0..cases.len() {
                    let at = (round as usize + turn) % cases.len();
                    seconds[at].push(cases[at].seconds(place, &mut buffer, duration)?);
                }
            }
            let of_compute = cases.iter().zip(seconds);
            points.extend(of_compute.map(|(case, seconds)| Point {
                variant: case.variant,
                size,
                compute,
                seconds,
            }));
        }
    }
    // A segment stays as long as the peer looks into it.
    place.meet()?;
    Ok(points)
}

/// What is short is measured more often.
fn samples(plan: &Plan, compute: f64) -> u32 {
    match plan.effort {
        Effort::Real if compute < 2e-3 => plan.repeat * 10,
        Effort::Real => plan.repeat * 3,
        Effort::Virtual => plan.repeat,
    }
}

/// What is measured in turn, round by round.
struct Case<'a> {
    variant: Variant,
    act: Act<'a>,
    /// Whether the sender computes meanwhile.
    computes: bool,
}

enum Act<'a> {
    Message(&'a Messenger),
    Copy(&'a BareCopy),
    Nothing,
}

impl Case<'_> {
    /// How long it takes until the sender has computed and both have the message behind them. A computation is a fixed
    /// amount of processor time, so what takes the processor away meanwhile makes it longer.
    fn seconds(&self, place: &Place<'_>, buffer: &mut [u8], compute: Duration) -> Result<f64> {
        place.fabric.back_end().compute(BEFORE);
        place.meet()?;
        let compute = || {
            if self.computes && !compute.is_zero() {
                place.fabric.back_end().compute(compute);
            }
        };
        let own = match (&self.act, place.side) {
            (Act::Message(messenger), Side::First) => place.timed(|| {
                messenger.scope(|scope| {
                    let request = scope.send(place.peer, buffer)?;
                    compute();
                    request.wait().map(drop)
                })
            })?,
            (Act::Message(messenger), Side::Second) => {
                place.timed(|| messenger.receive(place.peer, buffer).map(drop))?
            }
            (Act::Copy(bare), Side::First) => place.timed(|| bare.send(compute))?,
            (Act::Copy(bare), Side::Second) => place.timed(|| bare.receive(buffer))?,
            (Act::Nothing, Side::First) => place.timed(|| {
                compute();
                Ok(())
            })?,
            (Act::Nothing, Side::Second) => Duration::ZERO,
        };
        Ok(own.max(place.told(own)?).as_secs_f64())
    }
}
