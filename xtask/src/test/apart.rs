//! A stage as a process of its own, so that stages can run side by side: what it prints is kept together.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Outcome;
use crate::comparison::Tally;
use crate::paths::Paths;
use crate::process;

/// Runs the stage `name` in a process and shows what it printed when it is over.
pub(super) fn run(paths: &Paths, name: &str) -> Result<Outcome> {
    let log = paths.test_logs().join(format!("{name}.log"));
    let own = std::env::current_exe().context("this program has no path")?;
    let ended = printed_to(Command::new(own).args(["stage", name]), &log);
    show(name, &log);
    ended?;
    let last = fs::read_to_string(outcome_file(&log)).unwrap_or_default();
    parse(&last).with_context(|| format!("{name} has ended without a result"))
}

/// For the process of a stage: tells the one that started it what came of it.
pub(super) fn tell(paths: &Paths, name: &str, outcome: Outcome) -> Result<()> {
    let file = outcome_file(&paths.test_logs().join(format!("{name}.log")));
    fs::write(&file, render(outcome)).with_context(|| format!("cannot write {}", file.display()))
}

fn outcome_file(log: &Path) -> PathBuf {
    log.with_extension("outcome")
}

/// Runs `command` with all that it prints going to `log`.
fn printed_to(command: &mut Command, log: &Path) -> Result<()> {
    // What an earlier process told must not be taken for what this one tells.
    match fs::remove_file(outcome_file(log)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).context("cannot remove the result of an earlier run");
        }
        _ => {}
    }
    let (out, err) = process::log_file(log)?;
    process::end_with_us(command);
    let status = command.stdin(Stdio::null()).stdout(out).stderr(err).status();
    let status = status.context("cannot start a stage")?;
    // Whether checks failed is in what it tells.
    if status.code().is_none() {
        bail!("it was ended: {status}");
    }
    Ok(())
}

/// Shows a log in one piece.
fn show(name: &str, log: &Path) {
    let text = fs::read(log).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    // There is nobody to tell of a terminal that is gone.
    let _ = writeln!(out, "\n== {name}");
    let _ = out.write_all(&text);
    let _ = out.flush();
}

fn render(outcome: Outcome) -> String {
    let Outcome { tally, elapsed, computing } = outcome;
    format!("{} {} {} {}", tally.passed, tally.failed, elapsed.as_millis(), computing.as_millis())
}

fn parse(text: &str) -> Option<Outcome> {
    let numbers: Vec<u64> = text.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [passed, failed, elapsed, computing] = numbers[..] else { return None };
    let tally = Tally { passed: usize::try_from(passed).ok()?, failed: usize::try_from(failed).ok()? };
    let (elapsed, computing) = (Duration::from_millis(elapsed), Duration::from_millis(computing));
    Some(Outcome { tally, elapsed, computing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_that_is_told_is_understood() {
        let outcome = Outcome {
            tally: Tally { passed: 12, failed: 3 },
            elapsed: Duration::from_millis(4567),
            computing: Duration::from_millis(8900),
        };
        assert_eq!(parse(&render(outcome)), Some(outcome));
        assert_eq!(parse(""), None);
        assert_eq!(parse("1 2 3"), None);
    }

    #[test]
    fn a_stage_that_is_killed_has_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("stage.log");
        fs::write(outcome_file(&log), "1 0 0 0").unwrap();
        let mut command = Command::new("sh");
        let error = printed_to(command.args(["-c", "echo words; kill -KILL $$"]), &log).unwrap_err();
        assert!(format!("{error:#}").contains("it was ended"), "{error:#}");
        assert_eq!(fs::read_to_string(&log).unwrap(), "words\n");
        assert!(!outcome_file(&log).exists());
    }
}
