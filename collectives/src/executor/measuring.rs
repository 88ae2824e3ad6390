//! What signals cost between the processes of a job: the measurements of a profile.
//!
//! ```text
//!   rank 0     survey ─► one_way, burst, start ─► orders ─┐        ┌─► the time, back to rank 0
//!   others     follow: asleep, until an order comes ◄─────┘        │
//!   a pair     signals to and fro, as a barrier sends them ────────┘   (pairs)
//! ```
//!
//! Only the pair that is measured is awake, and each of it has a core: on a machine with more ranks than cores, the
//! profile is that of a core for each rank, as the paper's model wants it.

pub(super) mod conducting;
pub(super) mod pairs;

use serde::{Deserialize, Serialize};
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Fabric, Rank, SegmentId};

use super::error::{Error, Result};
use super::joining;
use super::network::Fabrics;
use crate::profile::{SurveyError, SurveySettings};
use conducting::{Conductor, measure_by_conducting};
use pairs::{Exchange, Pairs};

/// What an order has at most, written down.
const LONGEST_ORDER: usize = 512;

/// The processes of a job as a machine to be measured. The process of rank 0 measures, the others follow.
///
/// A message is what a signal of a [`Barrier`](super::Barrier) is, longer: bytes written in front of a flag.
pub struct Machine {
    control: Messenger,
    pairs: Pairs,
}

/// What rank 0 tells another one.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Order {
    /// Exchange signals with another one.
    Exchange(Exchange),
    /// Begin to signal.
    Start { repetitions: u32 },
    /// All is measured.
    Dismissed,
}

impl Machine {
    /// Joins all processes of the job, which call this with the same arguments: a `port` and an `id` that nothing else
    /// uses, and what is going to be measured at most.
    ///
    /// # Errors
    /// The fabric's.
    pub fn join(fabric: &Fabric, port: Port, id: SegmentId, extent: &SurveySettings) -> Result<Self> {
        Self::join_across(&Fabrics::of_job(fabric), port, id, extent)
    }

    /// The same where processes on one node signal each other through their memory, as in
    /// [`Barrier::join_across`](super::Barrier::join_across).
    ///
    /// # Errors
    /// The fabric's.
    pub fn join_across(
        fabrics: &Fabrics,
        port: Port,
        id: SegmentId,
        extent: &SurveySettings,
    ) -> Result<Self> {
        joining::attempt(fabrics, id, || {
            // Nothing is to go on while signals are measured.
            let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
            let control = Messenger::open(fabrics.job(), port, &settings)?;
            let members: Vec<Rank> = (0..fabrics.job().size()).map(Rank).collect();
            Ok(Self { control, pairs: Pairs::join(fabrics, &members, id, extent)? })
        })
    }

    /// Has the process of rank 0 `measure`, while the others do what it asks for; they get nothing. To be called by
    /// all.
    ///
    /// # Errors
    /// The fabric's, or what makes no profile.
    pub fn measured_by<T>(
        mut self,
        measure: impl FnOnce(&mut Self) -> Result<T, SurveyError<Error>>,
    ) -> Result<Option<T>, SurveyError<Error>> {
        if self.pairs.own() > 0 {
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
                Order::Start { repetitions } => self.pairs.time_start(repetitions)?,
                Order::Exchange(exchange) => match self.pairs.exchange(exchange)? {
                    Some(time) => time,
                    None => continue,
                },
            };
            self.control.send(Rank(0), &time.to_le_bytes())?;
        }
    }

    /// Lets the others go.
    fn dismiss(&self) -> Result<()> {
        (1..self.pairs.size()).try_for_each(|member| self.order(member, &Order::Dismissed))
    }

    fn order(&self, member: usize, order: &Order) -> Result<()> {
        let text = serde_json::to_vec(order).map_err(|error| self.misfit(&error))?;
        Ok(self.control.send(Rank(member as u32), &text)?)
    }

    fn misfit(&self, problem: &dyn std::fmt::Display) -> Error {
        Error::Members { id: self.pairs.id(), problem: problem.to_string() }
    }

    /// Has one do something that it takes the time of.
    fn timed(&mut self, member: usize, order: &Order) -> Result<f64> {
        if member != self.pairs.own() {
            self.order(member, order)?;
            return self.answer(member);
        }
        match *order {
            Order::Start { repetitions } => self.pairs.time_start(repetitions),
            Order::Exchange(exchange) => Ok(self.pairs.exchange(exchange)?.unwrap_or(0.0)),
            Order::Dismissed => Ok(0.0),
        }
    }

    fn answer(&self, member: usize) -> Result<f64> {
        let mut bytes = [0; size_of::<f64>()];
        self.control.receive(Rank(member as u32), &mut bytes)?;
        Ok(f64::from_le_bytes(bytes))
    }
}

impl Conductor for Machine {
    fn pairs(&mut self) -> &mut Pairs {
        &mut self.pairs
    }

    fn exchanged(&mut self, from: (usize, Exchange), to: (usize, Exchange)) -> Result<f64> {
        if to.0 != self.pairs.own() {
            self.order(to.0, &Order::Exchange(to.1))?;
            return self.timed(from.0, &Order::Exchange(from.1));
        }
        self.order(from.0, &Order::Exchange(from.1))?;
        self.pairs.exchange(to.1)?;
        self.answer(from.0)
    }

    fn started(&mut self, member: usize, repetitions: u32) -> Result<f64> {
        self.timed(member, &Order::Start { repetitions })
    }
}

measure_by_conducting!(Machine);
