//! What a benchmark is to show, and when it has failed to.

use std::process::ExitCode;

use clap::{Arg, ArgAction, Command};

use crate::phase;

/// Whether a benchmark is run whole, or only to see that nothing is far off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All sizes; the numbers are printed, whatever they are.
    Full,
    /// A few sizes; what is far from its aim is a failure.
    Check,
}

impl Extent {
    /// What `--check` asks for, if it is given.
    pub fn of(check: bool) -> Extent {
        if check { Extent::Check } else { Extent::Full }
    }

    /// What the command line of a benchmark says that has this option alone. Where it says something else, or asks for
    /// help, the process ends.
    pub fn from_command_line(name: &'static str, about: &'static str) -> Extent {
        let check = Arg::new("check").long("check").action(ArgAction::SetTrue);
        let check = check.help("Fewer and shorter runs, and a failure where an aim is missed by far");
        Extent::of(Command::new(name).about(about).arg(check).get_matches().get_flag("check"))
    }
}

/// What is measured against what is aimed at.
#[derive(Debug, Clone, PartialEq)]
pub struct Aim {
    /// What it is, with its unit.
    pub what: String,
    /// What was measured; NaN where it could not be, which keeps no aim.
    pub measured: f64,
    /// What is aimed at.
    pub aim: f64,
    /// What is too far from it: a machine that others share does not come that far by itself.
    pub limit: f64,
    /// Which side is the good one.
    pub good: Good,
}

/// Which side of an aim is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Good {
    /// Small numbers.
    Below,
    /// Large numbers.
    Above,
}

impl Aim {
    /// One where small numbers are good.
    pub fn at_most(what: impl Into<String>, measured: f64, aim: f64, limit: f64) -> Aim {
        Aim { what: what.into(), measured, aim, limit, good: Good::Below }
    }

    /// One where large numbers are good.
    pub fn at_least(what: impl Into<String>, measured: f64, aim: f64, limit: f64) -> Aim {
        Aim { what: what.into(), measured, aim, limit, good: Good::Above }
    }

    fn keeps(&self, bound: f64) -> bool {
        match self.good {
            Good::Below => self.measured <= bound,
            Good::Above => self.measured >= bound,
        }
    }
}

impl std::fmt::Display for Aim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = match (self.keeps(self.aim), self.keeps(self.limit)) {
            (true, _) => "reached",
            (false, true) => "missed",
            (false, false) => "MISSED BY FAR",
        };
        let relation = if self.good == Good::Below { "at most" } else { "at least" };
        if self.measured.is_nan() {
            return write!(f, "{}: not measured, aim {relation} {}", self.what, self.aim);
        }
        write!(f, "{}: {:.3}, aim {relation} {}: {verdict}", self.what, self.measured, self.aim)
    }
}

/// Prints the aims with what was measured, as a list in Markdown; tells whether none is missed by far.
pub fn account(aims: &[Aim]) -> bool {
    println!();
    for aim in aims {
        println!("- {aim}");
    }
    aims.iter().all(|aim| aim.keeps(aim.limit))
}

/// How a benchmark ends that was run to such an `extent`: what is only checked fails where an aim is missed by far,
/// unless others use the machine.
pub fn end(extent: Extent, aims: &[Aim], was_calm: bool) -> ExitCode {
    let is_kept = account(aims);
    if is_kept || extent == Extent::Full {
        ExitCode::SUCCESS
    } else if was_calm && phase::is_calm() {
        ExitCode::FAILURE
    } else {
        println!("\nNOT JUDGED: others use this machine's processors.");
        ExitCode::from(NOT_JUDGED)
    }
}

/// The exit code of a benchmark that could not be judged.
pub const NOT_JUDGED: u8 = 75;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_is_reached_missed_or_missed_by_far() {
        let latency = |measured| Aim::at_most("latency", measured, 0.7, 1.0);
        assert!(latency(0.7).to_string().ends_with("0.700, aim at most 0.7: reached"));
        assert!(latency(0.9).to_string().ends_with(": missed"));
        assert!(latency(1.1).to_string().ends_with("MISSED BY FAR"));
        let bandwidth = |measured| Aim::at_least("bandwidth", measured, 1.3, 1.0);
        assert!(account(&[bandwidth(1.4), bandwidth(1.1), latency(0.9)]));
        assert!(!account(&[bandwidth(0.9)]));
        assert!(!account(&[bandwidth(f64::NAN)]));
        assert!(bandwidth(f64::NAN).to_string().ends_with(": not measured, aim at least 1.3"));
    }
}
