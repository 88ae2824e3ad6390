//! Running programs by a job of MPI processes, and judging what these have observed.

use std::fs;
use std::iter::Peekable;
use std::path::Path;
use std::time::Duration;

use svmio_tests::{Files, Job, Mpi, Nodes, Scratch};

use super::judge::{self, Log, Observed};
use super::order::Promises;
use super::program::Program;
use super::script::Script;

/// Who runs programs, and on what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World {
    pub(crate) mpi: Mpi,
    pub(crate) place: Place,
    pub(crate) ranks: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// Without svmio.
    Stock,
    OneNode,
    /// Four of them, of which each has a cache of pages of 4 KiB of so many bytes.
    Nodes {
        cache: &'static str,
    },
}

/// A program that went wrong.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// Which of those that were run.
    pub(crate) number: usize,
    pub(crate) what: String,
}

impl World {
    /// Runs programs one after the other, and tells the first that went wrong.
    ///
    /// # Errors
    /// One did.
    pub(crate) fn run(&self, programs: &[Program], limit: Duration) -> Result<(), Wrong> {
        let scripts = programs.iter().zip(0..).map(|(program, number)| self.script(program, number));
        let scripts: Vec<Script> = scripts.collect();
        let scratch = Scratch::new();
        let (text, logs) = (scratch.file("programs"), scratch.new_directory("logs"));
        let written: String =
            scripts.iter().flat_map(|script| &script.lines).map(|line| format!("{line}\n")).collect();
        fs::write(&text, written).unwrap_or_else(|error| panic!("{}: {error}", text.display()));
        let program = svmio_tests::Program::c("mpi_model", self.mpi);
        let job = Job::new(&scratch, &program, self.ranks).argument(&text).argument(&logs).limit(limit);
        let finished = match self.place {
            Place::Stock => job.files(Files::Stock),
            Place::OneNode => job,
            Place::Nodes { cache } => job
                .over(Nodes::Emulated(4))
                .variable("SVMIO_CACHE_PAGE", "4K")
                .variable("SVMIO_CACHE_CAPACITY", cache),
        };
        let finished = finished.start().wait_or_end();
        let mut logs: Vec<_> =
            (0..self.ranks).map(|rank| lines(&logs.join(format!("rank-{rank}")))).collect();
        let mut first_line = 0;
        for (number, (script, program)) in scripts.iter().zip(programs).enumerate() {
            let judged = match log(script, first_line, &mut logs) {
                Some(log) => judge::check(script, &log, self.promises(program)),
                None => Err(match &finished {
                    Ok(finished) | Err(finished) => finished.account(),
                }),
            };
            judged.map_err(|what| Wrong { number, what })?;
            first_line += script.lines.len();
        }
        match finished {
            Ok(finished) if finished.status.success() => Ok(()),
            Ok(finished) | Err(finished) => {
                let number = programs.len() - 1;
                Err(Wrong { number, what: format!("at the end: {}", finished.account()) })
            }
        }
    }

    /// A program's lines, as its MPI processes read them.
    pub(crate) fn script(&self, program: &Program, number: usize) -> Script {
        let is_stock = matches!(self.place, Place::Stock);
        let prefix = if is_stock { "ufs:" } else { "svm:/" };
        Script::new(program, self.ranks as usize, &format!("{prefix}program-{number}"), is_stock)
    }

    fn promises(&self, program: &Program) -> Promises {
        let of_svmio = !matches!(self.place, Place::Stock);
        let is_immediate = program.hints.contains(&("svm_visibility", "immediate"));
        let seen_at_once = matches!(self.place, Place::OneNode) || of_svmio && is_immediate;
        let outcome_shared = program.hints.contains(&("svm_outcome", "shared"));
        Promises { of_svmio, outcome_shared, seen_at_once, of_special: of_svmio }
    }
}

/// What a script's ranks have observed, if all have come to its end; its lines begin with this one.
fn log(script: &Script, first_line: usize, ranks: &mut [Lines]) -> Option<Log> {
    let end = first_line + script.lines.len();
    let mut log = Log::new();
    for lines in ranks {
        let own: Vec<_> = std::iter::from_fn(|| lines.next_if(|(line, _)| *line < end)).collect();
        // The removal of the file.
        if own.last().is_none_or(|(line, _)| *line != end - 1) {
            return None;
        }
        log.extend(own.into_iter().map(|(line, observed)| (line - first_line, observed)));
    }
    Some(log)
}

/// The lines of a rank's log, as far as they are whole.
type Lines = Peekable<std::vec::IntoIter<(usize, Observed)>>;

fn lines(path: &Path) -> Lines {
    let all = fs::read(path).unwrap_or_default();
    let mut rest = &all[..];
    let lines = std::iter::from_fn(|| {
        let (head, behind) = rest.split_at_checked(24)?;
        let words: Vec<u64> = head.chunks(8).map(word).collect();
        let (bytes, behind) = behind.split_at_checked(usize::try_from(words[2]).ok()?)?;
        rest = behind;
        Some((usize::try_from(words[0]).ok()?, Observed { size: words[1], bytes: bytes.to_vec() }))
    });
    lines.collect::<Vec<_>>().into_iter().peekable()
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
