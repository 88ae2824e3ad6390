//! Building MPICH's tests outside its tree: their harness once for each MPI, then each program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::launcher::cores;
use crate::mpi::Mpi;
use crate::paths::Paths;
use crate::stamp::Stamp;
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
    /// What all programs are made of, but their own sources and the MPI's header.
    ingredients: String,
}

impl Tree {
    /// Fetches the sources where they are not there yet.
    pub(crate) fn fetch(paths: &Paths) -> Result<Self> {
        let tests = sources::mpich_tests(paths)?;
        let own = paths.root().join("tests/mpich_tests");
        let headers = own.join("include");
        let names = paths.root().join("tests/romio");
        let folders = [
            &own,
            &headers,
            &names,
            &tests.join("include"),
            &tests.join("dtpools/include"),
            &tests.join("util"),
        ];
        // Of an older or newer package, sources may be older than what was made of others.
        let mut ingredients = format!("{} {FLAGS:?}\n", sources::installed_version(&sources::MPICH)?);
        for folder in folders {
            ingredients.push_str(&texts_of_headers(folder)?);
        }
        Ok(Self { tests, headers, made: paths.mpich_tests(), ingredients })
    }

    /// The folder of that name, with programs and their list.
    pub(crate) fn programs(&self, folder: &str) -> PathBuf {
        self.tests.join(folder)
    }

    /// A program, once built: of no two folders have programs one name.
    pub(crate) fn executable(&self, mpi: Mpi, program: &str) -> PathBuf {
        self.folder(mpi).join(program)
    }

    /// Builds programs of a folder for `mpi`; what is newer than its source is kept, as long as all else is what it was
    /// made of. Returns what went wrong, by program.
    pub(crate) fn build(
        &self,
        paths: &Paths,
        mpi: Mpi,
        folder: &str,
        programs: &BTreeSet<&str>,
    ) -> Result<Vec<(String, String)>> {
        let sources = self.programs(folder);
        let compiler = mpi.c_compiler(paths);
        let folder = self.folder(mpi);
        clear_of_others(&folder, &[&self.ingredients[..], &mpi.definitions(paths)?].concat())?;
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

        let programs: Vec<&str> = programs.iter().copied().collect();
        let results = pool::run(
            &programs,
            cores(),
            |_| 1,
            |program| {
                let (source, defines) = source(&sources, program);
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

    fn compiler(&self, compiler: &Path) -> Command {
        let mut command = Command::new(compiler);
        command.args(FLAGS).arg("-include").arg(self.headers.join("mpi_names.h"));
        for folder in [&self.headers, &self.tests.join("include"), &self.tests.join("dtpools/include")] {
            command.arg("-I").arg(folder);
        }
        command
    }
}

/// A program's source, and what is defined for it: programs called `nbX` are X with nonblocking operations.
fn source(folder: &Path, program: &str) -> (PathBuf, &'static [&'static str]) {
    let file = |name: &str| folder.join(format!("{name}.c"));
    match program.strip_prefix("nb") {
        Some(blocking) if !file(program).exists() => (file(blocking), &["-DUSE_MTEST_NBC"]),
        // It would have the operating system remove its file, which knows that of stock MPI-IO only.
        _ if program == "simple_collective" => (file(program), &["-DREMOVE_BY_MPI"]),
        _ => (file(program), &[]),
    }
}

/// Makes the folder, with nothing in it that was made of other ingredients.
fn clear_of_others(folder: &Path, ingredients: &str) -> Result<()> {
    let stamp = Stamp::new(folder, ingredients);
    if stamp.is_current() {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    stamp.write()
}

/// The texts of all headers in a folder.
fn texts_of_headers(folder: &Path) -> Result<String> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut headers: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    headers.retain(|file| file.extension().is_some_and(|extension| extension == "h"));
    headers.sort();
    let texts = headers.iter().map(|header| {
        fs::read_to_string(header).with_context(|| format!("cannot read {}", header.display()))
    });
    texts.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_of_other_headers_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (headers, made) = (folder.path().join("headers"), folder.path().join("made"));
        fs::create_dir(&headers).unwrap();
        let program = made.join("program");
        let clear = || clear_of_others(&made, &texts_of_headers(&headers).unwrap()).unwrap();
        clear();
        fs::write(&program, "").unwrap();
        clear();
        assert!(program.exists());
        fs::write(headers.join("names.h"), "text").unwrap();
        clear();
        assert!(!program.exists() && made.is_dir());
    }
}
