//! What messages cost here: as the first member knows it of other groups, or measured between two members.

use std::hint::black_box;
use std::time::Duration;

use super::group::NetworkGroup;
use super::two_level::TwoLevelGroup;
use crate::collective::{MessageCosts, SHORT};
use crate::executor::error::Result;

/// How often a message goes to and fro, one without bytes and a short one.
const ROUNDS: usize = 8;

/// Of how many messages a stream is, and of how many bytes each: enough that what a network takes at once, and keeps,
/// matters little. And how many streams there are.
const STREAM: usize = 8;
const LONG: usize = 128 << 10;
const STREAMS: usize = 3;

impl NetworkGroup {
    /// Goes by what messages cost here from now on; to be called by all. What the first member says that it knows holds
    /// for all. Where it says nothing, messages from it to the last one are measured: 16 round trips, and 3 MiB. Returns what they cost, the same everywhere.
    ///
    /// # Errors
    /// The fabric's.
    pub fn learn_costs(&mut self, known: Option<MessageCosts>) -> Result<MessageCosts> {
        self.attempt(|group| {
            let mut told = written(known);
            group.bcast(0, &mut told)?;
            let costs = match read(told) {
                Some(costs) => costs,
                None => group.measured_costs()?,
            };
            group.settings.costs = costs;
            Ok(costs)
        })
    }

    fn measured_costs(&mut self) -> Result<MessageCosts> {
        let last = self.size() - 1;
        let mut costs = self.settings.costs;
        if last > 0 && (self.own == 0 || self.own == last) {
            let other = last - self.own;
            let (latency, short) = (self.half_round_trip(other, 0)?, self.half_round_trip(other, SHORT)?);
            costs = MessageCosts {
                latency,
                per_short_byte: (short - latency).max(0.0) / SHORT as f64,
                per_byte: self.streaming(other)?,
                per_copied_byte: self.copying(),
            };
        }
        let mut told = written(Some(costs));
        self.bcast(0, &mut told)?;
        Ok(read(told).unwrap_or(costs))
    }

    /// Nanoseconds that a message takes: the median of some.
    fn half_round_trip(&self, with: usize, bytes: usize) -> Result<f64> {
        let mut buffer = vec![0; bytes];
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let begun = self.messages.now();
            if self.own == 0 {
                self.send(with, &buffer)?;
                self.receive(with, &mut buffer)?;
            } else {
                self.receive(with, &mut buffer)?;
                self.send(with, &buffer)?;
            }
            times.push(self.since(begun) / 2.0);
        }
        Ok(median(times))
    }

    /// Nanoseconds that each byte takes of many: the median of some streams.
    fn streaming(&self, with: usize) -> Result<f64> {
        let mut buffer = vec![0; LONG];
        let mut times = Vec::new();
        for _ in 0..STREAMS {
            let begun = self.messages.now();
            for _ in 0..STREAM {
                if self.own == 0 {
                    self.send(with, &buffer)?;
                } else {
                    self.receive(with, &mut buffer)?;
                }
            }
            if self.own == 0 {
                self.receive(with, &mut [])?;
            } else {
                self.send(with, &[])?;
            }
            times.push(self.since(begun) / (STREAM * LONG) as f64);
        }
        Ok(median(times))
    }

    /// Nanoseconds that copying a byte takes.
    fn copying(&self) -> f64 {
        let (from, mut to) = (vec![1_u8; LONG], vec![0; LONG]);
        let times = (0..ROUNDS).map(|_| {
            let begun = self.messages.now();
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
            self.since(begun)
        });
        median(times.collect()) / LONG as f64
    }

    /// Nanoseconds.
    fn since(&self, begun: Duration) -> f64 {
        self.messages.now().saturating_sub(begun).as_secs_f64() * 1e9
    }
}

impl TwoLevelGroup {
    /// The same as [`NetworkGroup::learn_costs`], of messages between nodes. Where there is only one, nothing is
    /// learned, and nothing returned.
    ///
    /// # Errors
    /// The fabric's.
    pub fn learn_costs(&mut self, known: Option<MessageCosts>) -> Result<Option<MessageCosts>> {
        self.attempt(|group| {
            if group.nodes.len() == 1 {
                return Ok(None);
            }
            let mut costs = group.all.settings.costs;
            if let Some(first) = &mut group.first {
                costs = first.learn_costs(known)?;
            }
            if let Some(node) = &mut group.node {
                let mut told = written(Some(costs));
                node.bcast(0, &mut told)?;
                costs = read(told).unwrap_or(costs);
            }
            group.all.settings.costs = costs;
            Ok(Some(costs))
        })
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

const NUMBER: usize = size_of::<f64>();

/// As members tell it each other: four numbers, of which the first is none where nothing is known.
fn written(costs: Option<MessageCosts>) -> [u8; 4 * NUMBER] {
    let of =
        |costs: MessageCosts| [costs.latency, costs.per_short_byte, costs.per_byte, costs.per_copied_byte];
    let numbers = costs.map_or([f64::NAN; 4], of);
    std::array::from_fn(|at| numbers[at / NUMBER].to_le_bytes()[at % NUMBER])
}

fn read(told: [u8; 4 * NUMBER]) -> Option<MessageCosts> {
    let number = |which: usize| f64::from_le_bytes(std::array::from_fn(|at| told[which * NUMBER + at]));
    let costs = MessageCosts {
        latency: number(0),
        per_short_byte: number(1),
        per_byte: number(2),
        per_copied_byte: number(3),
    };
    (!costs.latency.is_nan()).then_some(costs)
}

#[cfg(test)]
mod tests {
    use super::{MessageCosts, read, written};

    #[test]
    fn what_is_told_is_what_is_heard() {
        let costs =
            MessageCosts { latency: 1234.5, per_short_byte: 7.0, per_byte: 0.0, per_copied_byte: 0.25 };
        assert_eq!((read(written(Some(costs))), read(written(None))), (Some(costs), None));
    }
}
