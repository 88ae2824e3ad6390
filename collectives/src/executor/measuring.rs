//! What signals cost between the processes of a job: the measurements of a profile.
//!
//! ```text
//!   rank 0     survey ─► one_way, burst, start ─► orders ─┐        ┌─► the time, back to rank 0
//!   others     follow: asleep, until an order comes ◄─────┘        │
//!   a pair     signals to and fro, as a barrier sends them ────────┘   (ground)
//! ```
//!
//! Only the pair that is measured is awake, and each of it has a core: on a machine with more ranks than cores, the profile
//! is that of a core for each rank, as the paper's model wants it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Fabric, Rank, SegmentId};

use super::error::{Error, Result};
use super::ground::{Ground, Place};
use super::patience::{Patience, PatienceSettings};
use super::pinning::Cores;
use crate::profile::{Measure, SurveyError, SurveySettings};
use crate::rank::Rank as Member;

/// A cache line: what each flag has to itself.
const LINE: u64 = 64;

/// What a flag takes of a message.
const FLAG: u64 = size_of::<u64>() as u64;

/// What an order has at most, written down.
const LONGEST_ORDER: usize = 512;

/// How often a signal goes to and fro in one repetition: on fabrics that map memory, where it takes less than a
/// microsecond, and on others.
const ROUNDS: [u64; 2] = [64, 8];

/// The processes of a job as a machine to be measured. The process of rank 0 measures, the others follow.
///
/// A message is what a signal of a [`Barrier`](super::Barrier) is, longer: bytes written in front of a flag.
pub struct Machine<'fabric> {
    fabric: &'fabric Fabric,
    control: Messenger,
    ground: Ground,
    patience: Patience,
    cores: Cores,
    longest_burst: u32,
    largest_message: u64,
    /// How far the flags of all members are: nobody's are further.
    rounds: u64,
}

/// What rank 0 tells another one.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Order {
    /// Exchange signals with another one.
    Exchange(Exchange),
    /// Signal another one, who does not wait for it.
    Start { member: usize, repetitions: u32 },
    /// All is measured.
    Dismissed,
}

/// Signals to and fro between two.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Exchange {
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
enum Shape {
    /// A message of so many bytes.
    Message(u64),
    /// So many signals.
    Burst(u32),
}

impl<'fabric> Machine<'fabric> {
    /// Joins all processes of the job, which call this with the same arguments: a `port` and an `id` that nothing else
    /// uses, and what is going to be measured at most.
    ///
    /// # Errors
    /// The fabric's.
    pub fn join(fabric: &'fabric Fabric, port: Port, id: SegmentId, extent: &SurveySettings) -> Result<Self> {
        // Nothing is to go on while signals are measured.
        let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
        let control = Messenger::open(fabric, port, &settings)?;
        let members: Vec<Rank> = (0..fabric.size()).map(Rank).collect();
        let largest_message = extent.largest_message.max(LINE).next_multiple_of(LINE);
        let length = (2 + u64::from(extent.longest_burst)) * LINE + largest_message;
        let ground = Ground::join(fabric, &members, id, length, |_| true)?;
        // No more than two are awake at a time.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let patience = Patience::new(PatienceSettings::default(), 2, cores);
        let longest_burst = extent.longest_burst;
        let cores = Cores::of_thread();
        Ok(Self { fabric, control, ground, patience, cores, longest_burst, largest_message, rounds: 0 })
    }

    /// Has the process of rank 0 `measure`, while the others do what it asks for; they get nothing. To be called by all.
    ///
    /// # Errors
    /// The fabric's, or what makes no profile.
    pub fn measured_by<T>(
        mut self,
        measure: impl FnOnce(&mut Self) -> Result<T, SurveyError<Error>>,
    ) -> Result<Option<T>, SurveyError<Error>> {
        if self.ground.own() > 0 {
            return self.follow().map(|()| None).map_err(SurveyError::Measure);
        }
        let measured = measure(&mut self)?;
        self.dismiss().map_err(SurveyError::Measure)?;
        Ok(Some(measured))
    }

    /// Does what rank 0 orders, until it has measured all.
    fn follow(&mut self) -> Result<()> {
        loop {
            let mut bytes = [0; LONGEST_ORDER];
            let length = self.control.receive(Rank(0), &mut bytes)?;
            let order = serde_json::from_slice(&bytes[..length]).map_err(|error| self.misfit(&error))?;
            let time = match order {
                Order::Dismissed => return Ok(self.control.flush(Rank(0))?),
                Order::Start { member, repetitions } => self.time_start(member, repetitions)?,
                Order::Exchange(exchange) => match self.exchange(exchange)? {
                    Some(time) => time,
                    None => continue,
                },
            };
            self.control.send(Rank(0), &time.to_le_bytes())?;
        }
    }

    /// Lets the others go.
    fn dismiss(&self) -> Result<()> {
        (1..self.ground.size()).try_for_each(|member| self.order(member, &Order::Dismissed))
    }

    fn order(&self, member: usize, order: &Order) -> Result<()> {
        let text = serde_json::to_vec(order).map_err(|error| self.misfit(&error))?;
        Ok(self.control.send(Rank(member as u32), &text)?)
    }

    fn misfit(&self, problem: &dyn std::fmt::Display) -> Error {
        Error::Members { id: self.ground.id(), problem: problem.to_string() }
    }

    /// Has one do something that it takes the time of.
    fn timed(&mut self, member: usize, order: &Order) -> Result<f64> {
        if member != self.ground.own() {
            self.order(member, order)?;
            return self.answer(member);
        }
        match *order {
            Order::Start { member, repetitions } => self.time_start(member, repetitions),
            Order::Exchange(exchange) => Ok(self.exchange(exchange)?.unwrap_or(0.0)),
            Order::Dismissed => Ok(0.0),
        }
    }

    /// Has two exchange signals; half of how long they take to and fro.
    fn measured(&mut self, from: Member, to: Member, shape: Shape, repetitions: u32) -> Result<f64> {
        let (from, to) = (from.index(), to.index());
        let first = Exchange { with: to, begins: true, shape, repetitions, rounds: self.rounds };
        let second = Exchange { with: from, begins: false, ..first };
        self.rounds += (u64::from(repetitions) + 1) * self.rounds_each();
        if to != self.ground.own() {
            self.order(to, &Order::Exchange(second))?;
            return self.timed(from, &Order::Exchange(first));
        }
        self.order(from, &Order::Exchange(first))?;
        self.exchange(second)?;
        self.answer(from)
    }

    fn answer(&self, member: usize) -> Result<f64> {
        let mut bytes = [0; size_of::<f64>()];
        self.control.receive(Rank(member as u32), &mut bytes)?;
        Ok(f64::from_le_bytes(bytes))
    }

    fn exchange(&mut self, exchange: Exchange) -> Result<Option<f64>> {
        let Exchange { with, begins, shape, repetitions, rounds } = exchange;
        let payload = match shape {
            Shape::Message(bytes) => vec![0x5a; bytes.saturating_sub(FLAG) as usize],
            Shape::Burst(_) => Vec::new(),
        };
        let flags: Vec<u64> = match shape {
            Shape::Message(_) => vec![self.message_flag()],
            Shape::Burst(signals) => (0..u64::from(signals)).map(|signal| (1 + signal) * LINE).collect(),
        };
        let places: Vec<_> = flags.iter().map(|&offset| Place { member: with, offset }).collect();
        let (each, mut round) = (self.rounds_each(), rounds);
        let _pinned = self.cores.pin(self.ground.own(), with);
        let mut times = Vec::with_capacity(repetitions as usize);
        // The first one warms up.
        for _ in 0..=repetitions {
            let begun = self.fabric.now();
            for _ in 0..each {
                round += 1;
                if !begins {
                    self.ground.await_flags(&flags, round, &mut self.patience)?;
                }
                match shape {
                    Shape::Message(_) => self.ground.send(&payload, places[0], round)?,
                    Shape::Burst(_) => self.ground.signal(&places, round)?,
                }
                if begins {
                    self.ground.await_flags(&flags, round, &mut self.patience)?;
                }
            }
            times.push(nanoseconds(self.fabric.now().since(begun)) / (2 * each) as f64);
        }
        Ok(begins.then(|| median(times.split_off(1))))
    }

    /// How long it takes to signal another one, without waiting for anything.
    fn time_start(&mut self, member: usize, repetitions: u32) -> Result<f64> {
        let _pinned = self.cores.pin(self.ground.own(), member);
        let (place, each) = (Place { member, offset: self.idle_flag() }, self.rounds_each());
        let mut times = Vec::with_capacity(repetitions as usize);
        for _ in 0..=repetitions {
            let begun = self.fabric.now();
            for number in 0..each {
                self.ground.signal(&[place], number)?;
            }
            times.push(nanoseconds(self.fabric.now().since(begun)) / each as f64);
        }
        Ok(median(times.split_off(1)))
    }

    fn rounds_each(&self) -> u64 {
        ROUNDS[usize::from(!self.ground.is_mapped())]
    }

    /// The flag that nobody awaits: behind those of bursts, which are behind the sleeping place.
    fn idle_flag(&self) -> u64 {
        (1 + u64::from(self.longest_burst)) * LINE
    }

    /// The flag behind a message.
    fn message_flag(&self) -> u64 {
        self.idle_flag() + LINE + self.largest_message - FLAG
    }
}

impl Measure for Machine<'_> {
    type Error = Error;

    fn ranks(&self) -> u32 {
        self.ground.size() as u32
    }

    fn one_way(&mut self, from: Member, to: Member, bytes: u64, repetitions: u32) -> Result<f64> {
        self.measured(from, to, Shape::Message(bytes.min(self.largest_message)), repetitions)
    }

    fn burst(&mut self, from: Member, to: Member, signals: u32, repetitions: u32) -> Result<f64> {
        self.measured(from, to, Shape::Burst(signals.min(self.longest_burst)), repetitions)
    }

    fn start(&mut self, rank: Member, repetitions: u32) -> Result<f64> {
        let member = (rank.index() + 1) % self.ground.size();
        if member == rank.index() {
            return Ok(0.0);
        }
        self.timed(rank.index(), &Order::Start { member, repetitions })
    }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// The middle one: a mean is spoilt by one turn of another process.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}
