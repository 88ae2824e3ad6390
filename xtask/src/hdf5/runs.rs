//! Running HDF5's parallel tests: every test × MPI × kind of file.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::compile;
use super::programs::{RANKS, Step, TESTS, Test};
use crate::comparison::Tally;
use crate::launcher::{Job, Launcher};
use crate::mpi::Mpi;
use crate::paths::Paths;
use crate::process::{self, Ending, Finished};
use crate::suite::{self, Attempt, Selection, run_suite};

/// How long one program may take: the slowest good ones need a third of it, over hosts.
const LIMIT: Duration = Duration::from_secs(300);

/// Where a test puts its files, before their names.
const PREFIX: &str = "HDF5_PARAPREFIX";

type Case = suite::Case<&'static Test>;

/// Builds and runs the selected part, with Debian's MPIs: its HDF5 is made for these.
pub(crate) fn run(paths: &Paths, selection: &Selection) -> Result<Tally> {
    selection.check(paths)?;
    let mut mpis = selection.mpis();
    mpis.retain(|mpi| Mpi::DEBIAN.contains(mpi));
    for &mpi in &mpis {
        compile::run(paths, mpi)?;
    }
    let mut cases = Vec::new();
    for program in TESTS.iter().filter(|test| !(selection.short && test.takes_long)) {
        for &mpi in &mpis {
            let runs = selection.runs(mpi, RANKS).into_iter();
            cases.extend(runs.map(|(launcher, ranks)| Case { program, mpi, launcher, ranks }));
        }
    }
    let cores_of = |case: &Case| case.ranks as usize;
    let run = |case: &Case| case.outcome(case.program.name, attempt(paths, case));
    run_suite("HDF5's tests", selection, &cases, &[], cores_of, run)
}

/// Runs one case in a folder of its own.
fn attempt(paths: &Paths, case: &Case) -> Result<Attempt> {
    let scratch = case.launcher.scratch("hdf5").context("cannot make a folder for the run")?;
    let attempted = attempt_in(scratch.path(), paths, case);
    // However it ended: what hosts keep of it is to be removed.
    let misplacement = job(case, scratch.path(), Path::new(""), &[]).misplacement();
    attempted.map(|Attempt { finished, fault }| Attempt { finished, fault: fault.or(misplacement) })
}

/// Runs the programs of a test, as far as they go well.
fn attempt_in(folder: &Path, paths: &Paths, case: &Case) -> Result<Attempt> {
    let prefix = match case.launcher {
        Launcher::Stock => folder.display().to_string(),
        _ => "svm:/hdf5".to_owned(),
    };
    let mut last = None;
    for step in case.program.steps {
        let program = compile::executable(paths, case.mpi, step.program);
        let name = format!("{}-{}-{}.log", step.program, case.ranks, case.launcher.name());
        let log = paths.hdf5_tests().join("log").join(case.mpi.name()).join(name);
        let mut command = job(case, folder, &program, step.arguments).command(paths)?;
        let finished = process::run_limited(command.env(PREFIX, &prefix), LIMIT, &log)?;
        let fault = judged(step, &finished);
        let is_over = fault.is_some();
        last = Some(Attempt { finished, fault });
        if is_over {
            break;
        }
    }
    last.context("a test without programs")
}

fn job<'a>(case: &Case, folder: &'a Path, program: &'a Path, arguments: &[&str]) -> Job<'a> {
    let arguments = arguments.iter().map(Into::into).collect();
    Job { mpi: case.mpi, launcher: case.launcher, ranks: case.ranks, program, arguments, folder }
}

/// What is wrong with a finished program, if anything.
fn judged(step: &Step, finished: &Finished) -> Option<String> {
    let has_said = step.says.is_none_or(|words| finished.output.contains(words));
    if has_said && step.breaks_off && finished.ending != Ending::TimedOut {
        return None;
    }
    let silence = || (!has_said).then(|| "its output does not say that all went well".to_owned());
    finished.fault(LIMIT, silence)
}
