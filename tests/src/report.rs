//! What the ranks of a program tell of the calls that they made (`programs/support/report.h`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::scratch::Scratch;

/// A directory for the reports of one job.
#[derive(Debug)]
pub struct Reports(PathBuf);

/// A line of a rank's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What was done.
    pub what: String,
    /// The error class, or a number.
    pub result: String,
    /// The error's message.
    pub message: String,
}

impl Reports {
    /// A new directory, open to all users.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn new(scratch: &Scratch, name: &str) -> Reports {
        Reports(scratch.new_directory(name))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The report of each of `ranks` ranks.
    ///
    /// # Panics
    /// Where one has written none.
    pub fn read(&self, ranks: u32) -> Vec<Vec<Line>> {
        let of_rank = |rank| {
            let path = self.0.join(format!("rank-{rank}"));
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            text.lines().map(Line::parse).collect()
        };
        (0..ranks).map(of_rank).collect()
    }
}

impl Line {
    fn parse(text: &str) -> Line {
        let mut parts = text.splitn(3, '\t').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_else(|| panic!("'{text}' is no line of a report"));
        Line { what: next(), result: next(), message: next() }
    }
}
