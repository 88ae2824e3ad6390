//! All benchmarks, one after the other. What cannot run here, and what fails, does not stop the rest; both are told at
//! the end.

use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

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

/// Runs the benchmarks, beside what users would take instead, and draws what they find and the papers' diagrams.
///
/// # Errors
/// Where not all of it was run to its end: what was left out, and what failed.
pub(crate) fn run(paths: &Paths) -> Result<()> {
    setup::run_for_benchmarks()?;
    promises::ready(paths)?;
    let mut missing = Vec::new();
    for (name, options) in ALL {
        let words = [&[name][..], options].concat().join(" ");
        let mut command = benchmark(paths, name)?;
        command.args(options).env("SVMIO_FIGURES", paths.figures());
        let status = command.status().with_context(|| format!("cannot run {name}"))?;
        missing.extend(complaint(status).map(|complaint| format!("{words}: {complaint}")));
    }
    let mut papers = Command::new(build::svmio(paths));
    process::run(papers.args(["bench", "figures", "--plot"]).arg(paths.figures()))?;
    if !missing.is_empty() {
        bail!(
            "not all was measured; the rest lies in {}:\n{}",
            paths.figures().display(),
            missing.join("\n")
        );
    }
    Ok(())
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
    Ok(promises::with_what_tests_need(Command::new(build::benchmark(paths, name)?), paths))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn what_is_left_out_or_fails_is_told() {
        let of = |code: i32| complaint(ExitStatus::from_raw(code << 8));
        assert_eq!(of(0), None);
        assert!(of(LEFT_OUT).unwrap().starts_with("something was left out"));
        assert_eq!(of(1).unwrap(), "failed, exit status: 1");
        assert!(complaint(ExitStatus::from_raw(9)).unwrap().starts_with("failed, signal: 9"));
    }
}
