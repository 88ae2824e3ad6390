//! What came of a workload: medians of all keepers, and how svmio's are beside the others'.

use svmio_tests::Mpi;

use super::keeper::Keeper;
use super::place::Kind;
use super::workload::{Goal, Quantity, Row, Workload};
use crate::aims::Aim;
use crate::interleaved::median;
use crate::told::Told;

/// A run: what is shown of each row, and what was wrong with it.
#[derive(Debug, Clone)]
pub struct Run {
    /// In the order of the workload's rows; NaN where there is a fault.
    pub numbers: Vec<f64>,
    /// Where it failed, or where something else was read than was written.
    pub fault: Option<String>,
}

impl Run {
    /// One that has told this. However fast it was: who reads something else than was written has not done it.
    pub(super) fn told(workload: &Workload, told: &Told) -> Run {
        let wrong = told.wrong();
        if wrong != 0.0 {
            return Run::failed(workload, format!("{wrong} words were read that had not been written"));
        }
        let numbers = workload.rows.iter().map(|row| row.quantity.shown(told.get(row.name)));
        Run { numbers: numbers.collect(), fault: None }
    }

    /// One that counts for nothing.
    pub(super) fn failed(workload: &Workload, fault: String) -> Run {
        Run { numbers: vec![f64::NAN; workload.rows.len()], fault: Some(fault) }
    }
}

/// What of several runs counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Their median.
    Median,
    /// The best: what it takes when nobody disturbs it.
    Best,
}

impl Counting {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Counting::Median => "median",
            Counting::Best => "best",
        }
    }

    fn of(self, quantity: Quantity, numbers: impl Iterator<Item = f64>) -> f64 {
        let numbers: Vec<f64> = numbers.collect();
        match self {
            _ if numbers.iter().any(|number| number.is_nan()) => f64::NAN,
            Counting::Median => median(numbers),
            Counting::Best => quantity.best(numbers.into_iter()),
        }
    }
}

/// What came of all runs of a workload.
#[derive(Debug)]
pub struct Outcome {
    /// Where the files lay.
    pub kind: Kind,
    /// What was run.
    pub workload: Workload,
    /// For whom, and what came of each run.
    pub runs: Vec<(Keeper, Vec<Run>)>,
    /// What the cores copied in memory meanwhile, MB/s.
    pub copying: f64,
    /// What counts of them.
    pub counting: Counting,
}

impl Outcome {
    /// Of all runs, of which the median counts; `copying` was measured beside them.
    pub fn new(kind: Kind, workload: Workload, runs: Vec<(Keeper, Vec<Run>)>, copying: Vec<f64>) -> Outcome {
        Outcome { kind, workload, runs, copying: median(copying), counting: Counting::Median }
    }

    /// What counts of a keeper's runs, of the row with this number; NaN where one failed.
    pub fn of_keeper(&self, keeper: usize, row: usize) -> f64 {
        self.counted(&self.runs[keeper].1, row)
    }

    fn counted(&self, runs: &[Run], row: usize) -> f64 {
        self.counting.of(self.workload.rows[row].quantity, runs.iter().map(|run| run.numbers[row]))
    }

    /// The best of svmio's, under one MPI or any.
    pub fn svmio(&self, row: usize, mpi: Option<Mpi>) -> f64 {
        self.best(row, |keeper| keeper.is_svmio() && mpi.is_none_or(|mpi| keeper.mpi == mpi))
    }

    /// The best of a stock driver's, of one MPI or any.
    pub fn stock(&self, row: usize, mpi: Option<Mpi>) -> f64 {
        self.best(row, |keeper| !keeper.is_svmio() && mpi.is_none_or(|mpi| keeper.mpi == mpi))
    }

    /// How many times as good svmio is as the best stock driver: its best, or both under one MPI. NaN where there is
    /// nothing to compare.
    pub fn ratio(&self, row: usize, mpi: Option<Mpi>) -> f64 {
        let quantity = self.workload.rows[row].quantity;
        quantity.ratio(self.svmio(row, mpi), self.stock(row, mpi))
    }

    /// Which share of what the cores copy svmio reaches.
    fn of_copying(&self, row: usize) -> f64 {
        self.svmio(row, None) / self.copying
    }

    /// What bounds a row, and how near svmio comes to that; `None` where nothing is known to.
    pub fn limit(&self, row: usize) -> Option<(f64, f64)> {
        let Row { quantity, limit, .. } = &self.workload.rows[row];
        let limit = match (quantity, limit) {
            (Quantity::Bandwidth { .. }, None) => self.copying,
            (_, None) => return None,
            (_, Some(name)) => {
                let told = self.workload.rows.iter().position(|other| other.name == *name)?;
                self.svmio(told, None)
            }
        };
        Some((limit, quantity.ratio(self.svmio(row, None), limit)))
    }

    /// What is aimed at, with what was measured.
    pub fn aims(&self) -> Vec<Aim> {
        let of_row = |(number, row): (usize, &Row)| {
            let what = format!(
                "{}: {}, {} ranks, {}",
                self.workload.title,
                row.name,
                self.workload.ranks,
                self.kind.name()
            );
            let of_goal = move |goal: &Goal| match *goal {
                Goal::TimesStock(times) => Aim::at_least(
                    format!("{what}: times the best stock driver"),
                    self.ratio(number, None),
                    times,
                    times * FAR,
                ),
                Goal::OfCopying(share) => Aim::at_least(
                    format!("{what}: of what the cores copy"),
                    self.of_copying(number),
                    share,
                    share * FAR,
                ),
                Goal::AtMost(most) => Aim::at_most(
                    format!("{what}, {}", row.quantity.unit()),
                    self.worst_of_svmio(number),
                    most,
                    most / FAR,
                ),
                Goal::TimesRow { times, row: other } => Aim::at_most(
                    format!("{what}: its time over that of {other}"),
                    self.worst_over(number, other),
                    times,
                    times / FAR,
                ),
            };
            row.goals.iter().map(of_goal).collect::<Vec<_>>()
        };
        self.workload.rows.iter().enumerate().flat_map(of_row).collect()
    }

    /// What was wrong with runs: of svmio's, or of the others.
    pub fn faults(&self, of_svmio: bool) -> Vec<String> {
        let mut faults = Vec::new();
        for (keeper, runs) in self.runs.iter().filter(|(keeper, _)| keeper.is_svmio() == of_svmio) {
            // One run says what the others would.
            if let Some(fault) = runs.iter().find_map(|run| run.fault.as_ref()) {
                let (title, ranks) = (&self.workload.title, self.workload.ranks);
                faults.push(format!("{title}, {ranks} ranks, {}: {fault}", keeper.name()));
            }
        }
        faults
    }

    fn best(&self, row: usize, which: impl Fn(&Keeper) -> bool) -> f64 {
        let keepers = (0..self.runs.len()).filter(|keeper| which(&self.runs[*keeper].0));
        self.workload.rows[row].quantity.best(keepers.map(|keeper| self.of_keeper(keeper, row)))
    }

    /// A limit holds under every MPI.
    fn worst_of_svmio(&self, row: usize) -> f64 {
        worst(self.of_svmio().map(|runs| self.counted(runs, row)))
    }

    /// The same for a row over another one. The two are compared within a run: they are measured in turn there.
    fn worst_over(&self, row: usize, other: &str) -> f64 {
        let Some(other) = self.workload.rows.iter().position(|row| row.name == other) else {
            return f64::NAN;
        };
        let ratio = |run: &Run| run.numbers[row] / run.numbers[other];
        let quantity = self.workload.rows[row].quantity;
        worst(self.of_svmio().map(|runs| self.counting.of(quantity, runs.iter().map(ratio))))
    }

    fn of_svmio(&self) -> impl Iterator<Item = &[Run]> {
        self.runs.iter().filter(|(keeper, _)| keeper.is_svmio()).map(|(_, runs)| runs.as_slice())
    }
}

/// The largest; what failed is worse than anything.
fn worst(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers
        .fold(0.0, |worst: f64, own| if worst.is_nan() || own.is_nan() { f64::NAN } else { worst.max(own) })
}

/// The share of an aim that is missed by far.
const FAR: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(numbers: [[f64; 3]; 5], quantity: Quantity, goals: Vec<Goal>) -> Outcome {
        let workload = Workload {
            program: "small",
            title: "small".to_owned(),
            arguments: vec![],
            ranks: 2,
            rows: vec![Row::new("write", quantity).with_goals(goals)],
            is_compared: true,
            point: None,
            moved: 0,
        };
        let runs_of =
            |numbers: [f64; 3]| numbers.map(|number| Run { numbers: vec![number], fault: None }).to_vec();
        let runs = Keeper::all().into_iter().zip(numbers.map(runs_of)).collect();
        Outcome::new(Kind::Shm, workload, runs, vec![90.0, 100.0, 110.0])
    }

    #[test]
    fn the_best_of_svmio_is_beside_the_best_of_the_others() {
        let numbers = [[50.0, 60.0, 70.0], [40.0; 3], [30.0, 10.0, 20.0], [f64::NAN; 3], [10.0; 3]];
        let goals = vec![Goal::TimesStock(3.0), Goal::OfCopying(0.5)];
        let outcome = outcome(numbers, Quantity::Bandwidth { bytes: 1 }, goals);
        assert_eq!(outcome.ratio(0, None), 3.0);
        assert_eq!(outcome.ratio(0, Some(Mpi::DebianMpich)), 3.0);
        assert_eq!(outcome.ratio(0, Some(Mpi::DebianOpenMpi)), 4.0);
        let measured: Vec<f64> = outcome.aims().iter().map(|aim| aim.measured).collect();
        assert_eq!(measured, [3.0, 0.6]);
        let undisturbed = Outcome { counting: Counting::Best, ..outcome };
        assert_eq!(undisturbed.ratio(0, None), 70.0 / 30.0);
    }

    #[test]
    fn who_reads_something_else_than_was_written_has_no_numbers() {
        let goals = vec![Goal::TimesStock(3.0)];
        let mut of = outcome([[1.0; 3]; 5], Quantity::Seconds, goals);
        let run = |output: &str| Run::told(&of.workload, &Told::parse("small".to_owned(), output));
        let (good, wrong) = (run("write 2.0\nwrong 0\n"), run("write 0.5\nwrong 3\n"));
        assert_eq!((good.numbers, good.fault), (vec![2.0], None));
        assert!(wrong.fault.as_ref().unwrap().starts_with("3 words"));
        // The fastest stock driver.
        of.runs[2].1 = vec![wrong.clone(), wrong.clone(), wrong.clone()];
        assert!(of.of_keeper(2, 0).is_nan());
        assert_eq!((of.stock(0, None), of.aims()[0].measured), (1.0, 1.0));
        assert_eq!((of.faults(false).len(), of.faults(true).len()), (1, 0));
        of.runs[0].1[1] = wrong.clone();
        of.runs[1].1[1] = wrong;
        assert!(of.aims()[0].measured.is_nan());
    }

    #[test]
    fn a_limit_is_kept_by_the_worst() {
        let of = |second| {
            let goals = vec![Goal::AtMost(64.0)];
            outcome([[10.0; 3], second, [1.0; 3], [1.0; 3], [1.0; 3]], Quantity::Mebibytes, goals).aims()
        };
        assert_eq!(of([70.0; 3])[0].measured, 70.0);
        assert!(of([70.0, f64::NAN, 70.0])[0].measured.is_nan());
    }

    #[test]
    fn rows_are_compared_within_each_run() {
        let row = |name| Row::new(name, Quantity::Microseconds);
        let goals = vec![Goal::TimesRow { times: 1.1, row: "independent" }];
        let mut of = outcome([[0.0; 3]; 5], Quantity::Microseconds, vec![]);
        of.workload.rows = vec![row("independent"), row("collective").with_goals(goals)];
        // The machine's speed changes from run to run; the stock drivers' rows do not count.
        let runs = [[1.0, 1.0], [4.0, 4.4], [2.0, 3.0]];
        for (keeper, own) in of.runs.iter_mut() {
            let slower = if keeper.is_svmio() { 1.0 } else { 9.0 };
            *own = runs.map(|[one, other]| Run { numbers: vec![one, other * slower], fault: None }).to_vec();
        }
        assert!((of.aims()[0].measured - 1.1).abs() < 1e-9);
        // Under one of the MPIs.
        of.runs[1].1[0].numbers[1] = 2.0;
        assert_eq!(of.aims()[0].measured, 1.5);
        of.counting = Counting::Best;
        assert_eq!(of.aims()[0].measured, 1.1);
        of.runs[0].1[0].numbers[1] = f64::NAN;
        assert!(of.aims()[0].measured.is_nan());
    }
}
