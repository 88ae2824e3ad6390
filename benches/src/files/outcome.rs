//! What came of a workload: medians of all keepers, and how svmio's are beside the others'.

use svmio_tests::Mpi;

use super::keeper::Keeper;
use super::place::Kind;
use super::workload::{Goal, Quantity, Row, Workload};
use crate::aims::Aim;
use crate::interleaved::median;

/// A run: what is shown of each row, and what was wrong with it.
#[derive(Debug, Clone)]
pub struct Run {
    /// In the order of the workload's rows; NaN where it failed.
    pub numbers: Vec<f64>,
    /// Where it failed, or where something else was read than was written.
    pub fault: Option<String>,
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
}

impl Outcome {
    /// Of all runs; `copying` was measured beside them.
    pub fn new(kind: Kind, workload: Workload, runs: Vec<(Keeper, Vec<Run>)>, copying: Vec<f64>) -> Outcome {
        Outcome { kind, workload, runs, copying: median(copying) }
    }

    /// A keeper's median of the row with this number; NaN where a run failed.
    pub fn median_of(&self, keeper: usize, row: usize) -> f64 {
        let numbers: Vec<f64> = self.runs[keeper].1.iter().map(|run| run.numbers[row]).collect();
        if numbers.iter().any(|number| number.is_nan()) { f64::NAN } else { median(numbers) }
    }

    /// The best median of svmio's, under one MPI or any.
    pub fn svmio(&self, row: usize, mpi: Option<Mpi>) -> f64 {
        self.best(row, |keeper| keeper.is_svmio() && mpi.is_none_or(|mpi| keeper.mpi == mpi))
    }

    /// The best median of a stock driver's, of one MPI or any.
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
        self.workload.rows[row].quantity.best(keepers.map(|keeper| self.median_of(keeper, row)))
    }

    /// A limit holds under every MPI.
    fn worst_of_svmio(&self, row: usize) -> f64 {
        let of_svmio = (0..self.runs.len()).filter(|keeper| self.runs[*keeper].0.is_svmio());
        of_svmio.map(|keeper| self.median_of(keeper, row)).fold(0.0, |worst: f64, own| {
            // What failed is worse than anything.
            if own.is_nan() { f64::NAN } else { worst.max(own) }
        })
    }
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
}
