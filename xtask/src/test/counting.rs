//! Commands that run test programs, or suites: shown, and their results added up.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::results;
use crate::comparison::Tally;
use crate::process;

/// Runs `command`, shows its output and adds up the results that Rust's test programs, or suites, print.
///
/// # Errors
/// Where fewer than `programs` of them ran any tests: what runs nothing shows nothing.
pub(super) fn counted(command: &mut Command, programs: usize) -> Result<Tally> {
    process::end_with_us(command);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut tally = Tally::default();
    let mut running = 0;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read cargo's output")?;
        // What programs of tests print may be no text.
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if let Some(result) = results::of_line(&line) {
            tally += result;
            running += usize::from(result != Tally::default());
        }
    }
    let status = child.wait().context("cannot wait for cargo")?;
    if !status.success() && tally.failed == 0 {
        bail!("it failed before it could count; see above");
    }
    if running < programs {
        bail!("{running} of at least {programs} programs of tests ran any");
    }
    Ok(tally)
}

/// The same, to be asked for no more than that all passed.
///
/// # Errors
/// Where a test failed, or fewer than `programs` programs ran any.
pub(crate) fn demand(command: &mut Command, programs: usize) -> Result<()> {
    let tally = counted(command, programs)?;
    if tally.failed > 0 {
        bail!("{} tests have failed; see above", tally.failed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printing(results: &[(usize, usize)], status: u8) -> Command {
        let lines = results.iter().map(|(passed, failed)| {
            format!("echo 'test result: ok. {passed} passed; {failed} failed; 0 ignored'; ")
        });
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{}exit {status}", lines.collect::<String>())]);
        command
    }

    #[test]
    fn each_program_has_to_run_tests() {
        let two = Tally { passed: 5, failed: 0 };
        assert_eq!(counted(&mut printing(&[(2, 0), (0, 0), (3, 0)], 0), 2).unwrap(), two);
        assert!(counted(&mut printing(&[(2, 0), (0, 0)], 0), 2).is_err());
        assert!(counted(&mut printing(&[], 0), 1).is_err());
    }

    #[test]
    fn what_fails_is_no_success() {
        assert!(demand(&mut printing(&[(2, 0)], 0), 1).is_ok());
        assert!(demand(&mut printing(&[(2, 1)], 101), 1).is_err());
        assert!(demand(&mut printing(&[(2, 0)], 101), 1).is_err(), "it has not come to its end");
    }
}
