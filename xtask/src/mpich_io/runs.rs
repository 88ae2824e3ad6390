//! Running MPICH's tests of MPI-IO: every line of their lists × MPI × kind of file.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::known::{FOLDERS, KNOWN, LEFT_OUT};
use crate::comparison::Tally;
use crate::launcher::{Job, Launcher};
use crate::memory;
use crate::mpich::compile::Tree;
use crate::mpich::testlist::{self, Extent, Test};
use crate::paths::Paths;
use crate::process;
use crate::romio::programs::Success;
use crate::suite::{self, Attempt, Selection, run_suite};

/// How long one run may take: the slowest good ones need a tenth of it.
const LIMIT: Duration = Duration::from_secs(120);

/// The file that a program does not have in its working directory.
const ELSEWHERE: &str = "/tmp/datafile";

type Case = suite::Case<Test>;

/// Builds and runs the selected part; `only` names programs, none means all.
pub(crate) fn run(paths: &Paths, selection: &Selection, only: &[String]) -> Result<Tally> {
    selection.check(paths)?;
    selection.make_wheels(paths)?;
    let tree = Tree::fetch(paths)?;
    let mut all = Vec::new();
    for folder in FOLDERS {
        all.push((folder, selected(&tree, folder)?));
    }
    let is_known =
        |name: &String| all.iter().any(|(_, tests)| tests.iter().any(|test| test.program == *name));
    if let Some(unknown) = only.iter().find(|name| !is_known(name)) {
        bail!("MPICH has no test program {unknown} of MPI-IO that is run");
    }
    let mut cases = Vec::new();
    for (folder, mut tests) in all {
        tests.retain(|test| only.is_empty() || only.contains(&test.program));
        let programs: BTreeSet<&str> = tests.iter().map(|test| test.program.as_str()).collect();
        for mpi in selection.mpis() {
            println!("mpich-io: building the programs of {folder} with {}", mpi.name());
            if let Some((program, fault)) = tree.build(paths, mpi, folder, &programs)?.first() {
                bail!("{program} cannot be built with {}: {fault}", mpi.name());
            }
            for test in tests.iter().filter(|test| !(selection.short && test.gigabytes.is_some())) {
                let runs = selection.runs(mpi, &[test.ranks]).into_iter();
                cases.extend(runs.map(|(launcher, ranks)| Case {
                    program: test.clone(),
                    mpi,
                    launcher,
                    ranks,
                }));
            }
        }
    }
    for (program, reason) in LEFT_OUT {
        println!("mpich-io: {program} is left out: {reason}");
    }
    let cores_of =
        |case: &Case| if case.program.gigabytes.is_some() { usize::MAX } else { case.ranks as usize };
    let run = |case: &Case| case.outcome(&case.program.program, attempt(paths, &tree, case));
    run_suite("MPICH's tests of MPI-IO", selection, &cases, KNOWN, cores_of, run)
}

fn selected(tree: &Tree, folder: &str) -> Result<Vec<Test>> {
    let mut tests = testlist::read(&tree.programs(folder), Extent::Full)?;
    tests.retain(|test| LEFT_OUT.iter().all(|(program, _)| *program != test.program));
    Ok(tests)
}

/// Runs one case in a folder of its own, whose names are svmio's.
fn attempt(paths: &Paths, tree: &Tree, case: &Case) -> Result<Attempt> {
    let Test { program, arguments, gigabytes, .. } = &case.program;
    if let Some(gigabytes) = gigabytes {
        // The file is as long as its buffers at most.
        memory::demand((2.0 * gigabytes).ceil() as u64)?;
    }
    let scratch = case.launcher.scratch("mpich-io").context("cannot make a folder for the run")?;
    let folder = scratch.path();
    let executable = tree.executable(case.mpi, program);
    let job = Job {
        mpi: case.mpi,
        launcher: case.launcher,
        ranks: case.ranks,
        program: &executable,
        arguments: arguments.iter().map(Into::into).collect(),
        folder,
    };
    let name = format!("{program}-{}-{}.log", case.ranks, case.launcher.name());
    let log = paths.mpich_tests().join("log").join(case.mpi.name()).join(name);
    let mut command = job.command(paths)?;
    match case.launcher {
        Launcher::Stock => command.envs(case.mpi.stock_romio()),
        _ => command.env("SVMIO_CLAIM", format!("{}:{ELSEWHERE}", folder.display())),
    };
    let finished = process::run_limited(&mut command, LIMIT, &log);
    // However it ended: what hosts keep of it is to be removed.
    let misplacement = job.misplacement();
    let finished = finished?;
    let fault = finished.fault(LIMIT, || Success::NoErrors.shortfall(&finished.output)).or(misplacement);
    Ok(Attempt { finished, fault })
}
