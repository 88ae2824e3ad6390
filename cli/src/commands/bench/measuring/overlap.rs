//! Computing while a message is sent: the paper's figure 10.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use svmio_transport::Result;
use svmio_transport::message::Messenger;

use super::super::plan::{Effort, Plan, Point, Protocol, Variant};
use super::{Place, Side};

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
            let mut seconds = vec![Vec::new(); variants.len()];
            for _ in 0..samples(plan, compute) {
                for (messenger, seconds) in messengers.iter().zip(&mut seconds) {
                    let elapsed = one(place, messenger, &mut buffer, Duration::from_secs_f64(compute))?;
                    seconds.push(elapsed.as_secs_f64());
                }
            }
            let of_compute = variants.iter().zip(seconds);
            points.extend(of_compute.map(|(&variant, seconds)| Point { variant, size, compute, seconds }));
        }
    }
    Ok(points)
}

/// What is short is measured more often.
fn samples(plan: &Plan, compute: f64) -> u32 {
    match plan.effort {
        Effort::Real if compute < 2e-3 => plan.repeat * 5,
        _ => plan.repeat,
    }
}

/// How long it takes until the sender has computed and both have the message behind them.
fn one(place: &Place<'_>, messenger: &Messenger, buffer: &mut [u8], compute: Duration) -> Result<Duration> {
    place.meet()?;
    let own = match place.side {
        Side::First => {
            let mut disturbed = Duration::ZERO;
            let elapsed = place.timed(|| {
                messenger.scope(|scope| {
                    let request = scope.send(place.peer, buffer)?;
                    if !compute.is_zero() {
                        disturbed = computed(place, compute)?;
                    }
                    request.wait().map(drop)
                })
            })?;
            elapsed.saturating_sub(disturbed)
        }
        Side::Second => place.timed(|| messenger.receive(place.peer, buffer).map(drop))?,
    };
    Ok(own.max(place.told(own)?))
}

/// Computes; returns for how long somebody else had the processor: that is not the message's time. What threads of this
/// process worked meanwhile is.
fn computed(place: &Place<'_>, compute: Duration) -> Result<Duration> {
    let others = || {
        let [process, thread] = [ClockId::ProcessCPUTime, ClockId::ThreadCPUTime].map(clock_gettime);
        let nanoseconds = |time: Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        Duration::from_nanos(nanoseconds(process).saturating_sub(nanoseconds(thread)))
    };
    let mut own_threads = Duration::ZERO;
    let elapsed = place.timed(|| {
        let before = others();
        place.fabric.back_end().compute(compute);
        own_threads = others().saturating_sub(before);
        Ok(())
    })?;
    Ok(elapsed.saturating_sub(compute).saturating_sub(own_threads))
}
