//! What was measured, as tables.

use serde_json::{Value, json};

use super::{Conditions, XHCS_DESIGN, has_in_design};
use crate::aims::Aim;
use crate::phase::Phase;

/// The medians of all contenders with one number of ranks.
#[derive(Debug)]
pub struct Outcome {
    /// How many.
    pub ranks: u32,
    /// Beside what.
    pub conditions: Conditions,
    /// What was measured.
    pub names: Vec<&'static str>,
    /// Who took part, svmio first.
    pub contenders: Vec<&'static str>,
    /// Seconds, for each contender and name.
    pub seconds: Vec<Vec<f64>>,
    /// How fast the machine was just before.
    pub phase: Phase,
}

impl Outcome {
    /// svmio's time over that of the best MPI; not a number where there are none.
    pub fn ratio(&self, name: usize) -> f64 {
        self.ratio_to(name, |contender| contender != XHCS_DESIGN)
    }

    /// svmio's time over that of XHC's design; not a number where that did not take part, or has no such collective.
    pub fn ratio_to_design(&self, name: usize) -> f64 {
        self.ratio_to(name, |contender| contender == XHCS_DESIGN)
    }

    fn ratio_to(&self, name: usize, is_meant: impl Fn(&str) -> bool) -> f64 {
        let others = self.contenders.iter().zip(&self.seconds).skip(1);
        let others = others.filter(|(contender, _)| is_meant(contender)).map(|(_, seconds)| seconds[name]);
        others.reduce(f64::min).map_or(f64::NAN, |best| self.seconds[0][name] / best)
    }

    /// What is aimed at, where nothing else runs; nothing where svmio is alone.
    pub fn aims(&self) -> Vec<Aim> {
        let of_name = |(at, name): (usize, &&'static str)| {
            let what = format!("{name}, {} ranks{}", self.ranks, self.conditions.beside());
            // What could not be measured is an aim as well, and missed; what nobody was to do is none.
            let has_mpi = self.contenders[1..].iter().any(|contender| *contender != XHCS_DESIGN);
            let has_design = self.contenders.contains(&XHCS_DESIGN) && has_in_design(name);
            let aims = [
                has_mpi.then(|| aim(what.clone(), name, self.ranks, self.ratio(at))),
                has_design.then(|| {
                    let ratio = self.ratio_to_design(at);
                    Aim::at_most(format!("{what}: time, of that of XHC's design"), ratio, 1.0, 3.0)
                }),
            ];
            aims.into_iter().flatten()
        };
        self.names.iter().enumerate().flat_map(of_name).collect()
    }
}

/// What is aimed at for a collective of so many ranks whose time is `ratio` of the best other one.
pub(super) fn aim(what: String, name: &str, ranks: u32, ratio: f64) -> Aim {
    match name {
        "barrier" | "allreduce" => {
            let most = match ranks {
                0..=2 => 1.0,
                3..=4 => 0.8,
                5..=8 => 0.5,
                _ => 0.3,
            };
            Aim::at_most(format!("{what}: time"), ratio, most, 2.0 * most)
        }
        _ => Aim::at_least(format!("{what}: times as fast"), 1.0 / ratio, 1.3, 0.7),
    }
}

/// The table, in Markdown; times in microseconds.
pub fn markdown(outcomes: &[Outcome]) -> String {
    let Some(first) = outcomes.first() else { return String::new() };
    let mut text = format!(
        "| | ranks | {} | svmio / best MPI | / XHC's design | |\n|--|--:|",
        first.contenders.join(" | ")
    );
    text += &"--:|".repeat(first.contenders.len());
    text += "--:|--:|--|\n";
    for outcome in outcomes {
        for (at, name) in outcome.names.iter().enumerate() {
            text += &format!("| {name}{} | {} |", outcome.conditions.beside(), outcome.ranks);
            for seconds in &outcome.seconds {
                text += &format!(" {} |", told(seconds[at] * 1e6));
            }
            let [best, design] = [outcome.ratio(at), outcome.ratio_to_design(at)].map(told);
            text += &format!(" {best} | {design} | {} |\n", outcome.phase);
        }
    }
    text
}

fn told(number: f64) -> String {
    if number.is_nan() { "-".into() } else { format!("{number:.2}") }
}

/// The same for programs.
pub fn json(outcomes: &[Outcome]) -> Value {
    let of_outcome = |outcome: &Outcome| {
        let of_contender = |(name, seconds): (&&str, &Vec<f64>)| {
            let seconds: serde_json::Map<_, _> = outcome
                .names
                .iter()
                .zip(seconds)
                .map(|(name, seconds)| ((*name).into(), json!(seconds)))
                .collect();
            json!({ "contender": name, "seconds": seconds })
        };
        let aims = outcome.aims();
        json!({
            "ranks": outcome.ranks,
            "busy": outcome.conditions.is_busy,
            "sessions": outcome.conditions.has_sessions,
            "line_round_trip_ns": outcome.phase.round_trip_ns,
            "copy_gb_per_s": outcome.phase.copy_gb_per_s,
            "contenders": outcome.contenders.iter().zip(&outcome.seconds).map(of_contender).collect::<Vec<_>>(),
            "aims": aims.iter().map(|aim| json!({
                "what": aim.what, "measured": aim.measured, "aim": aim.aim,
            })).collect::<Vec<_>>(),
        })
    };
    json!({ "measurements": outcomes.iter().map(of_outcome).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_measured_is_an_aim_that_is_missed() {
        let of = |contenders: &[&'static str], seconds: &[[f64; 2]]| {
            let outcome = Outcome {
                ranks: 2,
                conditions: Conditions::default(),
                names: vec!["barrier", "allgather"],
                contenders: contenders.to_vec(),
                seconds: seconds.iter().map(|seconds| seconds.to_vec()).collect(),
                phase: Phase { round_trip_ns: 100.0, copy_gb_per_s: 10.0 },
            };
            outcome.aims().iter().map(|aim| aim.measured).collect::<Vec<_>>()
        };
        let failed = f64::NAN;
        let all = of(&["svmio", "mpich", XHCS_DESIGN], &[[1.0, 1.0], [2.0, failed], [failed, failed]]);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0], 0.5);
        assert!(all[1].is_nan() && all[2].is_nan());
        assert_eq!(of(&["svmio", XHCS_DESIGN], &[[1.0, 1.0], [2.0, failed]]), [0.5]);
        assert!(of(&["svmio"], &[[1.0, 1.0]]).is_empty());
    }
}
