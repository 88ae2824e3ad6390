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
}

/// What the command line of a benchmark says of how much is run, and of how it is judged: `--aims`, `--check`, or neither.
/// Where it says something else, or asks for help, the process ends.
pub fn asked(name: &'static str, about: &'static str) -> (Extent, Judging) {
    let matches = command_line(name, about).get_matches();
    let [aims, check] = ["aims", "check"].map(|option| matches.get_flag(option));
    (Extent::of(check), Judging::of(aims, check))
}

fn command_line(name: &'static str, about: &'static str) -> Command {
    let option = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let aims = option("aims").conflicts_with("check").help("A failure where an aim is missed");
    let check = option("check").help("Fewer and shorter runs, and a failure where an aim is missed by far");
    Command::new(name).about(about).args([aims, check])
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

/// What makes a benchmark fail, of what it has measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judging {
    /// Nothing: the numbers are told, whatever they are.
    Nothing,
    /// An aim that is missed by far.
    MissedByFar,
    /// An aim that is missed.
    Missed,
}

impl Judging {
    /// What `--aims` and `--check` ask for, where they are given.
    pub fn of(aims: bool, check: bool) -> Judging {
        if aims { Judging::Missed } else { Judging::from(Extent::of(check)) }
    }

    fn passes(self, aim: &Aim) -> bool {
        match self {
            Judging::Nothing => true,
            Judging::MissedByFar => aim.keeps(aim.limit),
            Judging::Missed => aim.keeps(aim.aim),
        }
    }
}

impl From<Extent> for Judging {
    fn from(extent: Extent) -> Self {
        match extent {
            Extent::Full => Judging::Nothing,
            Extent::Check => Judging::MissedByFar,
        }
    }
}

/// Prints the aims with what was measured, as a list in Markdown, and how many are reached.
pub fn account(aims: &[Aim]) {
    if aims.is_empty() {
        return;
    }
    println!();
    for aim in aims {
        println!("- {aim}");
    }
    println!("\n{}", summary(aims));
}

fn summary(aims: &[Aim]) -> String {
    let reached = aims.iter().filter(|aim| aim.keeps(aim.aim)).count();
    let far = aims.iter().filter(|aim| !aim.keeps(aim.limit)).count();
    let missed = aims.len() - reached;
    format!("{reached} of {} aims reached, {missed} missed, {far} of these by far.", aims.len())
}

/// How a benchmark ends whose aims are judged so: it fails where one is missed that must not be, unless others use the
/// machine, and where there are none to be judged.
pub fn end(judging: impl Into<Judging>, aims: &[Aim], was_calm: bool) -> ExitCode {
    let judging = judging.into();
    account(aims);
    if judging != Judging::Nothing && aims.is_empty() {
        println!(
            "\nNOTHING JUDGED: nothing that was measured has an aim; measure more, or do not have it judged."
        );
        return ExitCode::from(NOTHING_JUDGED);
    }
    if aims.iter().all(|aim| judging.passes(aim)) {
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

/// The exit code of a benchmark that was to be judged, and measured nothing that has an aim: however often it is run.
pub const NOTHING_JUDGED: u8 = 64;

/// The exit code of a benchmark in which svmio failed, or had wrong data: no further run makes that good.
pub const FAULTY: u8 = 70;

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
        assert!(bandwidth(f64::NAN).to_string().ends_with(": not measured, aim at least 1.3"));
        let aims = [bandwidth(1.4), bandwidth(1.1), latency(1.1), bandwidth(f64::NAN)];
        assert_eq!(summary(&aims), "1 of 4 aims reached, 3 missed, 2 of these by far.");
    }

    #[test]
    fn what_is_judged_by_its_aims_fails_earlier_than_what_is_only_checked() {
        let passing = |judging: Judging| {
            let aims = [0.7, 0.9, 1.1, f64::NAN].map(|time| Aim::at_most("latency", time, 0.7, 1.0));
            aims.map(|aim| judging.passes(&aim))
        };
        assert_eq!(passing(Judging::of(true, false)), [true, false, false, false]);
        assert_eq!(passing(Judging::of(false, true)), [true, true, false, false]);
        assert_eq!(passing(Judging::of(false, false)), [true; 4]);
    }

    #[test]
    fn all_is_judged_by_its_aims_or_a_part_by_what_is_far_from_them() {
        let accepts = |options: &[&str]| {
            let words = std::iter::once("messages").chain(options.iter().copied());
            command_line("messages", "").try_get_matches_from(words).is_ok()
        };
        assert!(accepts(&[]) && accepts(&["--aims"]) && accepts(&["--check"]));
        assert!(!accepts(&["--aims", "--check"]) && !accepts(&["--sizes", "8"]));
    }

    #[test]
    fn where_there_is_nothing_to_be_judged_nothing_is_shown() {
        for judging in [Judging::Missed, Judging::MissedByFar] {
            assert_eq!(end(judging, &[], true), ExitCode::from(NOTHING_JUDGED), "{judging:?}");
        }
        assert_eq!(end(Judging::Nothing, &[], true), ExitCode::SUCCESS);
    }
}
