//! Messages to and fro, and streams of messages.

use std::time::Duration;

use svmio_transport::Result;
use svmio_transport::message::Messenger;

use super::super::plan::{Effort, Plan, Point, Variant};
use super::{Place, Side, rounds};

/// A stream has so many bytes under way, if that are not too few or too many messages.
const WINDOW_BYTES: u64 = 4 << 20;
const WINDOW: std::ops::RangeInclusive<u64> = 2..=64;

/// What a measurement sends at most, and at most so long.
const MEASURED_BYTES: u64 = 256 << 20;
const MEASURED_ROUNDS: std::ops::RangeInclusive<u64> = 4..=10_000;
const MEASURED_TIME: Duration = Duration::from_millis(500);

/// What a message's bytes are.
const CONTENT: u8 = 0x5a;

/// How messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// One to and fro.
    Pingpong,
    /// Many to the same side, as windows that are acknowledged.
    Stream,
}

/// Seconds for each protocol and size: of half a round trip, or of a message in a stream.
pub(super) fn measure(place: &Place<'_>, plan: &Plan, pattern: Pattern) -> Result<Vec<Point>> {
    let variants: Vec<Variant> = plan.protocols.iter().copied().map(Variant::Configured).collect();
    let messengers = place.messengers(&variants)?;
    let mut points = Vec::new();
    for &size in &plan.sizes {
        let mut traffic = Traffic::new(place, pattern, size);
        let counts = messengers.iter().map(|messenger| traffic.rounds_for(messenger, plan.effort));
        let counts = counts.collect::<Result<Vec<u64>>>()?;
        let mut seconds = vec![Vec::new(); variants.len()];
        for _ in 0..plan.repeat {
            for ((messenger, &count), seconds) in messengers.iter().zip(&counts).zip(&mut seconds) {
                place.meet_all()?;
                seconds.push(traffic.seconds_of_one(messenger, count)?);
            }
        }
        let of_size = variants.iter().zip(seconds);
        points.extend(of_size.map(|(&variant, seconds)| Point { variant, size, compute: 0.0, seconds }));
        traffic.check();
    }
    Ok(points)
}

/// Messages of one size between the two of a pair.
struct Traffic<'p, 'f> {
    place: &'p Place<'f>,
    pattern: Pattern,
    size: usize,
    window: u64,
    /// A message for each place of the window.
    buffer: Vec<u8>,
}

impl<'p, 'f> Traffic<'p, 'f> {
    fn new(place: &'p Place<'f>, pattern: Pattern, size: u64) -> Self {
        let window = match pattern {
            Pattern::Pingpong => 1,
            Pattern::Stream => rounds(WINDOW_BYTES, size, *WINDOW.start(), *WINDOW.end()),
        };
        // Written, so that no page is touched for the first time in a measurement. Only the first side's bytes are the
        // right ones: the second has to get them.
        let content = if place.side == Side::First { CONTENT } else { !CONTENT };
        let buffer = vec![content; (size * window) as usize];
        Self { place, pattern, size: size as usize, window, buffer }
    }

    /// Warms up, and returns how many rounds both sides make in a measurement.
    fn rounds_for(&mut self, messenger: &Messenger, effort: Effort) -> Result<u64> {
        let length = self.buffer.len() as u64;
        let most = match effort {
            Effort::Real => rounds(MEASURED_BYTES, length, *MEASURED_ROUNDS.start(), *MEASURED_ROUNDS.end()),
            Effort::Virtual => 2,
        };
        // Connecting is not what counts.
        self.run(messenger, 2)?;
        let trial = (most / 100).max(1);
        let elapsed = self.timed(messenger, trial)?;
        let in_time = MEASURED_TIME.as_nanos() * u128::from(trial) / elapsed.as_nanos().max(1);
        let count = u64::try_from(in_time).unwrap_or(u64::MAX).clamp(2, most);
        let count = self.place.agreed(count)?;
        self.run(messenger, count / 10)?;
        Ok(count)
    }

    fn seconds_of_one(&mut self, messenger: &Messenger, count: u64) -> Result<f64> {
        let messages = match self.pattern {
            Pattern::Pingpong => 2 * count,
            Pattern::Stream => self.window * count,
        };
        Ok(self.timed(messenger, count)?.as_secs_f64() / messages as f64)
    }

    fn timed(&mut self, messenger: &Messenger, count: u64) -> Result<Duration> {
        let place = self.place;
        place.timed(|| self.run(messenger, count))
    }

    fn run(&mut self, messenger: &Messenger, count: u64) -> Result<()> {
        (0..count).try_for_each(|_| match self.pattern {
            Pattern::Pingpong => self.bounce(messenger),
            Pattern::Stream => self.window(messenger),
        })
    }

    fn bounce(&mut self, messenger: &Messenger) -> Result<()> {
        let peer = self.place.peer;
        match self.place.side {
            Side::First => {
                messenger.send(peer, &self.buffer)?;
                messenger.receive(peer, &mut self.buffer)?;
            }
            Side::Second => {
                messenger.receive(peer, &mut self.buffer)?;
                messenger.send(peer, &self.buffer)?;
            }
        }
        Ok(())
    }

    fn window(&mut self, messenger: &Messenger) -> Result<()> {
        let peer = self.place.peer;
        let mut acknowledgement = [0];
        match self.place.side {
            Side::First => {
                messenger.scope(|scope| {
                    let messages = self.buffer.chunks_exact(self.size);
                    let requests =
                        messages.map(|message| scope.send(peer, message)).collect::<Result<Vec<_>>>()?;
                    requests.into_iter().try_for_each(|request| request.wait().map(drop))
                })?;
                messenger.receive(peer, &mut acknowledgement).map(drop)
            }
            Side::Second => {
                messenger.scope(|scope| {
                    let messages = self.buffer.chunks_exact_mut(self.size);
                    let requests =
                        messages.map(|message| scope.receive(peer, message)).collect::<Result<Vec<_>>>()?;
                    requests.into_iter().try_for_each(|request| request.wait().map(drop))
                })?;
                messenger.send(peer, &acknowledgement)
            }
        }
    }

    /// A benchmark of what does not work would be worth nothing.
    fn check(&self) {
        assert!(self.buffer.iter().all(|byte| *byte == CONTENT), "something else arrived than was sent");
    }
}
