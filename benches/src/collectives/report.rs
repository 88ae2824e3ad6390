//! What was measured, as tables.

use serde_json::{Value, json};

use super::{Conditions, XHCS_DESIGN};
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
            let (ratio, to_design) = (self.ratio(at), self.ratio_to_design(at));
            let aims = [
                (!ratio.is_nan()).then(|| aim(what.clone(), name, self.ranks, ratio)),
                (!to_design.is_nan()).then(|| {
                    Aim::at_most(format!("{what}: time, of that of XHC's design"), to_design, 1.0, 3.0)
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
