//! Who hears when what came of a collective access.
//!
//! | hint `svm_outcome` | a rank's call returns | its failure is told |
//! |---|---|---|
//! | `shared` | when all ranks' parts are done | to all, by the same call |
//! | `own` | when its own part is done | to itself; to all by the next sync, or by closing |
//!
//! Ranks that are to hear of each other's failures by the same call have to wait for each other in it, whatever they
//! access. Those of a program that can do without do not: a collective access to a file of one node costs what an
//! independent one does. On several nodes ranks still ask each other in collective writes for the places of new segments.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use crate::access::Direction;
use crate::failure::Failure;
use crate::handle::Handle;

/// What a collective access returns on a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Outcome {
    /// What came of that rank's part.
    Own,
    /// What came of all ranks' parts.
    #[default]
    Shared,
}

impl Outcome {
    /// By which ranks agree: the largest is in force, so that all have to ask for [`Outcome::Own`].
    pub(crate) fn number(self) -> i64 {
        self as i64
    }

    pub(crate) fn from_number(number: i64) -> Outcome {
        if number == Outcome::Own.number() { Outcome::Own } else { Outcome::Shared }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Outcome::Own => "own",
            Outcome::Shared => "shared",
        })
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(text: &str) -> Result<Outcome, String> {
        match text {
            "own" => Ok(Outcome::Own),
            "shared" => Ok(Outcome::Shared),
            _ => Err(format!("`{text}` is none of shared and own")),
        }
    }
}

/// A failure of this rank's that the others have not heard of.
#[derive(Debug, Default)]
pub(crate) struct Unheard(Mutex<Option<Failure>>);

impl Unheard {
    /// Whether there is one.
    pub(crate) fn is_any(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Keeps the first one.
    fn note(&self, failure: &Failure) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| failure.clone());
    }

    fn take(&self) -> Result<(), Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

impl Handle {
    /// Ends a collective access, of which `mine` is this rank's outcome.
    ///
    /// # Errors
    /// `mine`; where outcomes are shared also that of another rank.
    pub(crate) fn end_access(&self, direction: Direction, mine: Result<(), Failure>) -> Result<(), Failure> {
        match (self.outcome, direction) {
            (Outcome::Own, _) => {
                let located = mine.map_err(|failure| self.located(failure));
                located.inspect_err(|failure| self.unheard.note(failure))
            }
            (Outcome::Shared, Direction::Read) => self.team.agree(mine),
            (Outcome::Shared, Direction::Write) => self.team.end_of_write(&self.file, mine),
        }
    }

    /// After a step that all ranks have taken together, with its outcome: tells what failed since the last one, on all.
    ///
    /// # Errors
    /// The step's; then those of accesses, of which the others have not heard.
    pub(crate) fn tell_failures(&self, step: Result<(), Failure>) -> Result<(), Failure> {
        match self.outcome {
            Outcome::Own => self.team.agree(step.and_then(|()| self.unheard.take())),
            Outcome::Shared => step,
        }
    }
}
