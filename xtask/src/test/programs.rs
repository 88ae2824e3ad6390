//! The workspace's own tests: the programs that cargo makes of them, several at a time.
//!
//! Cargo runs them one after the other, and many of them wait most of their time for other processes.

use std::cmp::Reverse;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{failures, results};
use crate::comparison::Tally;
use crate::launcher::cores;
use crate::paths::Paths;
use crate::process::{self, Ending, Finished};
use crate::{pool, promises};

/// How long one of them may take: the slowest need a tenth of it.
const LIMIT: Duration = Duration::from_secs(600);

/// Those that take longest, the longest first: they begin before all others, so that the last to end are short.
const LONGEST: [&str; 14] = [
    "tests/musts/mpi_model/main.rs",
    "tests/musts/nodes_cut.rs",
    "svm/tests/mapping/main.rs",
    "transport/src/lib.rs",
    "cli/tests/commands/main.rs",
    "tests/musts/nodes_every_access_method.rs",
    "tests/musts/fabric_face.rs",
    "tests/musts/together.rs",
    "svm/tests/mapping_resources/main.rs",
    "tests/musts/collectives_barriers.rs",
    "svm/tests/model/main.rs",
    "tests/musts/broken_store.rs",
    "svm/src/lib.rs",
    "tests/musts/random_types.rs",
];

/// The package of those that follow them.
const NEXT: &str = "tests";

/// Those that measure, on cores which they need for themselves.
const MEASURING: [&str; 3] =
    ["tests/musts/fabric_idle.rs", "tests/musts/idle_ranks.rs", "transport/tests/job/main.rs"];

/// Those whose ranks poll, in MPI's own collectives too, and take several times as long beside others. Several of their
/// own tests at once keep the cores busy: for half of their time they wait.
const POLLING: [&str; 3] = [
    "tests/musts/collectives.rs",
    "tests/musts/collectives_component.rs",
    "tests/musts/collectives_nodes.rs",
];

/// Those of files of several nodes that run once more, with nodes that reach each other over libfabric.
const OVER_NETWORK: [&str; 9] = [
    "svm/tests/costs.rs",
    "svm/tests/durability/main.rs",
    "svm/tests/failures/main.rs",
    "svm/tests/kept_files.rs",
    "svm/tests/lost_nodes.rs",
    "svm/tests/node_locks/main.rs",
    "svm/tests/nodes/main.rs",
    "svm/tests/placement.rs",
    "svm/tests/stores.rs",
];

/// How many run at once, programs or tests: many wait most of their time.
fn at_once() -> usize {
    cores() + 2
}

/// Builds them all, and runs those that run beside others.
pub(super) fn run(paths: &Paths) -> Result<Tally> {
    let programs = build(paths)?;
    counted(paths, programs.into_iter().filter(|program| !program.is_alone()).collect(), at_once())
}

/// Runs those that run alone.
pub(super) fn run_alone(paths: &Paths) -> Result<Tally> {
    let programs: Vec<_> = build(paths)?.into_iter().filter(Program::is_alone).collect();
    let expected = [MEASURING, POLLING].concat();
    if programs.len() != expected.len() {
        bail!("of {}, not all are there: see xtask/src/test/programs.rs", expected.join(", "));
    }
    counted(paths, programs, 1)
}

/// Runs programs, so many at a time, and adds up.
fn counted(paths: &Paths, programs: Vec<Program>, at_once: usize) -> Result<Tally> {
    let outcomes = pool::run(&programs, at_once, |_| 1, |program| program.outcome(paths));
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    println!("{}", most_computing(&outcomes));
    for outcome in outcomes {
        tally += outcome.tally;
        failed.extend(outcome.failed);
    }
    if !failed.is_empty() {
        println!("\nThese have failed:\n{}", failed.join("\n"));
        if let Err(error) = failures::keep(paths, &failed) {
            eprintln!("they will not be repeated at the end: {error:#}");
        }
    }
    if tally.passed == 0 {
        bail!("no tests were run");
    }
    Ok(tally)
}

/// A program of tests.
#[derive(Debug)]
enum Program {
    /// One that cargo has built.
    Built {
        /// The source that it is made of, from the workspace's root.
        source: PathBuf,
        /// Its package's folder: there it is to run.
        folder: PathBuf,
        executable: PathBuf,
        /// Whether it is there for its tests alone: libraries and programs may have none.
        has_tests: bool,
        /// Whether its nodes reach each other over libfabric.
        is_over_network: bool,
    },
    /// The examples in the documentation, which `rustdoc` makes programs of.
    Documentation,
}

/// What came of a program.
struct Outcome {
    title: String,
    /// What the cores spent on it, all together.
    computing: Duration,
    tally: Tally,
    /// The tests that failed: their names, and what they said first.
    failed: Vec<String>,
}

/// Says on which of them the cores spent most: what makes the check long where they are never idle.
fn most_computing(outcomes: &[Outcome]) -> String {
    const TOLD: usize = 20;
    let mut all: Vec<_> = outcomes.iter().map(|outcome| (outcome.computing, &outcome.title)).collect();
    all.sort_by_key(|(computing, _)| Reverse(*computing));
    let tell = |(computing, title): &(Duration, &String)| format!("{title} {:.0} s", computing.as_secs_f64());
    let all: Vec<_> = all.iter().take(TOLD).map(tell).collect();
    format!("\nThe cores spent most on {}", all.join(", "))
}

/// Builds all test programs.
fn build(paths: &Paths) -> Result<Vec<Program>> {
    let mut cargo = promises::cargo(paths);
    cargo.args(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]);
    process::end_with_us(&mut cargo);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the tests cannot be built; see above");
    }
    let text = String::from_utf8(output.stdout).context("cargo's messages are no text")?;
    let programs = text.lines().map(|line| built(paths.root(), line));
    let mut programs: Vec<Program> =
        programs.filter_map(Result::transpose).collect::<Result<_>>().context("a message of cargo's")?;
    if programs.is_empty() {
        bail!("cargo has built no test program");
    }
    let over_network: Vec<_> = programs.iter().filter_map(Program::over_network).collect();
    programs.extend(over_network);
    programs.insert(0, Program::Documentation);
    programs.sort_by_key(|program| program.turn(paths.root()));
    Ok(programs)
}

/// The test program that a message of cargo's tells of, if it tells of one.
fn built(root: &Path, message: &str) -> Result<Option<Program>> {
    let message: Value = serde_json::from_str(message)?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let Some(executable) = message["executable"].as_str().filter(|_| is_test) else { return Ok(None) };
    let path = |value: &Value| value.as_str().map(PathBuf::from).context("a path is missing");
    let source = path(&message["target"]["src_path"])?;
    let source = source.strip_prefix(root).unwrap_or(&source).to_path_buf();
    let manifest = path(&message["manifest_path"])?;
    let folder = manifest.parent().context("a manifest without a folder")?.to_path_buf();
    let has_tests = message["target"]["kind"][0] == "test";
    let executable = executable.into();
    Ok(Some(Program::Built { source, folder, executable, has_tests, is_over_network: false }))
}

impl Program {
    fn is_alone(&self) -> bool {
        self.is_one_of(&MEASURING) || self.is_one_of(&POLLING)
    }

    fn is_one_of(&self, sources: &[&str]) -> bool {
        matches!(self, Self::Built { source, .. } if sources.iter().any(|one| source == Path::new(one)))
    }

    /// The same with nodes that reach each other over libfabric, if it is run so, too.
    fn over_network(&self) -> Option<Self> {
        match self {
            Self::Built { source, folder, executable, has_tests, .. } if self.is_one_of(&OVER_NETWORK) => {
                let (source, folder, executable) = (source.clone(), folder.clone(), executable.clone());
                Some(Self::Built { source, folder, executable, has_tests: *has_tests, is_over_network: true })
            }
            _ => None,
        }
    }

    /// How many tests it has to run at least: one that runs none shows nothing.
    fn least(&self) -> usize {
        match self {
            Self::Built { has_tests, .. } => usize::from(*has_tests),
            Self::Documentation => 1,
        }
    }

    /// Its place among those that begin first, or that of all others.
    fn turn(&self, root: &Path) -> usize {
        let Self::Built { source, folder, .. } = self else { return 0 };
        let others = LONGEST.len() + usize::from(*folder != root.join(NEXT));
        LONGEST.iter().position(|longest| source == Path::new(longest)).unwrap_or(others)
    }

    fn title(&self) -> String {
        match self {
            Self::Built { source, is_over_network: true, .. } => {
                format!("{} over libfabric", source.display())
            }
            Self::Built { source, .. } => source.display().to_string(),
            Self::Documentation => "documentation".to_owned(),
        }
    }

    fn command(&self, paths: &Paths) -> Command {
        match self {
            Self::Built { folder, executable, is_over_network, .. } => {
                let mut command = promises::with_what_tests_need(Command::new(executable), paths);
                command.current_dir(folder);
                if *is_over_network {
                    command.env("SVMIO_TEST_FABRIC", "ofi");
                }
                if self.is_one_of(&POLLING) {
                    command.env("RUST_TEST_THREADS", at_once().to_string());
                }
                command
            }
            Self::Documentation => {
                let mut cargo = promises::cargo(paths);
                cargo.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
                cargo
            }
        }
    }

    /// Runs it and shows what it printed, in one piece.
    fn outcome(&self, paths: &Paths) -> Outcome {
        let title = self.title();
        let name = title.replace(['/', '\\', ' '], "-");
        let log = paths.test_logs().join("programs").join(format!("{name}.log"));
        let finished = process::run_limited(&mut self.command(paths), LIMIT, &log);
        let (outcome, text) = match finished {
            Ok(finished) => (judged(&title, self.least(), &finished), finished.output),
            Err(error) => (failure(&title), format!("{error:#}\n")),
        };
        // There is nobody to tell of a terminal that is gone.
        let _ = write!(std::io::stdout().lock(), "     Running {title}\n{text}");
        outcome
    }
}

/// What the output and end of a finished program amount to, which has to run so many tests at least.
fn judged(title: &str, least: usize, finished: &Finished) -> Outcome {
    let (title, computing) = (title.to_owned(), finished.computing);
    let told = results::of_programs(&finished.output);
    let tally = told.unwrap_or_default();
    let tell = |test| format!("{title}: {test}{}", failures::said(&finished.output, test));
    let mut failed: Vec<String> = results::failed_tests(&finished.output).map(tell).collect();
    let why = match finished.ending {
        Ending::Exited(0) if told.is_none() => "it has not said how its tests went".to_owned(),
        Ending::Exited(0) if tally.passed + tally.failed < least => "no tests were run".to_owned(),
        Ending::Exited(0) if tally.failed == 0 => return Outcome { title, computing, tally, failed },
        Ending::Exited(101) if tally.failed > 0 => return Outcome { title, computing, tally, failed },
        // It did not come to its end: what it did before is not all that it had to do.
        ending => format!("{ending:?}"),
    };
    failed.push(finished.complaint(&format!("{title}: {why}")));
    Outcome { title, computing, tally: Tally { failed: tally.failed.max(1), ..tally }, failed }
}

fn failure(title: &str) -> Outcome {
    let (tally, failed) = (Tally { passed: 0, failed: 1 }, vec![title.to_owned()]);
    Outcome { title: title.to_owned(), computing: Duration::ZERO, tally, failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(ending: Ending, output: &str) -> Finished {
        Finished {
            ending,
            output: output.to_owned(),
            log: "log".into(),
            elapsed: Duration::ZERO,
            computing: Duration::ZERO,
        }
    }

    #[test]
    fn messages_of_test_programs_are_told_from_others() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/w/svm/Cargo.toml",
            "target":{"kind":["test"],"src_path":"/w/svm/tests/files.rs"},"profile":{"test":true},"executable":"/t/files-1"}"#;
        let program = built(Path::new("/w"), message).unwrap().expect("it is one");
        assert_eq!(program.least(), 1);
        let Program::Built { source, folder, executable, .. } = program else { panic!("cargo has built it") };
        assert_eq!((source, folder), ("svm/tests/files.rs".into(), "/w/svm".into()));
        assert_eq!(executable, Path::new("/t/files-1"));
        let of_library = message.replace(r#"["test"]"#, r#"["lib"]"#);
        assert_eq!(built(Path::new("/w"), &of_library).unwrap().map(|program| program.least()), Some(0));
        let library = message.replace(r#""/t/files-1""#, "null");
        assert!(built(Path::new("/w"), &library).unwrap().is_none());
        let tool = message.replace(r#""test":true"#, r#""test":false"#);
        assert!(built(Path::new("/w"), &tool).unwrap().is_none());
        assert!(built(Path::new("/w"), "Compiling").is_err());
    }

    #[test]
    fn programs_with_a_turn_of_their_own_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a package in a workspace");
        for source in LONGEST.iter().chain(&MEASURING).chain(&POLLING).chain(&OVER_NETWORK) {
            assert!(root.join(source).is_file(), "there is no {source}");
        }
    }

    #[test]
    fn failed_tests_are_named() {
        let output = "running 2 tests\ntest a::b ... FAILED\ntest c ... ok\n\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s\n";
        let outcome = judged("svm/tests/files.rs", 1, &finished(Ending::Exited(101), output));
        assert_eq!(outcome.tally, Tally { passed: 1, failed: 1 });
        assert_eq!(outcome.failed, ["svm/tests/files.rs: a::b"]);
    }

    #[test]
    fn a_program_that_does_not_come_to_its_end_has_failed() {
        for ending in [Ending::Signalled(6), Ending::TimedOut, Ending::Exited(101)] {
            let outcome = judged("x", 1, &finished(ending, "running 2 tests\ntest a ... ok\n"));
            assert_eq!(outcome.tally, Tally { passed: 0, failed: 1 });
            assert!(outcome.failed[0].starts_with("x: "), "{:?}", outcome.failed);
        }
        let all_well = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; finished in 0.01s\n";
        assert_eq!(judged("x", 1, &finished(Ending::Exited(0), all_well)).failed, Vec::<String>::new());
        assert_eq!(judged("x", 1, &finished(Ending::Signalled(11), all_well)).tally.failed, 1);
    }
    #[test]
    fn a_program_that_runs_nothing_has_failed() {
        let judged = |least, output: &str| judged("x", least, &finished(Ending::Exited(0), output));
        let nothing = "test result: ok. 0 passed; 0 failed; 2 ignored; 0 measured; finished in 0.01s\n";
        assert_eq!(judged(0, nothing).tally, Tally::default());
        for (least, output) in [(1, nothing), (0, "usage: ...\n"), (0, "")] {
            let outcome = judged(least, output);
            assert_eq!(outcome.tally, Tally { passed: 0, failed: 1 });
            assert!(outcome.failed[0].starts_with("x: "), "{:?}", outcome.failed);
        }
    }
}
