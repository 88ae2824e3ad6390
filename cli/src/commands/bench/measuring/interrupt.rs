//! Remote interrupts to and fro, each waited for asleep.

use svmio_transport::{Interrupt, Rank, Result};

use super::super::plan::{Plan, Point, Variant};
use super::{Place, Side};

/// The first one: messengers number theirs from the last one down.
const INTERRUPT: Interrupt = Interrupt(0);

/// Seconds of half a round trip, each of them.
pub(super) fn measure(place: &Place<'_>, plan: &Plan, round_trips: u32) -> Result<Vec<Point>> {
    let mut seconds = Vec::new();
    let warm_up = round_trips / 10;
    place.meet_all()?;
    for round in 0..warm_up + round_trips * plan.repeat {
        let elapsed = place.timed(|| to_and_fro(place))?;
        if round >= warm_up {
            seconds.push(elapsed.as_secs_f64() / 2.0);
        }
    }
    Ok(vec![Point { variant: Variant::Interrupt, size: 0, compute: 0.0, seconds }])
}

fn to_and_fro(place: &Place<'_>) -> Result<()> {
    let (fabric, peer) = (place.fabric, place.peer);
    match place.side {
        Side::First => {
            fabric.trigger(peer, INTERRUPT)?;
            wait(place, peer)
        }
        Side::Second => {
            wait(place, peer)?;
            fabric.trigger(peer, INTERRUPT)
        }
    }
}

fn wait(place: &Place<'_>, peer: Rank) -> Result<()> {
    while place.fabric.wait_interrupt(INTERRUPT, None)? == 0 {
        place.fabric.membership().check(peer)?;
    }
    Ok(())
}
