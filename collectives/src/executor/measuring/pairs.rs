//! Signals between two members while a clock runs.

use std::hint::black_box;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use svmio_transport::{Fabric, Rank, SegmentId};

use crate::executor::error::Result;
use crate::executor::ground::{Ground, Place};
use crate::executor::joining;
use crate::executor::network::Fabrics;
use crate::executor::patience::{Patience, PatienceSettings};
use crate::executor::pinning::Cores;
use crate::profile::SurveySettings;

/// A cache line: what each flag has to itself.
const LINE: u64 = 64;

/// What a flag takes of a message.
const FLAG: u64 = size_of::<u64>() as u64;

/// How often a signal goes to and fro in one repetition: on fabrics that map memory, where it takes less than a
/// microsecond, and on others.
const ROUNDS: [u64; 2] = [64, 8];

/// Members of whom any two can exchange signals, as one of them holds them.
#[derive(Debug)]
pub(in crate::executor) struct Pairs {
    fabric: Fabric,
    ground: Ground,
    patience: Patience,
    cores: Cores,
    longest_burst: u32,
    largest_message: u64,
    /// How far the flags of all members are: nobody's are further.
    rounds: u64,
}

/// Signals to and fro between two.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::executor) struct Exchange {
    with: usize,
    /// Who begins takes the time.
    begins: bool,
    shape: Shape,
    repetitions: u32,
    /// From which number on flags count.
    rounds: u64,
}

/// What goes each way.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::executor) enum Shape {
    /// A message of so many bytes.
    Message(u64),
    /// So many signals.
    Burst(u32),
}

impl Pairs {
    /// Joins `members`, who call this with the same arguments: an `id` that nothing else uses, and what is going to be
    /// measured at most.
    ///
    /// # Errors
    /// Those of [`Ground::join`].
    pub(in crate::executor) fn join(
        fabrics: &Fabrics,
        members: &[Rank],
        id: SegmentId,
        extent: &SurveySettings,
    ) -> Result<Self> {
        let largest_message = extent.largest_message.max(LINE).next_multiple_of(LINE);
        // Behind the last flag, there may be to tell that a member leaves.
        let length = (1 + u64::from(extent.longest_burst)) * LINE + largest_message + LINE;
        let ground = joining::attempt(fabrics, id, || Ground::join(fabrics, members, id, length, |_| true))?;
        // No more than two are awake at a time.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let patience = Patience::new(PatienceSettings::default(), 2, cores);
        let (fabric, cores) = (fabrics.job().clone(), Cores::of_thread());
        let longest_burst = extent.longest_burst;
        Ok(Self { fabric, ground, patience, cores, longest_burst, largest_message, rounds: 0 })
    }

    /// This member's place.
    pub(in crate::executor) fn own(&self) -> usize {
        self.ground.own()
    }

    /// How many members there are.
    pub(in crate::executor) fn size(&self) -> usize {
        self.ground.size()
    }

    /// Under which id its segments are.
    pub(in crate::executor) fn id(&self) -> SegmentId {
        self.ground.id()
    }

    /// What two are to do to exchange signals: who begins, and the other one. Who plans an exchange, or knows that it
    /// was planned, calls this, so that flags go on counting.
    pub(in crate::executor) fn plan(
        &mut self,
        from: usize,
        to: usize,
        shape: Shape,
        repetitions: u32,
    ) -> (Exchange, Exchange) {
        let shape = match shape {
            Shape::Message(bytes) => Shape::Message(bytes.min(self.largest_message)),
            Shape::Burst(signals) => Shape::Burst(signals.min(self.longest_burst)),
        };
        let first = Exchange { with: to, begins: true, shape, repetitions, rounds: self.rounds };
        let second = Exchange { with: from, begins: false, ..first };
        self.rounds += (u64::from(repetitions) + 1) * self.rounds_each(from, to);
        (first, second)
    }

    /// How many signals were planned that are sent one after the other.
    pub(in crate::executor) fn signals(&self) -> f64 {
        2.0 * self.rounds as f64
    }

    /// Has whoever exchanges signals with this member hear that it will not go on, and that it is because of `member`.
    pub(in crate::executor) fn leave(&self, member: usize) {
        let bursts = (0..u64::from(self.longest_burst)).map(burst_flag);
        let offsets: Vec<u64> = bursts.chain([self.message_flag()]).collect();
        let others = (0..self.size()).filter(|&other| other != self.own());
        let flags =
            others.flat_map(|other| offsets.iter().map(move |&offset| Place { member: other, offset }));
        self.ground.refuse(flags, member);
    }

    /// Exchanges signals; who begins gets half of how long they take to and fro.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::executor::Error::Refused) where a member has left; the fabric's.
    pub(in crate::executor) fn exchange(&mut self, exchange: Exchange) -> Result<Option<f64>> {
        let Exchange { with, begins, shape, repetitions, rounds } = exchange;
        let payload = match shape {
            Shape::Message(bytes) => vec![0x5a; bytes.saturating_sub(FLAG) as usize],
            Shape::Burst(_) => Vec::new(),
        };
        let offsets: Vec<u64> = match shape {
            Shape::Message(_) => vec![self.message_flag()],
            Shape::Burst(signals) => (0..u64::from(signals)).map(burst_flag).collect(),
        };
        // What the other one writes here is where this one writes there.
        let places: Vec<_> = offsets.iter().map(|&offset| Place { member: with, offset }).collect();
        let (each, mut round) = (self.rounds_each(self.ground.own(), with), rounds);
        let _pinned = self.cores.pin(self.ground.own(), with);
        let mut times = Vec::with_capacity(repetitions as usize);
        // The first one warms up.
        for _ in 0..=repetitions {
            let begun = self.fabric.now();
            for _ in 0..each {
                round += 1;
                if !begins {
                    self.ground.await_flags_or_refusal(&places, round, &mut self.patience)?;
                }
                match shape {
                    Shape::Message(_) => self.ground.send(&payload, places[0], round)?,
                    Shape::Burst(_) => self.ground.signal(&places, round)?,
                }
                if begins {
                    self.ground.await_flags_or_refusal(&places, round, &mut self.patience)?;
                }
            }
            times.push(nanoseconds(self.fabric.now().since(begun)) / (2 * each) as f64);
        }
        Ok(begins.then(|| median(times.split_off(1))))
    }

    /// How long it takes to begin to signal: what a step does before its first signal, which it then does not send
    /// (Meyer and Elster, section IV.A). What signals themselves cost their sender is in bursts.
    pub(in crate::executor) fn time_start(&mut self, repetitions: u32) -> Result<f64> {
        let each = rounds(true);
        let mut times = Vec::with_capacity(repetitions as usize);
        for _ in 0..=repetitions {
            let begun = self.fabric.now();
            for number in 0..each {
                // To the compiler, there may be somebody.
                self.ground.signal(black_box::<&[Place]>(&[]), number)?;
            }
            times.push(nanoseconds(self.fabric.now().since(begun)) / each as f64);
        }
        Ok(median(times.split_off(1)))
    }

    fn rounds_each(&self, one: usize, other: usize) -> u64 {
        rounds(self.ground.are_near(one, other))
    }

    /// The flag behind a message, which is behind those of bursts, which are behind the sleeping place.
    fn message_flag(&self) -> u64 {
        (1 + u64::from(self.longest_burst)) * LINE + self.largest_message - FLAG
    }
}

/// The flag of a signal of a burst: they are behind the sleeping place.
fn burst_flag(signal: u64) -> u64 {
    (1 + signal) * LINE
}

/// How often signals go to and fro in one repetition, between members who have each other's memory mapped, or not.
pub(in crate::executor) fn rounds(are_near: bool) -> u64 {
    ROUNDS[usize::from(!are_near)]
}

pub(in crate::executor) fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// The middle one: a mean is spoilt by one turn of another process.
pub(in crate::executor) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}
