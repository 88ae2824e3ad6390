//! What users have set for svmio in their environment. What is tested and measured is svmio as it comes.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

/// Begins the names of svmio's variables.
const OWN: &str = "SVMIO_";

/// Of these, what begins the names of those by which tests, benchmarks and this program itself are told something.
const OF_TESTS: [&str; 8] =
    ["FULL", "FIGURES", "INSTALLATION", "MPICH5", "OPENMPI5", "MODEL_", "TEST", "XTASK_"];

/// Goes on without the variables that users have set for svmio, if there are any: this program begins anew then.
///
/// # Errors
/// Where it cannot.
pub(crate) fn leave_behind() -> Result<()> {
    let theirs: Vec<OsString> =
        std::env::vars_os().map(|(name, _)| name).filter(|name| is_theirs(name)).collect();
    if theirs.is_empty() {
        return Ok(());
    }
    let names = theirs.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(", ");
    eprintln!("xtask: going on without {names}: svmio is tested and measured as it comes");
    let program = std::env::current_exe().context("this program's file is not known")?;
    let mut anew = Command::new(program);
    anew.args(std::env::args_os().skip(1));
    for name in &theirs {
        anew.env_remove(name);
    }
    Err(anew.exec()).context("cannot begin anew")
}

fn is_theirs(name: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(OWN.as_bytes());
    rest.is_some_and(|rest| !OF_TESTS.iter().any(|known| rest.starts_with(known.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_are_told_stays() {
        for name in ["SVMIO_LARGE_PAGES", "SVMIO_COLLECTIVES_OFF", "SVMIO_STORE", "SVMIO_"] {
            assert!(is_theirs(name.as_ref()), "{name}");
        }
        for name in ["SVMIO_FULL", "SVMIO_TESTS_ADDRESSES", "SVMIO_TEST_FABRIC", "SVMIO_XTASK_JOB", "HOME"] {
            assert!(!is_theirs(name.as_ref()), "{name}");
        }
    }
}
