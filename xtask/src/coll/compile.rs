//! Building MPICH's tests of collectives outside its tree: their harness once for each MPI, then each program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::known;
use super::testlist::Test;
use crate::launcher::cores;
use crate::mpi::Mpi;
use crate::paths::Paths;
use crate::{pool, process, sources};

/// Of the folder of all of MPICH's tests: what every program is linked with.
const HARNESS: [&str; 10] = [
    "util/mtest.c",
    "util/mtest_common.c",
    "util/mtest_single.c",
    "util/dtypes.c",
    "dtpools/src/dtpools.c",
    "dtpools/src/dtpools_attr.c",
    "dtpools/src/dtpools_custom.c",
    "dtpools/src/dtpools_desc.c",
    "dtpools/src/dtpools_init_verify.c",
    "dtpools/src/dtpools_misc.c",
];

/// Not optimised: building takes longer than running.
const FLAGS: [&str; 3] = ["-O0", "-g1", "-w"];

/// MPICH's tests, with the headers that stand for what its configure makes.
#[derive(Debug)]
pub(crate) struct Tree {
    tests: PathBuf,
    headers: PathBuf,
    made: PathBuf,
}

impl Tree {
    /// Fetches the sources where they are not there yet.
    pub(crate) fn fetch(paths: &Paths) -> Result<Self> {
        Ok(Self {
            tests: sources::collectives_tests(paths)?,
            headers: paths.root().join("tests/coll/include"),
            made: paths.collectives_tests(),
        })
    }

    /// The folder with the programs and their list.
    pub(crate) fn programs(&self) -> PathBuf {
        self.tests.join("coll")
    }

    pub(crate) fn executable(&self, mpi: Mpi, program: &str) -> PathBuf {
        self.folder(mpi).join(program)
    }

    /// Builds the programs of `tests` for `mpi`, but those known not to build with it; what is newer than its source
    /// is kept. Returns what went wrong, by program.
    pub(crate) fn build(&self, paths: &Paths, mpi: Mpi, tests: &[Test]) -> Result<Vec<(String, String)>> {
        let compiler = mpi.c_compiler(paths);
        let folder = self.folder(mpi);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let objects: Vec<PathBuf> = HARNESS.iter().map(|source| object(&folder, source)).collect();
        let parts: Vec<(&str, &PathBuf)> = HARNESS.iter().copied().zip(&objects).collect();
        let done = pool::run(
            &parts,
            cores(),
            |_| 1,
            |(source, object)| {
                let source = self.tests.join(source);
                let mut command = self.compiler(&compiler);
                command.arg("-c").arg(&source).arg("-o").arg(object);
                make(object, &[&source], &mut command)
            },
        );
        done.into_iter().collect::<Result<()>>()?;

        let programs: BTreeSet<&str> = tests.iter().map(|test| test.program.as_str()).collect();
        let programs: Vec<&str> =
            programs.into_iter().filter(|program| known::not_built(program, mpi).is_none()).collect();
        let results = pool::run(
            &programs,
            cores(),
            |_| 1,
            |program| {
                let (source, defines) = self.source(program);
                let executable = self.executable(mpi, program);
                let mut command = self.compiler(&compiler);
                command.args(defines).arg(&source).args(&objects).arg("-lm").arg("-o").arg(&executable);
                let mut needed: Vec<&Path> = objects.iter().map(PathBuf::as_path).collect();
                needed.push(&source);
                make(&executable, &needed, &mut command)
            },
        );
        let faults = programs.into_iter().zip(results);
        Ok(faults
            .filter_map(|(program, result)| Some((program.to_owned(), format!("{:#}", result.err()?))))
            .collect())
    }

    fn folder(&self, mpi: Mpi) -> PathBuf {
        self.made.join(mpi.name())
    }

    /// A program's source, and what is defined for it: programs called `nbX` are X with nonblocking operations.
    fn source(&self, program: &str) -> (PathBuf, &'static [&'static str]) {
        let file = |name: &str| self.programs().join(format!("{name}.c"));
        match program.strip_prefix("nb") {
            Some(blocking) if !file(program).exists() => (file(blocking), &["-DUSE_MTEST_NBC"]),
            _ => (file(program), &[]),
        }
    }

    fn compiler(&self, compiler: &Path) -> Command {
        let mut command = Command::new(compiler);
        command.args(FLAGS).arg("-include").arg(self.headers.join("mpi_names.h"));
        for folder in [&self.headers, &self.tests.join("include"), &self.tests.join("dtpools/include")] {
            command.arg("-I").arg(folder);
        }
        command
    }
}

fn object(folder: &Path, source: &str) -> PathBuf {
    let name = Path::new(source).file_name().unwrap_or_default();
    folder.join(name).with_extension("o")
}

/// Runs `command`, which makes `made`, unless `made` is newer than all that it `needs`.
fn make(made: &Path, needs: &[&Path], command: &mut Command) -> Result<()> {
    let time_of = |file: &Path| file.metadata().and_then(|metadata| metadata.modified()).ok();
    let is_current = time_of(made)
        .is_some_and(|time| needs.iter().all(|file| time_of(file).is_some_and(|needed| needed < time)));
    if is_current { Ok(()) } else { process::run_logged(command, &made.with_extension("build.log")) }
}
