//! All benchmarks, one after the other. What cannot run here, and what fails, does not stop the rest; both are told at
//! the end. They take hours, and can be had in several sittings.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, anyhow, bail};

use crate::paths::Paths;
use crate::{build, process, promises, setup};

/// What a benchmark exits with where it has left something out: it has said what.
pub(crate) const LEFT_OUT: i32 = 76;

/// The benchmarks with their options.
const ALL: [(&str, &[&str]); 13] = [
    ("files", &["--on", "shm,small-pages,huge,disk"]),
    ("messages", &[]),
    ("overlap", &[]),
    ("nodes", &[]),
    ("mapping", &[]),
    ("memory", &[]),
    ("collectives", &[]),
    ("collectives", &["--adapters"]),
    ("collectives", &["--adapters", "--busy"]),
    ("collectives", &["--adapters", "--sessions"]),
    ("collectives", &["--adapters", "--busy", "--sessions"]),
    ("collectives", &["--hosts"]),
    ("collectives", &["--data"]),
];

/// The benchmark that goes on by itself where it was interrupted: it takes hours alone.
const RESUMED_WITHIN: &str = "files";

/// Runs the benchmarks, beside what users would take instead, and draws what they find and the papers' diagrams. With
/// `resume`, those that an earlier run of the same build has seen to their end are not run again.
///
/// # Errors
/// Where not all of it was run to its end: what was left out, and what failed.
pub(crate) fn run(paths: &Paths, resume: bool) -> Result<()> {
    setup::run_for_benchmarks()?;
    promises::ready(paths)?;
    let programs = ALL.iter().map(|(name, _)| build::benchmark(paths, name)).collect::<Result<Vec<_>>>()?;
    let measured = [&programs[..], &sources_of_programs(paths)?].concat();
    let mut sittings = Sittings::of(&paths.figures(), build::identity(paths, &measured)?, resume)?;
    let mut missing = Vec::new();
    for ((name, options), program) in ALL.iter().zip(&programs) {
        let words = [&[*name][..], options].concat().join(" ");
        if sittings.have_ended(&words) {
            println!("{words}: measured by an earlier run of the same build");
            continue;
        }
        let mut command = of_program(paths, program);
        command.args(*options).env("SVMIO_FIGURES", paths.figures());
        if resume && *name == RESUMED_WITHIN {
            command.arg("--resume");
        }
        let outcome = match command.status() {
            Err(error) => Some(format!("cannot be run: {error}")),
            Ok(status) => complaint(status),
        };
        let outcome = outcome.map_or_else(|| sittings.note_end(&words), |complaint| Err(anyhow!(complaint)));
        missing.extend(outcome.err().map(|error| format!("{words}: {error:#}")));
    }
    let mut papers = Command::new(build::svmio(paths));
    let drawn = process::run(papers.args(["bench", "figures", "--plot"]).arg(paths.figures()));
    missing.extend(drawn.err().map(|error| format!("the papers' figures: {error:#}")));
    if !missing.is_empty() {
        bail!(
            "not all was measured; the rest lies in {}:\n{}",
            paths.figures().display(),
            missing.join("\n")
        );
    }
    Ok(())
}

/// What the programs are made of that MPIs run: they are compiled when they are measured.
fn sources_of_programs(paths: &Paths) -> Result<Vec<PathBuf>> {
    let mut folders =
        vec![paths.root().join("benches/programs"), paths.root().join("tests/programs/support")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// Which benchmarks have been run to their end, all of one build.
#[derive(Debug)]
struct Sittings {
    file: PathBuf,
    /// What tells the build, then a line for each benchmark.
    told: String,
}

impl Sittings {
    /// Those whose figures are in a folder; none where they are not to count.
    ///
    /// # Errors
    /// Where they count, and are of another build, or it cannot be told of which.
    fn of(folder: &Path, build: String, resume: bool) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let file = folder.join("measured");
        let known = match fs::read_to_string(&file) {
            _ if !resume => None,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            known => Some(known.with_context(|| {
                format!(
                    "cannot read {}, which tells what was measured: measure without --resume",
                    file.display()
                )
            })?),
        };
        match known.as_ref().map(|known| known.lines().next()) {
            Some(None) => bail!(
                "{} is damaged, it does not tell of which build the figures there are: measure without --resume",
                file.display()
            ),
            Some(Some(other)) if other != build => bail!(
                "the figures in {} are of another build of svmio: measure without --resume",
                folder.display()
            ),
            _ => {}
        }
        let sittings = Self { file, told: known.unwrap_or_else(|| format!("{build}\n")) };
        sittings.write()?;
        Ok(sittings)
    }

    fn have_ended(&self, words: &str) -> bool {
        self.told.lines().skip(1).any(|line| line == words)
    }

    fn note_end(&mut self, words: &str) -> Result<()> {
        self.told += &format!("{words}\n");
        self.write()
    }

    /// Whatever happens meanwhile, what was told before is there, or what is told now.
    fn write(&self) -> Result<()> {
        let new = self.file.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(self.told.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.file)
        };
        write().with_context(|| format!("cannot write {}", self.file.display()))
    }
}

/// What is wrong with a benchmark that has ended so.
fn complaint(status: ExitStatus) -> Option<String> {
    match status.code() {
        Some(0) => None,
        Some(LEFT_OUT) => {
            Some("something was left out, see NOT RUN above; most of that needs root".to_owned())
        }
        _ => Some(format!("failed, {status}")),
    }
}

/// A benchmark, built.
pub(crate) fn benchmark(paths: &Paths, name: &str) -> Result<Command> {
    Ok(of_program(paths, &build::benchmark(paths, name)?))
}

/// A benchmark that is built, which does not measure beside the next one when this process is killed.
fn of_program(paths: &Paths, program: &Path) -> Command {
    let mut command = promises::with_what_tests_need(Command::new(program), paths);
    process::go_with_us(&mut command);
    command
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_later_sitting_of_the_same_build_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let of = |build: &str, resume| Sittings::of(folder.path(), build.to_owned(), resume);
        let sittings = |build: &str, resume| of(build, resume).unwrap();
        let mut first = sittings("one", true);
        first.note_end("files --on shm").unwrap();
        first.note_end("messages").unwrap();
        assert!(sittings("one", true).have_ended("messages"));
        assert!(!sittings("one", true).have_ended("files"));
        assert!(!sittings("one", true).have_ended("one"));
        assert!(of("two", true).unwrap_err().to_string().contains("another build"));
        assert!(!sittings("two", false).have_ended("messages"));
        assert!(!sittings("two", true).have_ended("messages"));
    }

    #[test]
    fn notes_that_are_damaged_are_not_taken_for_those_of_another_build() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("measured");
        let of = |resume| Sittings::of(folder.path(), "one".to_owned(), resume);
        for damaged in [&b""[..], b"\xff\n"] {
            fs::write(&file, damaged).unwrap();
            let error = format!("{:#}", of(true).unwrap_err());
            assert!(error.contains("/measured") && error.contains("measure without --resume"), "{error}");
            assert!(!error.contains("another build"), "{error}");
        }
        of(false).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\n");
    }

    #[test]
    fn notes_that_cannot_be_written_leave_those_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let of = || Sittings::of(folder.path(), "one".to_owned(), true);
        let mut sittings = of().unwrap();
        sittings.note_end("messages").unwrap();
        // As where a disk is full: what is written cannot take their place.
        let full = folder.path().join("measured.new");
        fs::create_dir(&full).unwrap();
        sittings.note_end("overlap").unwrap_err();
        fs::remove_dir(&full).unwrap();
        assert!(of().unwrap().have_ended("messages"));
    }

    #[test]
    fn a_benchmark_goes_with_us() {
        let mut command = of_program(&Paths::of_workspace(), Path::new("sleep"));
        command.arg("60");
        // The kernel takes the end of the thread that starts it for ours.
        let start = move || command.spawn().unwrap();
        let mut started = std::thread::spawn(start).join().unwrap();
        assert_eq!(started.wait().unwrap().signal(), Some(15));
    }

    #[test]
    fn what_is_left_out_or_fails_is_told() {
        let of = |code: i32| complaint(ExitStatus::from_raw(code << 8));
        assert_eq!(of(0), None);
        assert!(of(LEFT_OUT).unwrap().starts_with("something was left out"));
        assert_eq!(of(1).unwrap(), "failed, exit status: 1");
        assert!(complaint(ExitStatus::from_raw(9)).unwrap().starts_with("failed, signal: 9"));
    }
}
