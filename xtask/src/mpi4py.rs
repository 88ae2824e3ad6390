//! mpi4py's own file tests (`test_io`, `test_file`) as a suite, on stock MPI-IO and with every file
//! claimed by svmio.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::comparison::{Known, Tally};
use crate::launcher::Job;
use crate::mpi::Mpi;
use crate::paths::Paths;
use crate::process;
use crate::suite::{self, Attempt, Selection, run_suite};
use crate::wheels;

/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(300);

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
            // Ranks poll: where there are more than cores, their tests of files take three times as long.
            let few = selection.leaves_out_heavy(mpi) && selection.ranks.is_empty();
            let runs = selection.runs(mpi, if few { &[2] } else { &[1, 2, 4] }).into_iter();
            cases.extend(runs.map(|(launcher, ranks)| Case { program: module, mpi, launcher, ranks }));
        }
    }
    let cores_of = |case: &Case| case.ranks as usize;
    let run = |case: &Case| case.outcome(case.program, attempt(paths, &tests, case));
    run_suite("mpi4py's tests", selection, &cases, KNOWN, cores_of, run)
}

/// What the output of a run that ended well lacks, if anything: each rank names itself and its MPI
/// and says how many tests it ran.
fn shortfall(mpi: Mpi, ranks: u32, output: &str) -> Option<String> {
    if let Some(missing) = (0..ranks).find(|rank| !output.contains(&format!("[{rank}@"))) {
        return Some(format!("there was no rank {missing}: the ranks did not find each other"));
    }
    if !output.contains(&format!("({} ", mpi.vendor())) {
        return Some(format!("it did not run on {}", mpi.vendor()));
    }
    let counts = tests_run(output);
    if counts.len() != ranks as usize {
        return Some(format!("{} of {ranks} ranks said how many tests they ran", counts.len()));
    }
    counts.contains(&0).then(|| "no tests were run".to_owned())
}

/// The number of tests that each rank says it ran. Several can say so on one line: they write at the same time.
fn tests_run(output: &str) -> Vec<u64> {
    output.split("Ran ").skip(1).filter_map(|rest| rest.split_once(" test")?.0.parse().ok()).collect()
}

/// Runs one case in a folder of its own.
fn attempt(paths: &Paths, tests: &Path, case: &Case) -> Result<Attempt> {
    let scratch = case.launcher.scratch("mpi4py").context("cannot make a folder for the run")?;
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
    let mut command = job.command(paths)?;
    case.mpi.select_for_mpi4py(paths, &mut command);
    if case.launcher.is_svmio() {
        command.env("SVMIO_CLAIM", "*");
    }
    let log = paths.mpi4py_tests().join("log").join(format!(
        "{}-{}-{}-{}.log",
        case.program,
        case.mpi.name(),
        case.ranks,
        case.launcher.name()
    ));
    let finished = process::run_limited(&mut command, LIMIT, &log);
    // However it ended: what hosts keep of it is to be removed.
    let misplacement = job.misplacement();
    let finished = finished?;
    let fault = finished.fault(LIMIT, || shortfall(case.mpi, case.ranks, &finished.output)).or(misplacement);
    Ok(Attempt { finished, fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_must_have_run_tests_together() {
        let rank = |rank: u32| {
            format!("[{rank}@host] MPI 4.0 (MPICH 4.0.2)\n..\nRan 12 tests in 0.1s\n\nOK (skipped=1)\n")
        };
        let mpich = |ranks, output: &str| shortfall(Mpi::DebianMpich, ranks, output);
        assert_eq!(mpich(2, &(rank(0) + &rank(1))), None);
        let on_one_line = rank(0).replace("0.1s\n\nOK (skipped=1)\n", "0.1s") + &rank(1);
        assert_eq!(mpich(2, &on_one_line), None);
        assert!(mpich(2, &(rank(0) + &rank(0))).is_some(), "two jobs of one rank");
        assert!(mpich(1, &rank(0).replace("12 tests", "0 tests")).is_some(), "no tests");
        assert!(mpich(1, &rank(0).replace("Ran", "")).is_some(), "no count");
        assert!(shortfall(Mpi::DebianOpenMpi, 1, &rank(0)).is_some(), "another MPI");
    }
}
