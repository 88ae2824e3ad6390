//! The table of all that was measured, as Markdown and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use svmio_tests::Mpi;

use super::keeper::Keeper;
use super::outcome::Outcome;
use super::workload::Goal;

/// The table's first lines, in Markdown.
pub fn head() -> String {
    let mut columns =
        vec!["on".to_owned(), "what".to_owned(), "ranks".to_owned(), String::new(), String::new()];
    columns.extend(Keeper::all().iter().map(Keeper::name));
    columns.extend(Mpi::DEBIAN.map(|mpi| format!("ratio, {mpi}")));
    columns.extend(["**ratio, best**", "aim", "limit", "share of it"].map(String::from));
    let left = "|---|---|--:|---|---|";
    let right = "--:|".repeat(columns.len() - 5);
    format!("| {} |\n{left}{right}", columns.join(" | "))
}

/// Its lines for a workload.
pub fn lines(outcome: &Outcome) -> String {
    let mut text = String::new();
    let workload = &outcome.workload;
    for (number, row) in workload.rows.iter().enumerate() {
        let mut cells = vec![outcome.kind.name().to_owned(), workload.title.clone()];
        cells.extend([workload.ranks.to_string(), row.name.to_owned(), row.quantity.unit().to_owned()]);
        for keeper in 0..Keeper::all().len() {
            let is_there = keeper < outcome.runs.len();
            cells.push(if is_there { short(outcome.of_keeper(keeper, number)) } else { String::new() });
        }
        cells.extend(Mpi::DEBIAN.map(|mpi| ratio(outcome.ratio(number, Some(mpi)))));
        cells.push(format!("**{}**", ratio(outcome.ratio(number, None))));
        cells.push(row.goals.iter().map(goal).collect::<Vec<_>>().join(", "));
        match outcome.limit(number) {
            Some((limit, share)) => cells.extend([short(limit), format!("{:.0} %", share * 100.0)]),
            None => cells.extend([String::new(), String::new()]),
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// What went wrong, below the table: of stock drivers first.
pub fn faults(outcomes: &[Outcome]) -> String {
    let of = |of_svmio, what: &'static str| {
        let faults = outcomes.iter().flat_map(move |outcome| outcome.faults(of_svmio));
        faults.map(move |fault| format!("\n{what}: {fault}\n"))
    };
    of(false, "A stock driver's fault").chain(of(true, "FAILED")).collect()
}

/// All of it, with every run, and of which [build](super::earlier::build); and what was measured before and still counts.
pub fn json<'v>(outcomes: &[Outcome], build: &str, earlier: impl Iterator<Item = &'v Value>) -> Value {
    let of_row = |outcome: &Outcome, number: usize| {
        let row = &outcome.workload.rows[number];
        let of_keeper = |(keeper, (who, runs)): (usize, &(Keeper, Vec<super::outcome::Run>))| {
            json!({
                "keeper": who.name(),
                (outcome.counting.name()): finite(outcome.of_keeper(keeper, number)),
                "runs": runs.iter().map(|run| finite(run.numbers[number])).collect::<Vec<_>>(),
                "faults": runs.iter().filter_map(|run| run.fault.as_deref()).collect::<Vec<_>>(),
            })
        };
        json!({
            "name": row.name,
            "unit": row.quantity.unit(),
            "keepers": outcome.runs.iter().enumerate().map(of_keeper).collect::<Vec<_>>(),
            "ratio": finite(outcome.ratio(number, None)),
            "ratio_mpich": finite(outcome.ratio(number, Some(Mpi::DebianMpich))),
            "ratio_openmpi": finite(outcome.ratio(number, Some(Mpi::DebianOpenMpi))),
        })
    };
    let of_outcome = |outcome: &Outcome| {
        let workload = &outcome.workload;
        let aims = outcome.aims();
        json!({
            "on": outcome.kind.name(),
            "program": workload.program,
            "arguments": workload.arguments,
            "title": workload.title,
            "ranks": workload.ranks,
            "copying_mb_per_s": finite(outcome.copying),
            "rows": (0..workload.rows.len()).map(|row| of_row(outcome, row)).collect::<Vec<_>>(),
            "aims": aims.iter().map(|aim| json!({
                "what": aim.what, "measured": finite(aim.measured), "aim": aim.aim
            })).collect::<Vec<_>>(),
        })
    };
    json!({ "build": build, "measurements": outcomes.iter().map(of_outcome).chain(earlier.cloned()).collect::<Vec<_>>() })
}

fn goal(goal: &Goal) -> String {
    match goal {
        Goal::TimesStock(times) => format!("{times}"),
        Goal::OfCopying(share) => format!("{:.0} % of copying", share * 100.0),
        Goal::AtMost(most) => format!("at most {most}"),
        Goal::TimesRow { times, row } => format!("at most {times} of {row}"),
    }
}

/// With three digits, or all that are before the point.
fn short(number: f64) -> String {
    if number.is_nan() {
        return "failed".to_owned();
    }
    let digits = match number.abs() {
        0.0..1.0 => 4,
        1.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{number:.digits$}")
}

fn ratio(number: f64) -> String {
    if number.is_nan() { "-".to_owned() } else { format!("{number:.2}") }
}

/// JSON has no NaN.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        let numbers = [0.0312, 4.5678, 12.345, 6590.4, f64::NAN].map(short);
        assert_eq!(numbers, ["0.0312", "4.57", "12.3", "6590", "failed"]);
        assert_eq!(goal(&Goal::OfCopying(0.75)), "75 % of copying");
    }

    #[test]
    fn a_line_has_as_many_cells_as_the_head() {
        let columns = |line: &str| line.matches('|').count();
        let head = head();
        let counts: Vec<usize> = head.lines().map(columns).collect();
        assert_eq!(counts[0], counts[1]);
    }
}
