//! What the adapters make of an MPI program's collectives, as tables.

use serde_json::{Value, json};
use svmio_tests::Mpi;

use super::{Contender, Doer, Run};
use crate::aims::Aim;
use crate::collectives::{Conditions, report};
use crate::interleaved::median;
use crate::phase::Phase;

/// How far the two adapters may be from each other.
const NEAR: f64 = 1.05;

/// What is too far: with two cores, some collectives take one or the other of two times, from job to job.
const FAR: f64 = 3.0;

/// All runs with one number of ranks.
#[derive(Debug)]
pub struct Outcome {
    /// How many.
    pub ranks: u32,
    /// Beside what.
    pub conditions: Conditions,
    /// What was measured.
    pub names: Vec<&'static str>,
    /// Who took part, with the runs.
    pub runs: Vec<(Contender, Vec<Run>)>,
    /// How fast the machine was just before.
    pub phase: Phase,
}

impl Outcome {
    /// What went wrong in runs with svmio's collectives, and in those with an MPI's own.
    pub fn faults(&self) -> [Vec<&str>; 2] {
        let of = |is_stock: bool| {
            let chosen =
                self.runs.iter().filter(|(contender, _)| (contender.doer == Doer::Stock) == is_stock);
            chosen.flat_map(|(_, runs)| runs).filter_map(|run| run.fault.as_deref()).collect()
        };
        [of(false), of(true)]
    }

    /// What is aimed at, where nothing else runs.
    pub fn aims(&self) -> Vec<Aim> {
        let ratios = (0..self.names.len()).map(|name| {
            let what = format!("{}, by an adapter", self.title(name));
            report::aim(what, self.names[name], self.ranks, self.ratio(name))
        });
        let nearness = (0..self.names.len()).filter_map(|name| {
            let ratio = self.component_over_preload(name)?;
            let what = format!("{}: the adapters' times, the larger over the smaller", self.title(name));
            Some(Aim::at_most(what, ratio.max(1.0 / ratio), NEAR, FAR))
        });
        ratios.chain(nearness).collect()
    }

    fn title(&self, name: usize) -> String {
        format!("{}, {} ranks{}", self.names[name], self.ranks, self.conditions.beside())
    }

    /// Seconds of a contender, of the runs that have not failed; not a number where half of the runs or more have.
    fn median(&self, contender: usize, name: usize) -> f64 {
        let runs = &self.runs[contender].1;
        let good: Vec<f64> =
            runs.iter().map(|run| run.seconds[name]).filter(|seconds| !seconds.is_nan()).collect();
        if 2 * good.len() > runs.len() { median(good) } else { f64::NAN }
    }

    /// The shortest time of those that `is_one` chooses.
    fn best(&self, name: usize, is_one: impl Fn(&Contender) -> bool) -> f64 {
        let chosen = (0..self.runs.len()).filter(|&contender| is_one(&self.runs[contender].0));
        chosen.map(|contender| self.median(contender, name)).fold(f64::NAN, f64::min)
    }

    /// svmio's best time over the best of the MPIs' own.
    fn ratio(&self, name: usize) -> f64 {
        self.best(name, |one| one.doer != Doer::Stock) / self.best(name, |one| one.doer == Doer::Stock)
    }

    /// svmio's best time with an MPI over that MPI's own.
    fn ratio_with(&self, mpi: Mpi, name: usize) -> f64 {
        let ours = self.best(name, |one| one.mpi() == mpi && one.doer != Doer::Stock);
        ours / self.best(name, |one| one.mpi() == mpi && one.doer == Doer::Stock)
    }

    /// The component's time over that of preload with the same MPI; `None` where only one of them was run.
    fn component_over_preload(&self, name: usize) -> Option<f64> {
        let (component, _) = self.runs.iter().find(|(one, _)| one.doer == Doer::Component)?;
        let of = |doer| self.best(name, |one| one.mpi() == component.mpi() && one.doer == doer);
        let ratio = of(Doer::Component) / of(Doer::Preload);
        (!of(Doer::Preload).is_nan()).then_some(ratio)
    }
}

/// The table, in Markdown; times in microseconds.
pub fn markdown(outcomes: &[Outcome]) -> String {
    let Some(first) = outcomes.first() else { return String::new() };
    let mut columns = vec![String::new(), "ranks".to_owned()];
    columns.extend(first.runs.iter().map(|(contender, _)| contender.name()));
    columns.extend(["**best / best**", "component / preload", ""].map(str::to_owned));
    let mut text = format!("| {} |\n|--|{}--|\n", columns.join(" | "), "--:|".repeat(columns.len() - 2));
    for outcome in outcomes {
        for (at, name) in outcome.names.iter().enumerate() {
            let mut cells = vec![format!("{name}{}", outcome.conditions.beside()), outcome.ranks.to_string()];
            cells.extend((0..outcome.runs.len()).map(|contender| shown(outcome.median(contender, at) * 1e6)));
            cells.push(format!("**{}**", shown(outcome.ratio(at))));
            cells.push(outcome.component_over_preload(at).map(shown).unwrap_or_default());
            cells.push(outcome.phase.to_string());
            text += &format!("| {} |\n", cells.join(" | "));
        }
    }
    text
}

/// The same for programs, with every run.
pub fn json(outcomes: &[Outcome]) -> Value {
    let of_contender = |outcome: &Outcome, contender: usize| {
        let (who, runs) = &outcome.runs[contender];
        let of_name = |(at, name): (usize, &&'static str)| {
            let seconds: Vec<_> = runs.iter().map(|run| finite(run.seconds[at])).collect();
            ((*name).to_owned(), json!({ "median": finite(outcome.median(contender, at)), "runs": seconds }))
        };
        let seconds: serde_json::Map<_, _> = outcome.names.iter().enumerate().map(of_name).collect();
        let faults: Vec<_> = runs.iter().filter_map(|run| run.fault.as_deref()).collect();
        json!({ "contender": who.name(), "seconds": seconds, "faults": faults })
    };
    let of_outcome = |outcome: &Outcome| {
        let mut mpis: Vec<Mpi> = outcome.runs.iter().map(|(contender, _)| contender.mpi()).collect();
        mpis.sort_by_key(|mpi| mpi.name());
        mpis.dedup();
        let ratios = |(at, name): (usize, &&'static str)| {
            let own = mpis.iter().map(|&mpi| (mpi.to_string(), json!(finite(outcome.ratio_with(mpi, at)))));
            let ratios = json!({
                "best": finite(outcome.ratio(at)),
                "own": own.collect::<serde_json::Map<_, _>>(),
                "component_over_preload": outcome.component_over_preload(at).and_then(finite),
            });
            ((*name).to_owned(), ratios)
        };
        json!({
            "ranks": outcome.ranks,
            "busy": outcome.conditions.is_busy,
            "sessions": outcome.conditions.has_sessions,
            "line_round_trip_ns": outcome.phase.round_trip_ns,
            "copy_gb_per_s": outcome.phase.copy_gb_per_s,
            "contenders": (0..outcome.runs.len()).map(|at| of_contender(outcome, at)).collect::<Vec<_>>(),
            "ratios": outcome.names.iter().enumerate().map(ratios).collect::<serde_json::Map<_, _>>(),
            "aims": outcome.aims().iter().map(|aim| json!({
                "what": aim.what, "measured": finite(aim.measured), "aim": aim.aim,
            })).collect::<Vec<_>>(),
        })
    };
    json!({ "measurements": outcomes.iter().map(of_outcome).collect::<Vec<_>>() })
}

fn shown(number: f64) -> String {
    if number.is_nan() { "failed".to_owned() } else { format!("{number:.2}") }
}

/// JSON has no NaN.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use svmio_tests::Program;

    use super::*;

    fn outcome(seconds: &[(Mpi, Doer, &[f64])]) -> Outcome {
        let of_contender = |&(mpi, doer, seconds): &(Mpi, Doer, &[f64])| {
            let run = |&seconds: &f64| match seconds.is_nan() {
                true => Run::failed(&["barrier"], format!("{mpi} failed")),
                false => Run { seconds: vec![seconds], fault: None },
            };
            let program = Program { mpi, path: "program".into() };
            (Contender { program, doer }, seconds.iter().map(run).collect())
        };
        Outcome {
            ranks: 8,
            conditions: Conditions::default(),
            names: vec!["barrier"],
            runs: seconds.iter().map(of_contender).collect(),
            phase: Phase { round_trip_ns: 100.0, copy_gb_per_s: 10.0 },
        }
    }

    #[test]
    fn the_best_of_each_side_are_compared_and_the_adapters_with_each_other() {
        let outcome = outcome(&[
            (Mpi::DebianMpich, Doer::Stock, &[10.0, 8.0, f64::NAN]),
            (Mpi::DebianOpenMpi, Doer::Stock, &[12.0, 10.0, 11.0]),
            (Mpi::DebianMpich, Doer::Preload, &[f64::NAN, 1.0, f64::NAN]),
            (Mpi::DebianOpenMpi, Doer::Preload, &[4.5, 4.5, 4.5]),
            (Mpi::DebianOpenMpi, Doer::Component, &[9.0, 9.0, 9.0]),
        ]);
        assert_eq!(outcome.ratio(0), 0.5);
        assert!(outcome.ratio_with(Mpi::DebianMpich, 0).is_nan());
        assert_eq!(outcome.component_over_preload(0), Some(2.0));
        let aims: Vec<_> = outcome.aims().iter().map(|aim| (aim.measured, aim.aim)).collect();
        assert_eq!(aims, [(0.5, 0.5), (2.0, NEAR)]);
        assert_eq!(outcome.faults().map(|faults| faults.len()), [2, 1]);
    }

    #[test]
    fn without_a_component_there_is_nothing_to_compare_it_with() {
        let outcome =
            outcome(&[(Mpi::DebianMpich, Doer::Stock, &[2.0]), (Mpi::DebianMpich, Doer::Preload, &[1.0])]);
        assert_eq!(outcome.component_over_preload(0), None);
        assert_eq!(outcome.aims().len(), 1);
    }

    #[test]
    fn a_line_has_as_many_cells_as_the_head() {
        let table = markdown(&[outcome(&[(Mpi::DebianMpich, Doer::Stock, &[f64::NAN])])]);
        let cells: Vec<_> = table.lines().map(|line| line.matches('|').count()).collect();
        assert_eq!(cells, [cells[0]; 3]);
        assert!(table.contains("failed"));
    }
}
