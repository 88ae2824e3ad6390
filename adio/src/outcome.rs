//! Who hears when what came of a collective access.
//!
//! | hint `svm_outcome` | a rank's call returns | its failure is told |
//! |---|---|---|
//! | `shared` | when all ranks' parts are done | to all, by the same call |
//! | `own` | when its own part is done | to itself; to all by the next turn or sync, or by closing |
//!
//! Ranks that are to hear of each other's failures by the same call have to wait for each other in it, whatever they
//! access: many on few cores for the slowest, again and again. So it is each rank's own that counts where nobody asks for
//! more: a collective access costs what an independent one does, and ranks run ahead. They wait for each other at each
//! *turn*, where a collective read follows a write or the other way round: programs read what others have just written,
//! and forget the sync between them, which other implementations seldom need. So they do before they change what accesses
//! go by: a view, the shared pointer, the mode. Where several nodes share the file, each learns then how long it has
//! become; before a collective read that follows a write, each gives away what it keeps back, and sees what the others
//! have; and collective writes wait for each other where [new segments](crate::placing) are to get their places.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::abi::Abi;
use crate::access::Direction;
use crate::failure::Failure;
use crate::handle::{self, Handle};
use crate::layout::RomioFile;
use crate::visibility::Visibility;

/// What a collective access returns on a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Outcome {
    /// What came of that rank's part: where a rank asks for nothing.
    #[default]
    Own,
    /// What came of all ranks' parts.
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

/// The way that the last collective access went since all ranks waited for each other: the same on all. And whether
/// there was a collective write since all nodes have seen what was written.
#[derive(Debug, Default)]
pub(crate) struct Heading {
    /// [`Heading::number`] of it; 0 for none.
    last: AtomicU8,
    unshown: AtomicBool,
    /// Whether there was a collective write, for whose end no rank has waited, since all waited for each other to read.
    begun: AtomicBool,
}

impl Heading {
    /// Goes on in this direction; whether that is a turn.
    #[inline]
    fn turns_to(&self, direction: Direction) -> bool {
        if direction == Direction::Write {
            // Relaxed: ROMIO lets one thread at a time into a file.
            self.unshown.store(true, Ordering::Relaxed);
        }
        // Relaxed, and no exchange: as above. Each access goes through here.
        let last = self.last.load(Ordering::Relaxed);
        self.last.store(Self::number(direction), Ordering::Relaxed);
        last != 0 && last != Self::number(direction)
    }

    fn number(direction: Direction) -> u8 {
        match direction {
            Direction::Read => 1,
            Direction::Write => 2,
        }
    }

    fn is_any(&self) -> bool {
        // Relaxed: as above.
        self.last.load(Ordering::Relaxed) != 0
    }

    /// All wait for each other; whether there was an access before that.
    fn end(&self) -> bool {
        // Relaxed: as above.
        self.last.swap(0, Ordering::Relaxed) != 0
    }

    /// All begin to write, and wait for nobody.
    fn note_begun(&self) {
        // Relaxed: as above.
        self.unshown.store(true, Ordering::Relaxed);
        self.begun.store(true, Ordering::Relaxed);
    }

    /// Whether all have begun to write like that since they last asked.
    fn take_begun(&self) -> bool {
        // Relaxed: as above.
        self.begun.swap(false, Ordering::Relaxed)
    }

    /// All nodes have seen what was written.
    pub(crate) fn note_shown(&self) {
        // Relaxed: as above.
        self.unshown.store(false, Ordering::Relaxed);
    }

    fn is_unshown(&self) -> bool {
        // Relaxed: as above.
        self.unshown.load(Ordering::Relaxed)
    }
}

/// Notes that all ranks begin to write to the file `fd`, without waiting for the end: the collective read that follows
/// shows that, too, as the request is complete then.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, and every rank of the file makes the same call.
pub unsafe fn note_collective_write<A: Abi>(fd: *const RomioFile<A>) {
    // SAFETY: the caller vouches for the file.
    if let Ok(handle) = handle::of(unsafe { &*fd }) {
        handle.heading.note_begun();
    }
}

impl Handle {
    /// Begins a collective access: at a turn, when all ranks have done what they did before, and know how long the file
    /// has become; where it is a read that follows a write, all see what was written.
    ///
    /// # Errors
    /// At a turn, what failed on some ranks, and not on all, since the last time that all heard of failures; before a
    /// read, what keeps a node from giving or seeing what was written. On all ranks; then nothing is accessed.
    #[inline]
    pub(crate) fn begin_access(&self, direction: Direction) -> Result<(), Failure> {
        let turns = self.heading.turns_to(direction);
        // What is seen at once has been seen.
        if direction == Direction::Read && self.visibility == Visibility::Sync && self.heading.is_unshown() {
            self.show_all()?;
        }
        let begun = direction == Direction::Read && self.heading.take_begun();
        match self.outcome {
            Outcome::Own if turns || begun => {
                self.tell_unheard(|numbers| self.team.agree_with_size(&self.file, Ok(()), numbers))
            }
            Outcome::Shared if begun => self.team.end_of_write(&self.file, Ok(())),
            Outcome::Own | Outcome::Shared => Ok(()),
        }
    }

    /// Where several nodes share the file, all see what all have written.
    ///
    /// # Errors
    /// What keeps a node from giving or seeing it, on all ranks.
    pub(crate) fn show_all(&self) -> Result<(), Failure> {
        self.team.before_change(&self.file)?;
        self.team.after_change(&self.file)?;
        self.heading.note_shown();
        Ok(())
    }

    /// Before all change what accesses go by, as the view or the shared pointer: nobody is at an earlier access any more,
    /// and all know how long the file is.
    ///
    /// # Errors
    /// That a rank is lost.
    pub(crate) fn begin_change(&self) -> Result<(), Failure> {
        self.asking.resume();
        match self.outcome {
            Outcome::Own if self.heading.is_any() => self.team.end_of_write(&self.file, Ok(())),
            Outcome::Own | Outcome::Shared => Ok(()),
        }
    }

    /// Before all sync or close the file: where ranks of a node have written into its cache together, what it keeps back
    /// goes to other nodes once they have all done so, and not again for each.
    ///
    /// # Errors
    /// As [`begin_change`](Self::begin_change).
    pub(crate) fn begin_flush(&self) -> Result<(), Failure> {
        self.asking.resume();
        match self.company() {
            Some(company)
                if self.outcome == Outcome::Own && self.heading.is_any() && company.shares_nodes() =>
            {
                self.team.agree(Ok(()))
            }
            _ => Ok(()),
        }
    }

    /// Ends a collective access, of which `mine` is this rank's outcome.
    ///
    /// # Errors
    /// `mine`; where outcomes are shared also that of another rank.
    #[inline]
    pub(crate) fn end_access(&self, direction: Direction, mine: Result<(), Failure>) -> Result<(), Failure> {
        match (self.outcome, direction) {
            (Outcome::Own, _) => {
                // One that was begun, and all have waited for each other since.
                self.heading.turns_to(direction);
                mine.map_err(|failure| self.noted(failure))
            }
            (Outcome::Shared, Direction::Read) => self.team.agree(mine),
            (Outcome::Shared, Direction::Write) => self.team.end_of_write(&self.file, mine),
        }
    }

    /// `failure` of this rank's, of which others are to hear later.
    #[cold]
    fn noted(&self, failure: Failure) -> Failure {
        let failure = self.located(failure);
        self.unheard.note(&failure);
        failure
    }

    /// After a step that all ranks have taken together, with its outcome: tells what failed since the last one, on all.
    ///
    /// # Errors
    /// The step's; then those of accesses, of which others have not heard.
    pub(crate) fn tell_failures(&self, step: Result<(), Failure>) -> Result<(), Failure> {
        match self.outcome {
            Outcome::Own if self.heading.end() => {
                self.tell_unheard(|numbers| self.team.agree_on(step, numbers))
            }
            Outcome::Own | Outcome::Shared => step,
        }
    }

    /// Tells all what failed where others have not heard of any failure; where something failed on each, all have. The
    /// ranks learn the largest of two numbers by `agree`.
    fn tell_unheard(&self, agree: impl FnOnce([i64; 2]) -> Result<[i64; 2], Failure>) -> Result<(), Failure> {
        let is_any = self.unheard.is_any();
        let [some, not_all] = agree([i64::from(is_any), i64::from(!is_any)])?;
        let mine = self.unheard.take();
        if some == 1 && not_all == 1 { self.team.agree(mine) } else { Ok(()) }
    }
}
