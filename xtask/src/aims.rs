//! Benchmarks that are judged: whether nothing is far from what is aimed at.

use anyhow::{Context, Result};

use crate::bench::benchmark;
use crate::comparison::Tally;
use crate::paths::Paths;

/// The benchmarks of the check that have aims, each with the options that make it short.
pub(crate) const AIMED: [(&str, &[&str]); 5] = [
    ("messages", &["--check"]),
    ("overlap", &["--check"]),
    ("mapping", &["--check"]),
    ("collectives", &["--check"]),
    ("files", &["--short"]),
];

/// What a benchmark exits with where others use the machine and nothing can be said.
const NOT_JUDGED: i32 = 75;

/// What it exits with where an aim is missed.
const MISSED: i32 = 1;

/// What can be said of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Nothing is far from its aim.
    Near,
    /// Something is, each time, or cannot be measured here.
    FarOff,
    /// Others used the machine.
    NotJudged,
}

/// Judges all of them, each counted by what came of it, unless nothing can be said.
pub(crate) fn judge_all(paths: &Paths) -> Result<Tally> {
    let mut tally = Tally::default();
    for (name, options) in AIMED {
        tally += match judge(paths, name, options)? {
            Judgement::Near => Tally { passed: 1, failed: 0 },
            Judgement::FarOff => Tally { passed: 0, failed: 1 },
            Judgement::NotJudged => Tally::default(),
        };
    }
    Ok(tally)
}

/// Runs a benchmark until nothing is far off, three times at most; tells where it could not be judged. What fails in
/// any other way fails at once.
pub(crate) fn judge(paths: &Paths, name: &str, options: &[&str]) -> Result<Judgement> {
    const TRIES: usize = 3;
    // What is far off three times is far off by itself. All else that goes wrong, as a process that crashes or has wrong
    // data, is wrong however often it goes well.
    let mut far_off = 0;
    for _ in 0..TRIES {
        let mut command = benchmark(paths, name)?;
        let status = command.args(options).status().with_context(|| format!("cannot run {name}"))?;
        match status.code() {
            Some(0) => return Ok(Judgement::Near),
            Some(MISSED) => far_off += 1,
            Some(NOT_JUDGED) => {}
            _ => {
                eprintln!("{name}: {status}");
                return Ok(Judgement::FarOff);
            }
        }
    }
    if far_off == TRIES {
        return Ok(Judgement::FarOff);
    }
    eprintln!(
        "{name}: NOT JUDGED; run `cargo run --release -p svmio-benches --bin {name} -- {}` when nobody else uses this \
         machine",
        options.join(" ")
    );
    Ok(Judgement::NotJudged)
}
