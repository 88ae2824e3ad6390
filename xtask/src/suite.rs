//! Suites of MPI programs: which part of one to run, running it, saying how it went.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::comparison::{Known, Outcome, Tally, report};
use crate::launcher::{Launcher, cores};
use crate::mpi::Mpi;
use crate::paths::Paths;
use crate::pool;
use crate::process::Finished;
use crate::wheels;

/// How many of the slowest runs are named.
const SLOWEST: usize = 6;

/// A part of a suite; without options, everything, on svmio, and on stock where svmio fails.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Selection {
    /// Only with these MPIs: mpich, openmpi, mpich5, openmpi5 [default: all]
    #[arg(long = "mpi", value_name = "NAME", value_delimiter = ',', value_parser = parse_mpi)]
    pub(crate) mpis: Vec<Mpi>,
    /// On these kinds of files: stock, svm, nodes (svmio over four emulated nodes, or as many as there are ranks), hosts
    /// (over several hosts, beside these only) [default: svm; where stock is not named, what fails is run on it, too]
    #[arg(long = "on", value_name = "KIND", value_delimiter = ',', value_parser = parse_launcher)]
    pub(crate) launchers: Vec<Launcher>,
    /// Only with these numbers of ranks [default: all that a program accepts of 1, 2, 4]
    #[arg(long = "ranks", value_name = "N", value_delimiter = ',')]
    pub(crate) ranks: Vec<u32>,
    /// Only the smallest and the largest of these numbers, with the MPIs that Debian does not have only the largest
    /// (for mpi4py's tests 2), and not what takes gigabytes of memory
    #[arg(long)]
    pub(crate) short: bool,
}

impl Selection {
    /// On svmio, with fewer numbers of ranks, and fewest for MPIs that Debian does not have.
    pub(crate) fn short() -> Self {
        Self { short: true, ..Self::default() }
    }

    /// Over four emulated nodes with a rank each, with Debian's MPIs; what accepts two ranks only, over two nodes.
    pub(crate) fn over_nodes() -> Self {
        Self::with_ranks_over_nodes(&[2, 4])
    }

    /// On one node and over four emulated ones.
    pub(crate) fn on_one_node_and_over_nodes() -> Self {
        Self { launchers: vec![Launcher::Svm, Launcher::SvmOverNodes], ..Self::default() }
    }

    /// Over four emulated nodes with two ranks each, with Debian's MPIs.
    pub(crate) fn over_crowded_nodes() -> Self {
        Self::with_ranks_over_nodes(&[8])
    }

    fn with_ranks_over_nodes(ranks: &[u32]) -> Self {
        let mpis = vec![Mpi::DebianMpich, Mpi::DebianOpenMpi];
        Self { mpis, launchers: vec![Launcher::SvmOverNodes], ranks: ranks.to_vec(), short: false }
    }

    pub(crate) fn mpis(&self) -> Vec<Mpi> {
        if self.mpis.is_empty() { Mpi::ALL.to_vec() } else { self.mpis.clone() }
    }

    pub(crate) fn launchers(&self) -> Vec<Launcher> {
        if self.launchers.is_empty() { vec![Launcher::Svm] } else { self.launchers.clone() }
    }

    /// Whether programs that take much of the machine are not run with `mpi`.
    pub(crate) fn leaves_out_heavy(&self, mpi: Mpi) -> bool {
        self.short && !Mpi::DEBIAN.contains(&mpi)
    }

    /// Whether runs that fail on svmio are to be made on stock too, to see whether they fail there.
    fn confirms_failures(&self) -> bool {
        !self.launchers.contains(&Launcher::Stock)
    }

    /// Every launcher with every number of ranks that is selected, for a program with an MPI.
    pub(crate) fn runs(&self, mpi: Mpi, accepted: &[u32]) -> Vec<(Launcher, u32)> {
        let launchers = self.launchers().into_iter().filter(|launcher| launcher.serves(mpi));
        let runs = launchers.flat_map(|launcher| {
            self.numbers(mpi, launcher, accepted).into_iter().map(move |ranks| (launcher, ranks))
        });
        runs.collect()
    }

    /// The selected numbers of ranks, for a program with an MPI on a kind of file.
    fn numbers(&self, mpi: Mpi, launcher: Launcher, accepted: &[u32]) -> Vec<u32> {
        let mut numbers = launcher.ranks(accepted);
        numbers.retain(|ranks| self.ranks.is_empty() || self.ranks.contains(ranks));
        if self.short {
            let most = numbers.iter().copied().max();
            let fewest = numbers.iter().copied().min().filter(|_| Mpi::DEBIAN.contains(&mpi));
            numbers.retain(|&ranks| Some(ranks) == most || Some(ranks) == fewest);
        }
        numbers
    }

    /// Makes the virtual environments of the selected MPIs that Debian does not have, where there are any.
    pub(crate) fn make_wheels(&self, paths: &Paths) -> Result<()> {
        if self.has_wheels() { wheels::run(paths) } else { Ok(()) }
    }

    fn has_wheels(&self) -> bool {
        self.mpis().iter().any(|mpi| !Mpi::DEBIAN.contains(mpi))
    }

    /// Fails where a selected launcher cannot be used.
    pub(crate) fn check(&self, paths: &Paths) -> Result<()> {
        self.launchers().into_iter().try_for_each(|launcher| launcher.check(paths))
    }
}

/// One run to be made of a suite: a program with an MPI, a number of ranks and a kind of file.
#[derive(Debug, Clone)]
pub(crate) struct Case<Program> {
    pub(crate) program: Program,
    pub(crate) mpi: Mpi,
    pub(crate) launcher: Launcher,
    pub(crate) ranks: u32,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) finished: Finished,
    /// What was wrong with it; `None` when all was well.
    pub(crate) fault: Option<String>,
}

impl<Program> Case<Program> {
    /// What became of the case, an error being a fault as well.
    pub(crate) fn outcome(&self, program: &str, attempt: Result<Attempt>) -> Outcome {
        let (fault, output, elapsed) = match attempt {
            Ok(Attempt { finished, fault }) => (fault, finished.output, finished.elapsed),
            Err(error) => (Some(format!("{error:#}")), String::new(), Duration::ZERO),
        };
        let Self { mpi, launcher, ranks, .. } = *self;
        Outcome { program: program.to_owned(), mpi, launcher, ranks, fault, output, elapsed }
    }
}

/// Makes the runs of a suite, several at a time, and prints its table and notes.
///
/// `cores_of` says how many cores a run keeps busy.
///
/// # Errors
/// When nothing was run at all: a suite that cannot fail shows nothing.
pub(crate) fn run_suite<Program: Clone + Sync>(
    suite: &str,
    selection: &Selection,
    cases: &[Case<Program>],
    known: &[Known],
    cores_of: impl Fn(&Case<Program>) -> usize,
    run: impl Fn(&Case<Program>) -> Outcome + Sync,
) -> Result<Tally> {
    if cases.is_empty() {
        bail!("{suite}: nothing was selected, nothing was run");
    }
    let mut outcomes = pool::run(cases, cores(), &cores_of, &run);
    if selection.confirms_failures() {
        let doubtful: Vec<Case<Program>> = cases
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.fault.is_some())
            .map(|(case, _)| Case { launcher: Launcher::Stock, ..case.clone() })
            .collect();
        outcomes.extend(pool::run(&doubtful, cores(), &cores_of, &run));
    }
    let report = report(&outcomes, known, &selection.launchers());
    println!("\n{suite}: the numbers are the numbers of ranks\n{}", report.table);
    for note in &report.notes {
        println!("{note}");
    }
    let mut slowest: Vec<&Outcome> = outcomes.iter().collect();
    slowest.sort_by_key(|outcome| std::cmp::Reverse(outcome.elapsed));
    let slowest: Vec<String> = slowest.into_iter().take(SLOWEST).map(with_time).collect();
    println!("{suite}: the slowest runs were {}", slowest.join(", "));
    let time: Duration = outcomes.iter().map(|outcome| outcome.elapsed).sum();
    let Tally { passed, failed } = report.tally;
    println!("{suite}: {passed} runs good, {failed} bad, {:.0} s of runs", time.as_secs_f64());
    Ok(report.tally)
}

fn with_time(outcome: &Outcome) -> String {
    let (mpi, launcher) = (outcome.mpi.name(), outcome.launcher.name());
    let seconds = outcome.elapsed.as_secs_f64();
    format!("{} {mpi} {launcher} {}: {seconds:.1} s", outcome.program, outcome.ranks)
}

fn parse_mpi(name: &str) -> Result<Mpi, String> {
    Mpi::from_name(name).ok_or_else(|| format!("one of {} is expected", Mpi::ALL.map(Mpi::name).join(", ")))
}

fn parse_launcher(name: &str) -> Result<Launcher, String> {
    Launcher::ALL
        .into_iter()
        .find(|launcher| launcher.name() == name)
        .ok_or_else(|| format!("one of {} is expected", Launcher::ALL.map(Launcher::name).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::romio::programs::PROGRAMS;

    #[test]
    fn short_is_fewer_numbers_of_ranks_and_fewest_with_mpis_that_debian_does_not_have() {
        let numbers =
            |selection: &Selection, mpi| selection.runs(mpi, &[1, 2, 4]).into_iter().map(|(_, ranks)| ranks);
        for mpi in Mpi::ALL {
            let all: Vec<u32> = numbers(&Selection::default(), mpi).collect();
            assert_eq!(all, [1, 2, 4]);
            let few: Vec<u32> = numbers(&Selection::short(), mpi).collect();
            assert_eq!(few, if Mpi::DEBIAN.contains(&mpi) { vec![1, 4] } else { vec![4] });
        }
        let two = Selection { ranks: vec![1, 2], ..Selection::short() };
        assert_eq!(numbers(&two, Mpi::WheelMpich).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn only_mpis_that_debian_does_not_have_need_wheels() {
        let with = |mpis: &[Mpi]| Selection { mpis: mpis.to_vec(), ..Selection::default() }.has_wheels();
        assert!(Selection::default().has_wheels() && Selection::short().has_wheels());
        assert!(with(&[Mpi::DebianMpich, Mpi::WheelOpenMpi]));
        assert!(!with(&Mpi::DEBIAN) && !Selection::over_nodes().has_wheels());
    }

    #[test]
    fn all_that_accepts_several_ranks_is_run_once_over_nodes() {
        for program in PROGRAMS {
            let runs = |selection: Selection| selection.runs(Mpi::DebianMpich, program.ranks);
            let ranks = if program.ranks.contains(&4) { 4 } else { 2 };
            let expected = Some((Launcher::SvmOverNodes, ranks)).filter(|_| program.ranks != [1]);
            assert_eq!(runs(Selection::over_nodes()), Vec::from_iter(expected), "{}", program.name);
            let is_flexible = program.ranks.len() > 1;
            let crowded = Some((Launcher::SvmOverNodes, 8)).filter(|_| is_flexible);
            assert_eq!(runs(Selection::over_crowded_nodes()), Vec::from_iter(crowded), "{}", program.name);
        }
    }
}
