//! A schedule as source code: a barrier for threads, or processes that share memory, with its signals hard-coded.
//!
//! ```text
//!   memory   one line per flag; each has one writer and one reader, who find it by number
//!   wait     switch (rank) { case 3: set flag 7; await flag 2; … }
//! ```
//!
//! Flags hold the number of the barrier that they were last set in, and only grow: nothing is ever reset. Who waits
//! looks a while, then lets others run, and sleeps when that takes long, so that there may be more ranks than cores.

mod c;
mod rust;

use std::collections::HashMap;
use std::fmt::Write;

use crate::rank::Rank;
use crate::schedule::{Schedule, Signal};

/// In what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Language {
    /// C11, as a source file whose names all begin with a prefix.
    C {
        /// The prefix: an identifier.
        prefix: String,
    },
    /// Rust, as a module that uses nothing but the standard library.
    Rust,
}

impl Schedule {
    /// Writes a barrier with the signals of this schedule as source code.
    ///
    /// Steps of kind fetch-add are written as the signals that they stand for.
    ///
    /// # Errors
    /// [`EmissionError`] where the schedule is no barrier, or the prefix no identifier.
    pub fn emit(&self, language: &Language) -> Result<String, EmissionError> {
        if self.ranks() == 0 || !self.is_barrier() {
            return Err(EmissionError::NoBarrier);
        }
        let mut source = String::new();
        // Writing to a string does not fail.
        match language {
            Language::C { prefix } => {
                let mut characters = prefix.chars();
                let is_identifier =
                    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                        && characters.all(|next| next.is_ascii_alphanumeric() || next == '_');
                if !is_identifier {
                    return Err(EmissionError::Prefix { prefix: prefix.clone() });
                }
                c::write(&mut source, &Program::of(self), prefix)?;
            }
            Language::Rust => rust::write(&mut source, &Program::of(self))?,
        }
        Ok(source)
    }
}

/// What is written, in whatever language.
struct Program {
    ranks: u32,
    steps: usize,
    flags: usize,
    /// What each rank does.
    parts: Vec<Vec<Action>>,
}

/// One line of a rank's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Set the flag of that number, which a rank awaits.
    Set(usize, Rank),
    /// Wait for the flag of that number, which a rank sets.
    Await(usize, Rank),
}

impl Program {
    fn of(schedule: &Schedule) -> Self {
        // A rank's flags lie together, in the order in which it waits for them.
        let mut numbers = HashMap::new();
        for to in (0..schedule.ranks()).map(Rank) {
            for step in schedule.part_of(to) {
                for &from in step.awaited {
                    numbers.insert((step.number, Signal { from, to }), numbers.len());
                }
            }
        }
        let part = |rank: Rank| {
            let mut actions = Vec::new();
            for step in schedule.part_of(rank) {
                let number = |from, to| numbers[&(step.number, Signal { from, to })];
                actions.extend(step.signal.iter().map(|&to| Action::Set(number(rank, to), to)));
                actions.extend(step.awaited.iter().map(|&from| Action::Await(number(from, rank), from)));
            }
            actions
        };
        Self {
            ranks: schedule.ranks(),
            steps: schedule.steps().len(),
            flags: numbers.len(),
            parts: (0..schedule.ranks()).map(|rank| part(Rank(rank))).collect(),
        }
    }

    /// Fills what is in braces in a template, and writes it.
    fn fill(&self, source: &mut String, template: &str, prefix: &str) {
        let numbers = [
            ("{prefix}", prefix.to_owned()),
            ("{ranks}", self.ranks.to_string()),
            ("{steps}", self.steps.to_string()),
            // An array of none is no C.
            ("{flags}", self.flags.max(1).to_string()),
        ];
        let filled =
            numbers.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value));
        source.push_str(&filled);
    }
}

/// Why there is no source code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmissionError {
    /// What would come out would let ranks go too early.
    #[error("the schedule is no barrier")]
    NoBarrier,
    /// Names cannot begin so.
    #[error("{prefix:?} is no identifier of C")]
    Prefix {
        /// What was given.
        prefix: String,
    },
    /// Writing failed, which strings do not.
    #[error(transparent)]
    Write(#[from] std::fmt::Error),
}

/// Writes the lines of one rank's part.
fn write_lines(
    source: &mut String,
    actions: &[Action],
    line: impl Fn(Action) -> String,
) -> Result<(), std::fmt::Error> {
    actions.iter().try_for_each(|&action| writeln!(source, "{}", line(action)))
}
