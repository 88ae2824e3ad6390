//! What was measured, as tables.

use serde_json::{Value, json};

use super::Conditions;
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
    /// svmio's time over that of the best of the others; not a number where there are none.
    pub fn ratio(&self, name: usize) -> f64 {
        let others = self.seconds[1..].iter().map(|seconds| seconds[name]);
        others.reduce(f64::min).map_or(f64::NAN, |best| self.seconds[0][name] / best)
    }

    /// What is aimed at, where nothing else runs; nothing where svmio is alone.
    pub fn aims(&self) -> Vec<Aim> {
        if self.contenders.len() < 2 {
            return Vec::new();
        }
        let aim = |(at, name): (usize, &&'static str)| {
            let what = format!("{name}, {} ranks{}", self.ranks, self.conditions.beside());
            aim(what, name, self.ranks, self.ratio(at))
        };
        self.names.iter().enumerate().map(aim).collect()
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
    let mut text = format!("| | ranks | {} | svmio / best | |\n|--|--:|", first.contenders.join(" | "));
    text += &"--:|".repeat(first.contenders.len());
    text += "--:|--|\n";
    for outcome in outcomes {
        for (at, name) in outcome.names.iter().enumerate() {
            text += &format!("| {name}{} | {} |", outcome.conditions.beside(), outcome.ranks);
            for seconds in &outcome.seconds {
                text += &format!(" {:.2} |", seconds[at] * 1e6);
            }
            text += &format!(" {:.2} | {} |\n", outcome.ratio(at), outcome.phase);
        }
    }
    text
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
