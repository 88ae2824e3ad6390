//! Computing while a message is sent: the paper's figure 10.

use std::time::Duration;

use svmio_transport::Result;
use svmio_transport::message::Messenger;

use super::super::plan::{Effort, Plan, Point, Protocol, Variant};
use super::{Place, Side};

/// How long both rest before each message. A shaped link lets a burst through after a pause (128 KiB, full again after
/// 1.05 ms at 1 Gbit/s): without a rest, whatever follows a computation would have more of that than what follows a
/// message.
const REST: Duration = Duration::from_millis(3);

/// Seconds altogether for each way of sending, size and computation.
pub(super) fn measure(place: &Place<'_>, plan: &Plan, compute: &[f64]) -> Result<Vec<Point>> {
    let asynchronous = plan.protocols.iter().copied().map(Variant::Asynchronous);
    let variants: Vec<Variant> =
        [Variant::Synchronous(Protocol::Automatic)].into_iter().chain(asynchronous).collect();
    let messengers = place.messengers(&variants)?;
    let mut points = Vec::new();
    for &size in &plan.sizes {
        let mut buffer = vec![1; size as usize];
        for messenger in &messengers {
            // Connecting, registering and first touches are not what counts.
            for _ in 0..2 {
                one(place, messenger, &mut buffer, Duration::ZERO)?;
            }
        }
        for &compute in compute {
            let duration = Duration::from_secs_f64(compute);
            let mut seconds = vec![Vec::new(); variants.len()];
            let mut alone = Vec::new();
            for _ in 0..samples(plan, compute) {
                for (messenger, seconds) in messengers.iter().zip(&mut seconds) {
                    seconds.push(one(place, messenger, &mut buffer, duration)?.as_secs_f64());
                }
                alone.push(computation(place, duration)?.as_secs_f64());
            }
            let of_compute = variants.iter().copied().zip(seconds).chain([(Variant::Computation, alone)]);
            points.extend(of_compute.map(|(variant, seconds)| Point { variant, size, compute, seconds }));
        }
    }
    Ok(points)
}

/// What is short is measured more often.
fn samples(plan: &Plan, compute: f64) -> u32 {
    match plan.effort {
        Effort::Real if compute < 2e-3 => plan.repeat * 5,
        Effort::Real => plan.repeat * 3,
        Effort::Virtual => plan.repeat,
    }
}

/// How long it takes until the sender has computed and both have the message behind them.
fn one(place: &Place<'_>, messenger: &Messenger, buffer: &mut [u8], compute: Duration) -> Result<Duration> {
    place.fabric.back_end().sleep(REST);
    place.meet()?;
    let own = match place.side {
        Side::First => place.timed(|| {
            messenger.scope(|scope| {
                let request = scope.send(place.peer, buffer)?;
                place.fabric.back_end().compute(compute);
                request.wait().map(drop)
            })
        })?,
        Side::Second => place.timed(|| messenger.receive(place.peer, buffer).map(drop))?,
    };
    Ok(own.max(place.told(own)?))
}

/// How long the computation takes beside a peer that does nothing: longer than it needs a processor, which is not its
/// own.
fn computation(place: &Place<'_>, compute: Duration) -> Result<Duration> {
    place.meet()?;
    let own = match place.side {
        Side::First => place.timed(|| {
            place.fabric.back_end().compute(compute);
            Ok(())
        })?,
        Side::Second => Duration::ZERO,
    };
    Ok(own.max(place.told(own)?))
}
