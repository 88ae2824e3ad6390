//! Transfers by DMA from segment to segment, with no message protocol around them.

use std::ptr::NonNull;
use std::sync::Arc;

use svmio_transport::back_end::Backing;
use svmio_transport::dma::{Completion, Direction, Transfer};
use svmio_transport::{RemoteSegment, Result, SegmentId, SharedMemory, UserMemory};

use super::super::plan::{Plan, Point, Variant};
use super::{Place, Side};

/// Of a space that nobody else in these processes uses.
const SEGMENT: SegmentId = SegmentId::new(u32::MAX, 0);

/// Seconds from handing over to arrival, for each size.
pub(super) fn measure(place: &Place<'_>, plan: &Plan) -> Result<Vec<Point>> {
    let length = plan.sizes.iter().copied().max().unwrap_or(0);
    let segment = place.fabric.create(SEGMENT, &Backing::Anonymous { length })?;
    place.meet_all()?;
    let mut points = Vec::new();
    if place.side == Side::First {
        let remote = place.fabric.connect(place.peer, SEGMENT)?;
        for &size in &plan.sizes {
            // The first one connects and warms up.
            let times =
                (0..=plan.repeat).map(|_| place.timed(|| transfer(place, segment.memory(), &remote, size)));
            let seconds =
                times.map(|time| time.map(|time| time.as_secs_f64())).collect::<Result<Vec<_>>>()?;
            let seconds = seconds[1..].to_vec();
            points.push(Point { variant: Variant::Transfer, size, compute: 0.0, seconds });
        }
    }
    // The segment stays as long as it is written to.
    place.meet_all()?;
    Ok(points)
}

/// Hands `size` bytes over, as one chain, and waits for their arrival.
fn transfer(place: &Place<'_>, from: &SharedMemory, to: &RemoteSegment, size: u64) -> Result<()> {
    let largest = place.fabric.capabilities().largest_transfer;
    let mut chain = Vec::new();
    let mut offset = 0;
    while offset < size {
        let length = largest.min(size - offset) as usize;
        let Some(start) = NonNull::new(from.span(offset, length)?) else { break };
        let local = UserMemory { start, length };
        chain.push(Transfer { direction: Direction::Write, local, remote: to.remote(), offset });
        offset += length as u64;
    }
    let done = Arc::new(Completion::new());
    // SAFETY: the local memory is the segment's, whose owner keeps it until all have met again, and nobody writes to
    // it. That is after the chain's end: it is waited for here.
    unsafe { place.fabric.post(chain, &done) }?;
    place.fabric.wait_for(&done)
}
