//! The whole check: stages one after the other, each with its numbers of good and bad results.
//!
//! A further suite is a further row of [`STAGES`].

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::comparison::Tally;
use crate::paths::Paths;
use crate::suite::Selection;
use crate::{build, coll, hosts, mpi4py, process, promises, romio, setup, sources, table, wheels};

/// One stage of the check.
struct Stage {
    name: &'static str,
    /// Whether the stages after it make no sense when it fails.
    is_needed: bool,
    /// Whether it runs only when it is named, or in a soak.
    takes_long: bool,
    run: fn(&Paths) -> Result<Tally>,
}

/// In the order in which they run.
const STAGES: &[Stage] = &[
    Stage { name: "setup", is_needed: true, takes_long: false, run: |paths| done(set_up(paths)) },
    Stage { name: "wheels", is_needed: true, takes_long: false, run: |paths| done(wheels::run(paths)) },
    Stage { name: "build", is_needed: true, takes_long: false, run: |paths| done(build::run(paths)) },
    Stage { name: "fmt", is_needed: false, takes_long: false, run: |paths| done(fmt(paths)) },
    Stage { name: "clippy", is_needed: false, takes_long: false, run: |paths| done(clippy(paths)) },
    Stage { name: "doc", is_needed: false, takes_long: false, run: |paths| done(doc(paths)) },
    Stage { name: "cargo-test", is_needed: false, takes_long: false, run: cargo_test },
    Stage { name: "loom", is_needed: false, takes_long: false, run: loom },
    Stage { name: "aims", is_needed: false, takes_long: false, run: promises::aims },
    Stage {
        name: "benches",
        is_needed: false,
        takes_long: false,
        run: |paths| done(promises::benches(paths)),
    },
    Stage {
        name: "romio",
        is_needed: false,
        takes_long: false,
        run: |paths| romio::runs::run(paths, &Selection::default(), &[]),
    },
    Stage {
        name: "mpi4py",
        is_needed: false,
        takes_long: false,
        run: |paths| mpi4py::run(paths, &Selection::default()),
    },
    Stage {
        name: "coll",
        is_needed: false,
        takes_long: false,
        run: |paths| coll::runs::run(paths, &coll::runs::Selection::short()),
    },
    Stage {
        name: "romio-nodes",
        is_needed: false,
        takes_long: false,
        run: |paths| romio::runs::run(paths, &Selection::over_nodes(4), &[]),
    },
    Stage {
        name: "mpi4py-nodes",
        is_needed: false,
        takes_long: false,
        run: |paths| mpi4py::run(paths, &Selection::over_nodes(4)),
    },
    Stage {
        name: "romio-8-ranks",
        is_needed: false,
        takes_long: true,
        run: |paths| romio::runs::run(paths, &Selection::over_nodes(8), &[]),
    },
    Stage {
        name: "mpi4py-8-ranks",
        is_needed: false,
        takes_long: true,
        run: |paths| mpi4py::run(paths, &Selection::over_nodes(8)),
    },
    Stage {
        name: "coll-full",
        is_needed: false,
        takes_long: true,
        run: |paths| coll::runs::run(paths, &coll::runs::Selection::default()),
    },
    Stage { name: "romio-hosts", is_needed: false, takes_long: true, run: |paths| on_hosts(paths, "romio") },
    Stage {
        name: "mpi4py-hosts",
        is_needed: false,
        takes_long: true,
        run: |paths| on_hosts(paths, "mpi4py"),
    },
];

/// The names of all stages, in order.
pub(crate) fn stage_names() -> Vec<&'static str> {
    STAGES.iter().map(|stage| stage.name).collect()
}

/// The names of the stages that take long.
pub(crate) fn long_stage_names() -> Vec<String> {
    STAGES.iter().filter(|stage| stage.takes_long).map(|stage| stage.name.to_owned()).collect()
}

/// Runs the stages named in `only`; when it is empty, all that do not take long. True when nothing failed.
pub(crate) fn run(paths: &Paths, only: &[String]) -> Result<bool> {
    if let Some(unknown) = only.iter().find(|name| !stage_names().contains(&name.as_str())) {
        bail!("there is no stage {unknown}; there are {}", stage_names().join(", "));
    }
    let mut total = Tally::default();
    let mut rows = Vec::new();
    for stage in STAGES {
        let is_wanted =
            if only.is_empty() { !stage.takes_long } else { only.iter().any(|name| name == stage.name) };
        if !is_wanted {
            continue;
        }
        println!("\n== {}", stage.name);
        let started = Instant::now();
        let tally = (stage.run)(paths).unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", stage.name);
            Tally { passed: 0, failed: 1 }
        });
        total += tally;
        rows.push(row(stage.name, tally, started.elapsed()));
        if tally.failed > 0 && stage.is_needed {
            eprintln!("{}: without it, the rest makes no sense", stage.name);
            break;
        }
    }
    let head = ["stage", "passed", "failed", "seconds"].map(String::from);
    println!("\n{}", table::render(&head, &rows));
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0 && total.passed > 0)
}

fn row(name: &str, tally: Tally, time: Duration) -> Vec<String> {
    let seconds = format!("{:.0}", time.as_secs_f64());
    vec![name.to_owned(), tally.passed.to_string(), tally.failed.to_string(), seconds]
}

/// A stage that either holds as a whole or does not.
fn done(result: Result<()>) -> Result<Tally> {
    result.map(|()| Tally { passed: 1, failed: 0 })
}

fn set_up(paths: &Paths) -> Result<()> {
    setup::run()?;
    sources::romio_tests(paths).map(|_| ())
}

fn fmt(paths: &Paths) -> Result<()> {
    process::run(build::cargo(paths).args(["fmt", "--all", "--check"]))
}

fn clippy(paths: &Paths) -> Result<()> {
    let words = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    process::run(build::cargo(paths).args(words))
}

fn doc(paths: &Paths) -> Result<()> {
    let mut cargo = build::cargo(paths);
    cargo.args(["doc", "--workspace", "--no-deps", "--document-private-items"]);
    process::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))
}

/// All unit and integration tests; what they print is shown as it comes.
fn cargo_test(paths: &Paths) -> Result<Tally> {
    let mut cargo = promises::cargo(paths);
    cargo.args(["test", "--workspace", "--no-fail-fast"]);
    let (tally, succeeded) = counted(&mut cargo)?;
    checked(tally, succeeded)
}

/// The lock-free parts, in every order in which threads can meet in them.
fn loom(paths: &Paths) -> Result<Tally> {
    let (tally, succeeded) = counted(&mut promises::loom(paths))?;
    checked(tally, succeeded)
}

/// A suite over several hosts, with the MPIs that run there.
fn on_hosts(paths: &Paths, suite: &str) -> Result<Tally> {
    let words = [suite, "--on", "hosts", "--mpi", "mpich,openmpi"];
    let (tally, succeeded) = counted(&mut hosts::beside_hosts(paths, &words)?)?;
    checked(tally, succeeded)
}

/// The tally of a run of tests that really took place.
fn checked(tally: Tally, succeeded: bool) -> Result<Tally> {
    if !succeeded && tally.failed == 0 {
        bail!("it failed before it could count; see above");
    }
    if tally.passed == 0 {
        bail!("no tests were run");
    }
    Ok(tally)
}

/// Runs `command`, shows its output and adds up the results that Rust's test programs, or suites, print.
fn counted(command: &mut Command) -> Result<(Tally, bool)> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut tally = Tally::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read cargo's output")?;
        println!("{line}");
        if let Some(result) = test_result(&line).or_else(|| suite_result(&line)) {
            tally += result;
        }
    }
    let status = child.wait().context("cannot wait for cargo")?;
    Ok((tally, status.success()))
}

/// The numbers in `test result: ok. 3 passed; 0 failed; ...`.
fn test_result(line: &str) -> Option<Tally> {
    let rest = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |word: &str| rest.split("; ").find_map(|part| part.strip_suffix(word)?.trim().parse().ok());
    Some(Tally { passed: count("passed")?, failed: count("failed")? })
}

/// The numbers in `SUITE: 3 runs good, 0 bad, ...`.
fn suite_result(line: &str) -> Option<Tally> {
    let (before, after) = line.split_once(" runs good, ")?;
    let passed = before.rsplit_once(' ')?.1.parse().ok()?;
    Some(Tally { passed, failed: after.split_once(" bad")?.0.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_test_programs_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; \
            0 filtered out; finished in 0.01s";
        assert_eq!(test_result(line), Some(Tally { passed: 12, failed: 3 }));
        assert_eq!(test_result("test a::b ... ok"), None);
        let line = "ROMIO's tests: 14 runs good, 2 bad, 11 s of runs";
        assert_eq!(suite_result(line), Some(Tally { passed: 14, failed: 2 }));
        assert_eq!(suite_result("the runs good, and bad"), None);
    }
}
