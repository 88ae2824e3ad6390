//! Running MPICH's tests of collectives: every line of their list × MPI × whose collectives.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::known::{FAILING, NONBLOCKING, is_not_ours, not_built};
use crate::build::svmio;
use crate::comparison::Tally;
use crate::launcher::{Job, Launcher, cores};
use crate::mpi::Mpi;
use crate::mpich::compile::Tree;
use crate::mpich::testlist::{self, Extent, Test};
use crate::paths::Paths;
use crate::process;
use crate::romio::programs::Success;
use crate::{pool, table};

/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(120);

const SLOWEST: usize = 6;

/// The folder of MPICH's tests.
const FOLDER: &str = "coll";

/// Whose collectives a job uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collectives {
    /// The MPI's own.
    Stock,
    /// svmio's, by its preload library.
    Preload,
    /// svmio's, by its component of Open MPI.
    Component,
}

impl Collectives {
    const ALL: [Self; 3] = [Self::Stock, Self::Preload, Self::Component];

    fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Preload => "preload",
            Self::Component => "component",
        }
    }

    fn serve(self, mpi: Mpi) -> bool {
        self != Self::Component || mpi == Mpi::DebianOpenMpi
    }
}

/// A part of the suite; without options, everything with svmio's collectives.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Selection {
    /// Only with these MPIs: mpich, openmpi [default: both]
    #[arg(long = "mpi", value_name = "NAME", value_delimiter = ',', value_parser = parse_mpi)]
    mpis: Vec<Mpi>,
    /// With these collectives: stock, preload, component [default: preload, component]
    #[arg(long, value_name = "WHOSE", value_delimiter = ',', value_parser = parse_collectives)]
    collectives: Vec<Collectives>,
    /// Only these programs [default: all]
    #[arg(long = "program", value_name = "NAME", value_delimiter = ',')]
    programs: Vec<String>,
    /// Each program of blocking operations once only for each MPI, with few ranks and, where there are several, with
    /// one of the kinds of collectives after the other
    #[arg(long)]
    short: bool,
}

impl Selection {
    /// Each program of blocking operations once for each MPI.
    pub(crate) fn short() -> Self {
        Self { short: true, ..Self::default() }
    }

    fn mpis(&self) -> Vec<Mpi> {
        if self.mpis.is_empty() { Mpi::DEBIAN.to_vec() } else { self.mpis.clone() }
    }

    fn collectives(&self) -> Vec<Collectives> {
        let default = || vec![Collectives::Preload, Collectives::Component];
        if self.collectives.is_empty() { default() } else { self.collectives.clone() }
    }

    fn tests(&self, tree: &Tree) -> Result<Vec<Test>> {
        let extent = if self.short { Extent::Short } else { Extent::Full };
        let mut tests = testlist::read(&tree.programs(FOLDER), extent)?;
        if let Some(unknown) =
            self.programs.iter().find(|name| !tests.iter().any(|test| test.program == **name))
        {
            bail!("testlist.in has no program {unknown}");
        }
        tests.retain(|test| self.programs.is_empty() || self.programs.contains(&test.program));
        Ok(tests)
    }
}

/// One run to be made.
#[derive(Debug, Clone)]
struct Case<'a> {
    test: &'a Test,
    mpi: Mpi,
    collectives: Collectives,
}

/// One run that was made.
#[derive(Debug)]
struct Outcome {
    /// What was wrong; `None` when all was well.
    fault: Option<String>,
    output: String,
    elapsed: Duration,
}

/// Builds and runs the selected part.
pub(crate) fn run(paths: &Paths, selection: &Selection) -> Result<Tally> {
    let tool = svmio(paths);
    if selection.collectives() != [Collectives::Stock] && !tool.exists() {
        bail!("{} does not exist; run `cargo xtask build` first", tool.display());
    }
    let tree = Tree::fetch(paths)?;
    let tests = selection.tests(&tree)?;
    let mut report = Report::default();
    let mut cases = Vec::new();
    for mpi in selection.mpis() {
        println!("coll: building the test programs with {}", mpi.name());
        let programs: BTreeSet<&str> = tests.iter().map(|test| test.program.as_str()).collect();
        let programs = programs.into_iter().filter(|program| not_built(program, mpi).is_none()).collect();
        for (program, fault) in tree.build(paths, mpi, FOLDER, &programs)? {
            report.fail(format!("{program} with {}: cannot be built", mpi.name()), &fault);
        }
        let served: Vec<Collectives> =
            selection.collectives().into_iter().filter(|collectives| collectives.serve(mpi)).collect();
        for (number, test) in tests.iter().enumerate() {
            if let Some(reason) = not_built(&test.program, mpi) {
                report.excuse(format!("not built with {}: {reason}", mpi.name()), &test.program);
                continue;
            }
            let wanted = if selection.short { one_of(&served, number) } else { &served };
            cases.extend(wanted.iter().map(|&collectives| Case { test, mpi, collectives }));
        }
    }
    if cases.is_empty() {
        bail!("MPICH's tests of collectives: nothing was selected, nothing was run");
    }
    let outcomes = run_all(paths, &tree, &cases);
    let failed = cases.iter().zip(&outcomes).filter(|(_, outcome)| outcome.fault.is_some());
    let on_stock = failed
        .filter(|(case, _)| case.collectives != Collectives::Stock)
        .map(|(case, _)| Case { collectives: Collectives::Stock, ..case.clone() })
        .collect::<Vec<_>>();
    let stock = run_all(paths, &tree, &on_stock);
    let fails_on_stock = |case: &Case| {
        let same = |other: &Case| other.test == case.test && other.mpi == case.mpi;
        let found = on_stock.iter().zip(&stock).find(|(other, _)| same(other));
        found.is_none_or(|(_, outcome)| outcome.fault.is_some())
    };
    for (case, outcome) in cases.iter().zip(&outcomes) {
        report.add(case, outcome, fails_on_stock(case));
    }
    report.print(&cases, &outcomes);
    Ok(report.tally)
}

/// The one whose turn it is, if there is any.
fn one_of<T>(all: &[T], turn: usize) -> &[T] {
    let at = turn % all.len().max(1);
    all.get(at..=at).unwrap_or_default()
}

fn run_all(paths: &Paths, tree: &Tree, cases: &[Case]) -> Vec<Outcome> {
    let cores_of = |case: &Case| case.test.ranks as usize;
    pool::run(cases, cores(), cores_of, |case| {
        attempt(paths, tree, case).unwrap_or_else(|error| Outcome {
            fault: Some(format!("{error:#}")),
            output: String::new(),
            elapsed: Duration::ZERO,
        })
    })
}

/// Runs one case in a folder of its own.
fn attempt(paths: &Paths, tree: &Tree, case: &Case) -> Result<Outcome> {
    let Test { program, ranks, arguments, .. } = case.test;
    let scratch = Launcher::Stock.scratch("coll").context("cannot make a folder for the run")?;
    let executable = tree.executable(case.mpi, program);
    let job = Job {
        mpi: case.mpi,
        launcher: Launcher::Stock,
        ranks: *ranks,
        program: &executable,
        arguments: arguments.iter().map(Into::into).collect(),
        folder: scratch.path(),
    };
    let mut command = match case.collectives {
        Collectives::Stock => job.command(paths)?,
        Collectives::Preload | Collectives::Component => {
            let mut run = Command::new(svmio(paths));
            run.arg("run").arg(format!("--collectives={}", case.collectives.name()));
            run.args(["-n", &ranks.to_string(), "--"]).arg(&executable).args(arguments);
            run.envs(case.mpi.environment().iter().copied()).env("SVMIO_STATS", "1");
            // Else short ones that do not block would be MPI's own, and prove nothing.
            run.env("SVMIO_COLLECTIVES_NONBLOCKING", "all");
            // Likewise those of communicators that have few.
            run.env("SVMIO_COLLECTIVES_AFTER", "0");
            run.env("TMPDIR", scratch.path()).current_dir(scratch.path());
            run
        }
    };
    let words: Vec<&str> =
        [program.as_str()].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let name =
        format!("{}-{ranks}-{}.log", words.join(" ").replace(['/', ' '], "_"), case.collectives.name());
    let log = paths.mpich_tests().join("log").join(case.mpi.name()).join(name);
    let finished = process::run_limited(&mut command, LIMIT, &log)?;
    let is_nonblocking = case.collectives == Collectives::Preload && NONBLOCKING.contains(&program.as_str());
    let by_component = case.collectives == Collectives::Component;
    let takes_part = || {
        let is_stock = *ranks == 1 || case.collectives == Collectives::Stock;
        is_stock || is_not_ours(program, by_component) || has_taken_some(&finished.output, is_nonblocking)
    };
    let fault = finished
        .fault(LIMIT, || Success::NoErrors.shortfall(&finished.output))
        .or_else(|| (!takes_part()).then(|| finished.complaint("svmio did none of the collectives")));
    Ok(Outcome { fault, elapsed: finished.elapsed, output: finished.output })
}

/// Whether a rank says in `output` that svmio did some of its collectives, `…of all: ibarrier 2/2, bcast 0/1`: some that
/// do not block, if that is asked for. The one `MPI_Reduce` with which each program ends, to add up errors, is not counted.
///
/// Else the MPI would have passed the test, and all would look well.
fn has_taken_some(output: &str, nonblocking: bool) -> bool {
    let numbers = output.split("collectives done by svmio, of all: ").skip(1);
    numbers.filter_map(|rest| rest.lines().next()).any(|line| {
        let words = line.split(", ").filter_map(|word| word.split_once(' '));
        let taken =
            words.filter_map(|(name, numbers)| Some((name, numbers.split_once('/')?.0.parse::<u64>().ok()?)));
        taken
            .filter(|(name, _)| !nonblocking || name.starts_with('i'))
            .any(|(name, taken)| taken > u64::from(name == "reduce"))
    })
}

/// What the runs amount to.
#[derive(Debug, Default)]
struct Report {
    tally: Tally,
    /// How many runs were good, excused and bad, by MPI and whose collectives.
    columns: BTreeMap<String, [usize; 3]>,
    /// Why runs are excused, and which.
    excused: BTreeMap<String, Vec<String>>,
    faults: Vec<String>,
}

impl Report {
    /// Counts a run; it is excused only when it is in the list of failures known on stock, bears its sign, and fails
    /// there.
    fn add(&mut self, case: &Case, outcome: &Outcome, fails_on_stock: bool) {
        let column = format!("{} {}", case.mpi.name(), case.collectives.name());
        let [good, excused, bad] = self.columns.entry(column.clone()).or_default();
        let Some(fault) = &outcome.fault else {
            *good += 1;
            self.tally.passed += 1;
            return;
        };
        let known = FAILING.iter().find(|known| {
            known.program == case.test.program && known.mpi == case.mpi && outcome.output.contains(known.sign)
        });
        match known {
            Some(known) if fails_on_stock => {
                *excused += 1;
                let reason = format!("known to fail on stock {}: {}", case.mpi.name(), known.reason);
                self.excuse(reason, &case.test.program);
            }
            _ => {
                *bad += 1;
                let stock = if fails_on_stock { "" } else { "; with the MPI's own it passes" };
                self.fail(
                    format!("{} with {column}, {} ranks{stock}", case.test.program, case.test.ranks),
                    fault,
                );
            }
        }
    }

    fn excuse(&mut self, reason: String, program: &str) {
        let programs = self.excused.entry(reason).or_default();
        if !programs.iter().any(|known| known == program) {
            programs.push(program.to_owned());
        }
    }

    fn fail(&mut self, title: String, fault: &str) {
        self.tally.failed += 1;
        let indented: Vec<String> = fault.lines().map(|line| format!("    {line}")).collect();
        self.faults.push(format!("{title}: FAILED\n{}", indented.join("\n")));
    }

    fn print(&self, cases: &[Case], outcomes: &[Outcome]) {
        const SUITE: &str = "MPICH's tests of collectives";
        let rows: Vec<Vec<String>> = self
            .columns
            .iter()
            .map(|(name, counts)| {
                let counts = counts.iter().map(ToString::to_string);
                [name.clone()].into_iter().chain(counts).collect()
            })
            .collect();
        let head = ["collectives of", "good", "fail on stock", "bad"].map(String::from);
        println!("\n{SUITE}\n{}", table::render(&head, &rows));
        for (reason, programs) in &self.excused {
            println!("{reason}: {}", programs.join(", "));
        }
        for fault in &self.faults {
            println!("{fault}");
        }
        let mut runs: Vec<(&Case, &Outcome)> = cases.iter().zip(outcomes).collect();
        runs.sort_by_key(|(_, outcome)| std::cmp::Reverse(outcome.elapsed));
        let slowest = runs.into_iter().take(SLOWEST).map(|(case, outcome)| {
            let (mpi, whose) = (case.mpi.name(), case.collectives.name());
            let seconds = outcome.elapsed.as_secs_f64();
            format!("{} {mpi} {whose} {}: {seconds:.1} s", case.test.program, case.test.ranks)
        });
        println!("{SUITE}: the slowest runs were {}", slowest.collect::<Vec<_>>().join(", "));
        let time: Duration = outcomes.iter().map(|outcome| outcome.elapsed).sum();
        let Tally { passed, failed } = self.tally;
        println!("{SUITE}: {passed} runs good, {failed} bad, {:.0} s of runs", time.as_secs_f64());
    }
}

fn parse_mpi(name: &str) -> Result<Mpi, String> {
    let found = Mpi::DEBIAN.into_iter().find(|mpi| mpi.name() == name);
    found.ok_or_else(|| format!("one of {} is expected", Mpi::DEBIAN.map(Mpi::name).join(", ")))
}

fn parse_collectives(name: &str) -> Result<Collectives, String> {
    let found = Collectives::ALL.into_iter().find(|collectives| collectives.name() == name);
    found.ok_or_else(|| format!("one of {} is expected", Collectives::ALL.map(Collectives::name).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_says_what_svmio_took() {
        let said = |numbers: &str| {
            format!(" No Errors\nsvmio: rank 1: collectives done by svmio, of all: {numbers}\n")
        };
        assert!(has_taken_some(&said("barrier 2/2, bcast 0/1"), false));
        assert!(!has_taken_some(&said("barrier 2/2, ibarrier 0/1"), true));
        assert!(has_taken_some(&said("barrier 0/2, ibarrier 1/1"), true));
        assert!(has_taken_some(&(said("barrier 0/2") + &said("barrier 0/2, scan 1/1")), false));
        assert!(!has_taken_some(&said("barrier 0/2, bcast 0/1"), false));
        assert!(!has_taken_some(&said("alltoallw 0/8, reduce 1/1"), false));
        assert!(has_taken_some(&said("reduce 3/3"), false));
        assert!(!has_taken_some(&said("none"), false));
        assert!(!has_taken_some(" No Errors\n", false));
    }

    #[test]
    fn turns_go_round() {
        assert_eq!([0, 1, 2, 3].map(|turn| one_of(&["a", "b"], turn)[0]), ["a", "b", "a", "b"]);
        assert!(one_of::<u8>(&[], 3).is_empty());
    }
}
