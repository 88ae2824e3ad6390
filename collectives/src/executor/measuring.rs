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
//!
//! Who cannot do its part leaves, and is waited for neither by the one with whom it exchanges signals nor by rank 0,
//! which has all others end, too.

pub(super) mod conducting;
pub(super) mod pairs;
#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Fabric, Rank, SegmentId};

use super::error::{Error, Result};
use super::joining;
use super::network::Fabrics;
use crate::profile::{SurveyError, SurveySettings};
use conducting::{Conductor, measure_by_conducting};
use pairs::{Exchange, Pairs};

/// What an order or an answer has at most, written down.
const LONGEST: usize = 2048;

/// How many characters are told of why a member leaves: written down, each takes six bytes at most.
const LONGEST_REASON: usize = 300;

/// The processes of a job as a machine to be measured. The process of rank 0 measures, the others follow.
///
/// A message is what a signal of a [`Barrier`](super::Barrier) is, longer: bytes written in front of a flag.
pub struct Machine {
    control: Messenger,
    pairs: Pairs,
}

/// What rank 0 tells another one.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Exchange signals with another one.
    Exchange(Exchange),
    /// Begin to signal.
    Start { repetitions: u32 },
    /// All is measured.
    Dismissed,
    /// Nothing more is measured.
    Abandoned(Departure),
}

/// What another one tells rank 0: the time, or that it does nothing more.
type Answer = Result<f64, Departure>;

/// That a member does nothing more.
#[derive(Debug, Serialize, Deserialize)]
struct Departure {
    member: usize,
    /// Its error.
    reason: String,
}

impl Departure {
    /// That of the member `own`, which has met an error, or of the one that has left before and is behind it.
    fn of(error: &Error, own: usize) -> Self {
        let (member, reason) = match error {
            Error::Refused { member, reason } => (*member, reason.clone()),
            error => (own, error.to_string()),
        };
        Self { member, reason: reason.chars().take(LONGEST_REASON).collect() }
    }
}

impl From<Departure> for Error {
    fn from(Departure { member, reason }: Departure) -> Self {
        Self::Refused { member, reason }
    }
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
    /// [`Error::Refused`] where another one could not do its part; the fabric's; what makes no profile, to rank 0
    /// alone.
    pub fn measured_by<T>(
        mut self,
        measure: impl FnOnce(&mut Self) -> Result<T, SurveyError<Error>>,
    ) -> Result<Option<T>, SurveyError<Error>> {
        if self.pairs.own() > 0 {
            let followed = self.follow().inspect_err(|error| self.leave(error));
            return followed.map(|()| None).map_err(SurveyError::Measure);
        }
        match measure(&mut self) {
            Err(SurveyError::Measure(error)) => {
                self.leave(&error);
                Err(SurveyError::Measure(error))
            }
            // What makes no profile is nothing that the others could not do.
            measured => {
                let dismissed = self.order_others(&Order::Dismissed);
                let measured = measured?;
                dismissed.map_err(SurveyError::Measure)?;
                Ok(Some(measured))
            }
        }
    }

    /// Does what rank 0 orders, until it has measured all.
    fn follow(&mut self) -> Result<()> {
        loop {
            let time = match self.hear(0)? {
                Order::Dismissed => return Ok(self.control.flush(Rank(0))?),
                Order::Abandoned(departure) => return Err(departure.into()),
                Order::Start { repetitions } => self.pairs.time_start(repetitions)?,
                Order::Exchange(exchange) => match self.pairs.exchange(exchange)? {
                    Some(time) => time,
                    None => continue,
                },
            };
            self.tell(0, &Answer::Ok(time))?;
        }
    }

    /// Has nobody wait for this member, which does nothing more after `error`.
    fn leave(&self, error: &Error) {
        let own = self.pairs.own();
        let departure = Departure::of(error, own);
        // Who cannot be told by a message hears that it was the last.
        let _ = match own {
            0 => self.order_others(&Order::Abandoned(departure)),
            _ => self.tell(0, &Answer::Err(departure)),
        };
        if let Some(member) = error.who_leaves(own) {
            self.pairs.leave(member);
        }
    }

    /// Tells all others, whatever comes of one.
    fn order_others(&self, order: &Order) -> Result<()> {
        (1..self.pairs.size()).map(|member| self.tell(member, order)).fold(Ok(()), Result::and)
    }

    fn tell(&self, member: usize, what: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(what).map_err(|error| self.misfit(&error))?;
        Ok(self.control.send(Rank(member as u32), &text)?)
    }

    fn hear<T: DeserializeOwned>(&self, member: usize) -> Result<T> {
        let mut bytes = [0; LONGEST];
        let length = self.control.receive(Rank(member as u32), &mut bytes)?;
        serde_json::from_slice(&bytes[..length]).map_err(|error| self.misfit(&error))
    }

    fn misfit(&self, problem: &dyn std::fmt::Display) -> Error {
        Error::Members { id: self.pairs.id(), problem: problem.to_string() }
    }

    /// The time that a member tells.
    fn answer(&self, member: usize) -> Result<f64> {
        Ok(self.hear::<Answer>(member)??)
    }
}

impl Conductor for Machine {
    fn pairs(&mut self) -> &mut Pairs {
        &mut self.pairs
    }

    fn exchanged(&mut self, from: (usize, Exchange), to: (usize, Exchange)) -> Result<f64> {
        let own = self.pairs.own();
        for (member, part) in [to, from].into_iter().filter(|(member, _)| *member != own) {
            self.tell(member, &Order::Exchange(part))?;
        }
        let part = [from, to].into_iter().find(|(member, _)| *member == own);
        let time = part.map(|(_, part)| self.pairs.exchange(part)).transpose()?.flatten();
        time.map_or_else(|| self.answer(from.0), Ok)
    }

    fn started(&mut self, member: usize, repetitions: u32) -> Result<f64> {
        if member == self.pairs.own() {
            return self.pairs.time_start(repetitions);
        }
        self.tell(member, &Order::Start { repetitions })?;
        self.answer(member)
    }
}

measure_by_conducting!(Machine);
