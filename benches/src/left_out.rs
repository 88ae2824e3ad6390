//! What cannot be measured here, mostly since only root can: it is told, and the rest goes on.

use std::process::ExitCode;

use rustix::process::geteuid;

use crate::aims::NOTHING_JUDGED;

/// The exit code of a benchmark of which something was left out.
pub const CODE: u8 = 76;

/// Whether this process may make hosts and mounts.
pub fn is_root() -> bool {
    geteuid().is_root()
}

const NEEDS_ROOT: &str = "only root can make what it needs";

/// Says that all of a benchmark is left out, since only root can run it; how it ends.
pub fn all(what: &str) -> ExitCode {
    println!("NOT RUN: {what}: {NEEDS_ROOT}.");
    ExitCode::from(CODE)
}

/// What was left out so far.
#[derive(Debug, Default)]
pub struct LeftOut(Vec<String>);

impl LeftOut {
    /// Says at once that it is, and why.
    pub fn add(&mut self, what: &str, why: &str) {
        let line = format!("NOT RUN: {what}: {why}");
        println!("\n{line}.");
        self.0.push(line);
    }

    /// Says so of what only root can measure. Whether it can be.
    pub fn unless_root(&mut self, what: &str) -> bool {
        let is_root = is_root();
        if !is_root {
            self.add(what, NEEDS_ROOT);
        }
        is_root
    }

    /// Says once more what was left out, where that is not lost among tables. The exit code is [`CODE`] then, unless
    /// `code`, that of what was run, says that something is wrong with it: that nothing was judged is no wonder.
    pub fn end(self, code: ExitCode) -> ExitCode {
        if self.0.is_empty() {
            return code;
        }
        println!("\n{}.", self.0.join(".\n"));
        let is_fine = [ExitCode::SUCCESS, ExitCode::from(NOTHING_JUDGED)].contains(&code);
        if is_fine { ExitCode::from(CODE) } else { code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_told_unless_something_is_wrong() {
        let end = |code: ExitCode| {
            let mut left_out = LeftOut::default();
            left_out.add("it", "there is none");
            left_out.end(code)
        };
        for fine in [ExitCode::SUCCESS, ExitCode::from(NOTHING_JUDGED)] {
            assert_eq!(end(fine), ExitCode::from(CODE));
            assert_eq!(LeftOut::default().end(fine), fine);
        }
        assert_eq!(end(ExitCode::FAILURE), ExitCode::FAILURE);
    }
}
