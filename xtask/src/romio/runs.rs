//! Running ROMIO's test programs: every program × number of ranks × MPI × kind of file.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::compile;
use super::known::KNOWN;
use super::programs::{Arguments, FILE_VARIABLE, Load, PROGRAMS, Program, READ_VARIABLE};
use crate::build::svmio;
use crate::comparison::Tally;
use crate::launcher::{Job, Launcher};
use crate::memory;
use crate::paths::Paths;
use crate::process;
use crate::sources;
use crate::suite::{self, Attempt, Selection, run_suite};

/// How long one run may take: the slowest good ones need a tenth of it.
const LIMIT: Duration = Duration::from_secs(120);

type Case = suite::Case<&'static Program>;

/// Builds and runs the selected part; `only` names programs, none means all.
pub(crate) fn run(paths: &Paths, selection: &Selection, only: &[String]) -> Result<Tally> {
    selection.check(paths)?;
    if let Some(unknown) = only.iter().find(|name| !PROGRAMS.iter().any(|program| program.name == **name)) {
        bail!("ROMIO has no test program {unknown}");
    }
    selection.make_wheels(paths)?;
    for mpi in selection.mpis() {
        compile::run(paths, mpi)?;
    }
    let mut cases = Vec::new();
    for program in PROGRAMS {
        if !only.is_empty() && !only.iter().any(|name| name == program.name) {
            continue;
        }
        for mpi in selection.mpis() {
            if program.is_fortran() && mpi.fortran_compiler(paths).is_none() {
                continue;
            }
            if selection.leaves_out_heavy(mpi) && program.load != Load::Light {
                continue;
            }
            let runs = selection.runs(mpi, program.ranks).into_iter();
            cases.extend(runs.map(|(launcher, ranks)| Case { program, mpi, launcher, ranks }));
        }
    }
    let cores_of = |case: &Case| match case.program.load {
        Load::Light => case.ranks as usize,
        Load::Heavy { .. } => usize::MAX,
    };
    let run = |case: &Case| case.outcome(case.program.name, attempt(paths, case));
    run_suite("ROMIO's tests", selection, &cases, KNOWN, cores_of, run)
}

/// Runs one case in a folder of its own, on a file that nothing else uses.
fn attempt(paths: &Paths, case: &Case) -> Result<Attempt> {
    if let Load::Heavy { gibibytes } = case.program.load {
        memory::demand(gibibytes)?;
    }
    let scratch = case.launcher.scratch("romio").context("cannot make a folder for the run")?;
    let folder = scratch.path();
    let program = compile::executable(paths, case.mpi, case.program);
    let file = match case.launcher {
        Launcher::Stock => folder.join("file").display().to_string(),
        _ => "svm:/romio/file".to_owned(),
    };
    let mut environment: Vec<(&str, String)> = Vec::new();
    let mut arguments: Vec<OsString> = Vec::new();
    match case.program.arguments {
        Arguments::Fname => arguments.extend(["-fname", &file].map(OsString::from)),
        Arguments::Bare => arguments.push(file.into()),
        Arguments::Aggregation => arguments.extend(["-h", "-f", &file].map(OsString::from)),
        Arguments::HintFile => {
            let hints = hint_file(paths, folder)?;
            if let Some(store) = Job::stores(folder, case.launcher, case.ranks).first() {
                claim(paths, store, &hints)?;
                environment.push(("SVMIO_CLAIM", folder.display().to_string()));
            }
            arguments.push(hints.into());
        }
        Arguments::Environment => {
            let all = Job::options_for_reading(folder, case.launcher, case.ranks)?;
            let reader = match case.launcher {
                Launcher::Stock => format!("cat '{file}'"),
                _ => format!("'{}' cat {all} '{file}'", svmio(paths).display()),
            };
            // Rank 0's own store has but a part of the file where there are several nodes.
            let stores = Job::stores(folder, case.launcher, case.ranks);
            if stores.len() > 1 {
                let list = std::env::join_paths(&stores).context("the folder's name has a colon")?;
                environment.push(("SVMIO_STORES", list.to_string_lossy().into_owned()));
            }
            environment.push((FILE_VARIABLE, file));
            environment.push((READ_VARIABLE, reader));
        }
    }
    let job = Job {
        mpi: case.mpi,
        launcher: case.launcher,
        ranks: case.ranks,
        program: &program,
        arguments,
        folder,
    };
    let log = paths.romio_tests().join("log").join(case.mpi.name()).join(format!(
        "{}-{}-{}.log",
        case.program.name,
        case.ranks,
        case.launcher.name()
    ));
    let mut command = job.command(paths)?;
    if case.launcher == Launcher::Stock {
        command.envs(case.mpi.stock_romio());
    }
    let finished = process::run_limited(command.envs(environment), LIMIT, &log);
    // However it ended: what hosts keep of it is to be removed.
    let misplacement = job.misplacement();
    let finished = finished?;
    let success = case.program.success;
    let fault = finished.fault(LIMIT, || success.shortfall(&finished.output)).or(misplacement);
    Ok(Attempt { finished, fault })
}

/// ROMIO's file of hints, copied into `folder`.
fn hint_file(paths: &Paths, folder: &Path) -> Result<String> {
    let original = sources::romio_tests(paths)?.join("test_hintfile");
    let copy = folder.join("test_hintfile");
    fs::copy(&original, &copy).with_context(|| format!("cannot copy {}", original.display()))?;
    Ok(copy.display().to_string())
}

/// Puts `file` into a store of the run too, by its own path, so that a job that claims it finds it.
fn claim(paths: &Paths, store: &Path, file: &str) -> Result<()> {
    let mut copy = Command::new(svmio(paths));
    copy.arg("cp").arg(file).arg(format!("svm:{file}")).env("SVMIO_STORE", store);
    process::capture(&mut copy).map(|_| ()).context("cannot copy the hints into the store")
}
