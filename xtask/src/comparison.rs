//! The same programs on stock MPI-IO and on svmio: what may fail, what must not, and the table.

use std::time::Duration;

use crate::launcher::Launcher;
use crate::mpi::Mpi;
use crate::table;

/// One run of one program.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) program: String,
    pub(crate) mpi: Mpi,
    pub(crate) launcher: Launcher,
    pub(crate) ranks: u32,
    /// What was wrong; `None` when all was well.
    pub(crate) fault: Option<String>,
    /// All that it printed.
    pub(crate) output: String,
    pub(crate) elapsed: Duration,
}

/// A program that is known to fail, or cannot be built, on a stock MPI.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) program: &'static str,
    pub(crate) mpis: &'static [Mpi],
    /// The numbers of ranks it fails with.
    pub(crate) ranks: &'static [u32],
    /// What the failed run prints; one that does not print it fails for another reason.
    pub(crate) sign: &'static str,
    pub(crate) reason: &'static str,
}

impl Known {
    fn covers(&self, run: &Outcome) -> bool {
        self.ranks.contains(&run.ranks) && run.output.contains(self.sign)
    }
}

/// How many checks held and how many did not.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// What the outcomes amount to.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) table: String,
    /// Notes under the table: reasons of known failures, details of the others.
    pub(crate) notes: Vec<String>,
    pub(crate) tally: Tally,
}

/// Compares svmio with stock, program by program, in one column for each MPI and each of `columns`.
///
/// Counted are the runs on svmio, or those on stock where there are no others. A failure is excused
/// only where it is in the list of failures known on stock and bears its sign, and where the very same
/// run on stock, if it was made, failed too.
pub(crate) fn report(outcomes: &[Outcome], known: &[Known], columns: &[Launcher]) -> Report {
    let mut programs: Vec<&str> = Vec::new();
    let mut mpis: Vec<Mpi> = Vec::new();
    for outcome in outcomes {
        if !programs.contains(&outcome.program.as_str()) {
            programs.push(&outcome.program);
        }
        if !mpis.contains(&outcome.mpi) {
            mpis.push(outcome.mpi);
        }
    }
    let on_svmio = outcomes.iter().any(|outcome| outcome.launcher.is_svmio());

    let mut head = vec!["program".to_owned()];
    for mpi in &mpis {
        let columns = Launcher::ALL.into_iter().filter(|launcher| columns.contains(launcher));
        head.extend(columns.map(|launcher| format!("{} {}", mpi.name(), launcher.name())));
    }
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    let mut tally = Tally::default();
    for program in programs {
        let mut row = vec![program.to_owned()];
        for &mpi in &mpis {
            let runs: Vec<&Outcome> =
                outcomes.iter().filter(|run| run.program == program && run.mpi == mpi).collect();
            let known = known.iter().find(|k| k.program == program && k.mpis.contains(&mpi));
            for launcher in Launcher::ALL {
                let cell = Cell::new(&runs, known, launcher);
                cell.note(&mut notes);
                if launcher.is_svmio() == on_svmio {
                    tally += Tally { passed: cell.good.len(), failed: cell.bad.len() };
                }
                if columns.contains(&launcher) {
                    row.push(cell.text());
                }
            }
        }
        rows.push(row);
    }
    Report { table: table::render(&head, &rows), notes, tally }
}

/// The runs of one program with one MPI on one kind of file.
struct Cell<'a> {
    known: Option<&'a Known>,
    good: Vec<&'a Outcome>,
    excused: Vec<&'a Outcome>,
    bad: Vec<&'a Outcome>,
}

impl<'a> Cell<'a> {
    fn new(runs: &[&'a Outcome], known: Option<&'a Known>, launcher: Launcher) -> Self {
        let mut cell = Self { known, good: Vec::new(), excused: Vec::new(), bad: Vec::new() };
        for &run in runs.iter().filter(|run| run.launcher == launcher) {
            let listed = known.is_some_and(|known| known.covers(run));
            let passes_on_stock = runs.iter().any(|other| {
                other.launcher == Launcher::Stock && other.ranks == run.ranks && other.fault.is_none()
            });
            let list = match run.fault {
                None => &mut cell.good,
                Some(_) if listed && !passes_on_stock => &mut cell.excused,
                Some(_) => &mut cell.bad,
            };
            list.push(run);
        }
        cell
    }

    fn text(&self) -> String {
        let lists = [("ok", &self.good), ("FAIL", &self.bad), ("stock fails", &self.excused)];
        let parts: Vec<String> = lists
            .iter()
            .filter(|(_, runs)| !runs.is_empty())
            .map(|(word, runs)| format!("{word} {}", ranks(runs)))
            .collect();
        if parts.is_empty() {
            return self.known.map_or("not run", |known| known.reason).to_owned();
        }
        parts.join("; ")
    }

    /// Says why runs failed, and which of those listed as failing on stock pass there.
    fn note(&self, notes: &mut Vec<String>) {
        if let (Some(first), Some(known)) = (self.excused.first(), self.known) {
            let title = title(first, &self.excused);
            notes.push(format!("{title}: known to fail on stock: {}", known.reason));
        }
        for run in &self.bad {
            let fault = run.fault.as_deref().unwrap_or_default();
            let indented: Vec<String> = fault.lines().map(|line| format!("    {line}")).collect();
            notes.push(format!("{}: FAILED\n{}", title(run, &[run]), indented.join("\n")));
        }
        let unexpected: Vec<&Outcome> = self
            .good
            .iter()
            .copied()
            .filter(|run| run.launcher == Launcher::Stock)
            .filter(|run| self.known.is_some_and(|known| known.ranks.contains(&run.ranks)))
            .collect();
        if let Some(first) = unexpected.first() {
            notes.push(format!("{}: passes, though listed as failing", title(first, &unexpected)));
        }
    }
}

fn title(run: &Outcome, all: &[&Outcome]) -> String {
    let (mpi, launcher) = (run.mpi.name(), run.launcher.name());
    format!("{} with {mpi} on {launcher}, ranks {}", run.program, ranks(all))
}

fn ranks(runs: &[&Outcome]) -> String {
    runs.iter().map(|run| run.ranks.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(program: &str, launcher: Launcher, ranks: u32, fault: Option<&str>) -> Outcome {
        Outcome {
            program: program.to_owned(),
            mpi: Mpi::DebianOpenMpi,
            launcher,
            ranks,
            fault: fault.map(str::to_owned),
            output: format!("sign of {}", fault.unwrap_or_default()),
            elapsed: Duration::ZERO,
        }
    }

    const KNOWN: &[Known] = &[Known {
        program: "b",
        mpis: &[Mpi::DebianOpenMpi],
        ranks: &[2],
        sign: "sign of x",
        reason: "a defect",
    }];

    const BOTH: &[Launcher] = &Launcher::BOTH;

    #[test]
    fn what_passes_on_stock_must_pass_on_svmio() {
        let outcomes = [
            outcome("a", Launcher::Stock, 1, None),
            outcome("a", Launcher::Svm, 1, None),
            outcome("a", Launcher::Stock, 2, None),
            outcome("a", Launcher::Svm, 2, Some("boom")),
        ];
        let report = report(&outcomes, KNOWN, BOTH);
        assert_eq!(report.tally, Tally { passed: 1, failed: 1 });
        assert!(report.table.contains("ok 1; FAIL 2"), "{}", report.table);
        assert!(report.notes.iter().any(|note| note.contains("boom")));
    }

    #[test]
    fn runs_over_nodes_count_as_those_on_one_node_do() {
        let outcomes = [
            outcome("a", Launcher::Svm, 2, None),
            outcome("a", Launcher::SvmOverNodes, 2, None),
            outcome("a", Launcher::SvmOverNodes, 4, Some("boom")),
            outcome("a", Launcher::Stock, 4, None),
        ];
        let report = report(&outcomes, KNOWN, &Launcher::ALL);
        assert_eq!(report.tally, Tally { passed: 2, failed: 1 });
        assert!(report.table.contains("ok 2; FAIL 4"), "{}", report.table);
    }

    #[test]
    fn a_listed_failure_is_excused_unless_stock_passes() {
        let tally = |outcomes: &[Outcome]| report(outcomes, KNOWN, BOTH).tally;
        let on_svmio = outcome("b", Launcher::Svm, 2, Some("x"));
        let fails_on_stock = outcome("b", Launcher::Stock, 2, Some("x"));
        let passes_on_stock = outcome("b", Launcher::Stock, 2, None);
        assert_eq!(tally(&[on_svmio.clone(), fails_on_stock]), Tally { passed: 0, failed: 0 });
        assert_eq!(tally(&[on_svmio, passes_on_stock]), Tally { passed: 0, failed: 1 });
    }

    #[test]
    fn an_unlisted_failure_is_not_excused() {
        let tally = |outcomes: &[Outcome]| report(outcomes, KNOWN, BOTH).tally;
        let other_ranks = outcome("b", Launcher::Svm, 4, Some("x"));
        assert_eq!(tally(&[other_ranks]), Tally { passed: 0, failed: 1 });
        let other_sign = outcome("b", Launcher::Svm, 2, Some("y"));
        assert_eq!(tally(&[other_sign]), Tally { passed: 0, failed: 1 });
        let on_stock = outcome("a", Launcher::Stock, 1, Some("x"));
        assert_eq!(tally(&[on_stock]), Tally { passed: 0, failed: 1 });
    }
}
