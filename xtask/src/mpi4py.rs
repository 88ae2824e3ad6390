//! mpi4py's own file tests (`test_io`, `test_file`) as a suite, on stock MPI-IO and with every file
//! claimed by svmio.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::comparison::{Known, Outcome, Tally};
use crate::launcher::{Job, Launcher};
use crate::paths::{self, Paths};
use crate::process::{self, Ending, Finished};
use crate::suite::{self, Selection, run_suite};
use crate::wheels;

/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(240);

/// mpi4py's test modules that use files.
const MODULES: &[&str] = &["test_io", "test_file"];

/// Found by running them; a run that is not listed here must pass.
const KNOWN: &[Known] = &[];

type Case = suite::Case<&'static str>;

/// Makes the environments and runs the selected part.
pub(crate) fn run(paths: &Paths, selection: &Selection) -> Result<Tally> {
    selection.check(paths)?;
    wheels::run(paths)?;
    let tests = wheels::mpi4py_tests(paths)?;
    let mut cases = Vec::new();
    for module in MODULES {
        for mpi in selection.mpis() {
            for ranks in selection.ranks(&[1, 2, 4]) {
                for launcher in selection.launchers() {
                    cases.push(Case { program: module, mpi, launcher, ranks });
                }
            }
        }
    }
    let cores_of = |case: &Case| case.ranks as usize;
    let run = |case: &Case| outcome(paths, &tests, case);
    run_suite("mpi4py's tests", selection, &cases, KNOWN, cores_of, run)
}

fn outcome(paths: &Paths, tests: &Path, case: &Case) -> Outcome {
    let (fault, elapsed) = match attempt(paths, tests, case) {
        Ok((finished, misplacement)) => (judged(case.ranks, &finished).or(misplacement), finished.elapsed),
        Err(error) => (Some(format!("{error:#}")), Duration::ZERO),
    };
    Outcome {
        program: case.program.to_owned(),
        mpi: case.mpi,
        launcher: case.launcher,
        ranks: case.ranks,
        fault,
        elapsed,
    }
}

/// What is wrong with a finished run, if anything.
fn judged(ranks: u32, finished: &Finished) -> Option<String> {
    let why = match finished.ending {
        Ending::Exited(0) => match tests_run(&finished.output) {
            counts if counts.len() != ranks as usize => {
                format!("{} of {ranks} ranks said how many tests they ran", counts.len())
            }
            counts if counts.contains(&0) => "no tests were run".to_owned(),
            _ => return None,
        },
        Ending::Exited(status) => format!("exit status {status}"),
        Ending::Signalled(signal) => format!("signal {signal}"),
        Ending::TimedOut => format!("not finished after {} s", LIMIT.as_secs()),
    };
    Some(finished.complaint(&why))
}

/// The number of tests that each rank says it ran.
fn tests_run(output: &str) -> Vec<u64> {
    output.lines().filter_map(|line| line.split_once("Ran ")?.1.split_once(" test")?.0.parse().ok()).collect()
}

/// Runs one case in a folder of its own. Comes back with what is wrong with its files' place, if
/// anything.
fn attempt(paths: &Paths, tests: &Path, case: &Case) -> Result<(Finished, Option<String>)> {
    let scratch = paths::scratch("svmio-mpi4py-").context("cannot make a folder for the run")?;
    let python = case.mpi.python(paths);
    let mut arguments: Vec<OsString> = vec![tests.join("main.py").into()];
    arguments.extend(["-i", case.program].map(OsString::from));
    let job = Job {
        mpi: case.mpi,
        launcher: case.launcher,
        ranks: case.ranks,
        program: &python,
        arguments,
        folder: scratch.path(),
    };
    let mut command = job.command(paths);
    case.mpi.select_for_mpi4py(paths, &mut command);
    if case.launcher == Launcher::Svm {
        command.env("SVMIO_CLAIM", "*");
    }
    let log = paths.mpi4py_tests().join("log").join(format!(
        "{}-{}-{}-{}.log",
        case.program,
        case.mpi.name(),
        case.ranks,
        case.launcher.name()
    ));
    let finished = process::run_limited(&mut command, LIMIT, &log)?;
    Ok((finished, job.misplacement()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(output: &str) -> Finished {
        Finished {
            ending: Ending::Exited(0),
            output: output.to_owned(),
            log: "log".into(),
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn every_rank_must_have_run_tests() {
        let two = "Ran 12 tests in 0.1s\n\nOK\nRan 12 tests in 0.1s\n\nOK (skipped=1)\n";
        assert_eq!(judged(2, &finished(two)), None);
        assert!(judged(4, &finished(two)).is_some());
        assert!(judged(1, &finished("Ran 0 tests in 0.0s\n\nOK\n")).is_some());
        assert!(judged(1, &finished("")).is_some());
    }
}
