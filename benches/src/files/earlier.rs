//! Going on with what an interrupted run has left: all of it takes hours, and each measurement is kept when it is done.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::Path;

use serde_json::Value;
use svmio_tests::{Installation, Program};

use super::keeper::Keeper;
use super::measuring::Measuring;
use super::outcome::{Outcome, Run};
use super::place::Kind;
use super::workload::{Row, Workload};
use crate::settings::Settings;

/// Tells builds apart: by what svmio's libraries and the benchmark and its programs are, and how svmio is set.
///
/// # Panics
/// Where a library or a program cannot be read.
pub fn build(programs: &[Program], settings: &Settings) -> String {
    let mut hasher = DefaultHasher::new();
    settings.hash(&mut hasher);
    let installation = Installation::get();
    for program in programs {
        for file in [&installation.library(program.mpi), &program.path] {
            read(file).hash(&mut hasher);
        }
    }
    // How it counts is a part of it.
    let own = std::env::current_exe().expect("a program that runs has a file");
    read(&own).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn read(file: &Path) -> Vec<u8> {
    fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// What was measured before.
#[derive(Debug, Default)]
pub struct Earlier {
    measurements: Vec<Value>,
}

impl Earlier {
    /// What was measured of this build, and kept in the directory under this [name](crate::figures::name); nothing,
    /// where there is none.
    ///
    /// # Errors
    /// Why that cannot be gone on with, and what to do.
    pub fn of(directory: &Path, name: &str, build: &str) -> Result<Earlier, String> {
        let file = directory.join(format!("{name}.json"));
        let Ok(text) = fs::read_to_string(&file) else { return Ok(Earlier::default()) };
        let failed = |why: &str| format!("{} {why}: remove it, or measure without --resume", file.display());
        let kept: Value =
            serde_json::from_str(&text).map_err(|error| failed(&format!("is damaged ({error})")))?;
        if kept["build"] != build {
            return Err(failed("is of another build of svmio, or of other settings"));
        }
        Ok(Earlier { measurements: kept["measurements"].as_array().cloned().unwrap_or_default() })
    }

    /// What has none of these outcomes yet: it is to be kept until it has.
    pub fn without<'s>(&'s self, outcomes: &'s [Outcome]) -> impl Iterator<Item = &'s Value> {
        let is_of = |measured: &Value, outcome: &Outcome| is_of(measured, outcome.kind, &outcome.workload);
        self.measurements
            .iter()
            .filter(move |measured| !outcomes.iter().any(|outcome| is_of(measured, outcome)))
    }

    /// What came of a workload, if it was measured as is wanted now, and nothing went wrong.
    pub fn outcome(&self, kind: Kind, workload: &Workload, how: &Measuring<'_>) -> Option<Outcome> {
        let measured = self.measurements.iter().find(|measured| is_of(measured, kind, workload))?;
        let runs = Keeper::of(workload).into_iter().enumerate().map(|(number, keeper)| {
            Some((keeper, runs(measured, workload, number, &keeper, how.repetitions)?))
        });
        Some(Outcome {
            kind,
            workload: workload.clone(),
            runs: runs.collect::<Option<_>>()?,
            copying: measured["copying_mb_per_s"].as_f64()?,
            counting: how.counting,
        })
    }
}

fn is_of(measured: &Value, kind: Kind, workload: &Workload) -> bool {
    measured["on"] == kind.name()
        && measured["program"] == workload.program
        && measured["title"] == workload.title.as_str()
        && measured["arguments"] == Value::from(workload.arguments.clone())
        && measured["ranks"] == workload.ranks
}

/// The runs for a keeper, the one with this number, if there are so many, all of them good.
fn runs(
    measured: &Value,
    workload: &Workload,
    number: usize,
    keeper: &Keeper,
    repetitions: usize,
) -> Option<Vec<Run>> {
    let of_row = |(place, row): (usize, &Row)| {
        let told = &measured["rows"][place];
        let of_keeper = &told["keepers"][number];
        let is_it = told["name"] == row.name && of_keeper["keeper"] == keeper.name().as_str();
        let numbers = of_keeper["runs"].as_array().filter(|runs| is_it && runs.len() == repetitions)?;
        numbers.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>()
    };
    let rows: Vec<Vec<f64>> = workload.rows.iter().enumerate().map(of_row).collect::<Option<_>>()?;
    let run = |number: usize| Run { numbers: rows.iter().map(|row| row[number]).collect(), fault: None };
    Some((0..repetitions).map(run).collect())
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Counting;
    use super::super::report;
    use super::super::workload::Quantity;
    use super::*;

    fn workload() -> Workload {
        Workload {
            program: "small",
            title: "small calls".to_owned(),
            arguments: vec!["64".to_owned()],
            ranks: 2,
            rows: ["write", "read"].map(|name| Row::new(name, Quantity::Microseconds)).to_vec(),
            is_compared: true,
            point: None,
            moved: 0,
        }
    }

    fn measured(fault: Option<&str>) -> Outcome {
        let runs = |keeper: usize| {
            let run = |number: usize| match fault {
                Some(fault) if (keeper, number) == (3, 1) => Run::failed(&workload(), fault.to_owned()),
                _ => Run { numbers: vec![keeper as f64 + 0.1, number as f64 + 0.3], fault: None },
            };
            (0..3).map(run).collect()
        };
        let all = Keeper::all().into_iter().enumerate().map(|(number, keeper)| (keeper, runs(number)));
        Outcome::new(Kind::Shm, workload(), all.collect(), vec![12.5])
    }

    fn how(repetitions: usize) -> Measuring<'static> {
        Measuring { programs: &[], repetitions, warms_memory: false, counting: Counting::Median }
    }

    fn kept(outcome: Outcome) -> (tempfile::TempDir, Earlier) {
        let directory = tempfile::tempdir().unwrap();
        let text = report::json(&[outcome], "b", std::iter::empty()).to_string();
        fs::write(directory.path().join("files.json"), text).unwrap();
        let earlier = Earlier::of(directory.path(), "files", "b").unwrap();
        (directory, earlier)
    }

    #[test]
    fn what_was_measured_is_as_it_was() {
        let (directory, earlier) = kept(measured(None));
        let found = earlier.outcome(Kind::Shm, &workload(), &how(3)).expect("it is there");
        let json = |outcome| report::json(&[outcome], "b", std::iter::empty());
        assert_eq!(json(found), json(measured(None)));
        assert!(Earlier::of(directory.path(), "files", "other").unwrap_err().contains("another build"));
        let nothing = Earlier::of(directory.path(), "other", "b").unwrap();
        assert!(nothing.outcome(Kind::Shm, &workload(), &how(3)).is_none());
    }

    #[test]
    fn what_is_another_measurement_is_not_taken() {
        let (_directory, earlier) = kept(measured(None));
        let found = |kind, workload: Workload, runs| earlier.outcome(kind, &workload, &how(runs)).is_some();
        assert!(!found(Kind::Disk, workload(), 3));
        assert!(!found(Kind::Shm, workload(), 5));
        assert!(!found(Kind::Shm, Workload { ranks: 4, ..workload() }, 3));
        assert!(!found(Kind::Shm, Workload { arguments: vec![], ..workload() }, 3));
        let one_row = Workload { rows: vec![Row::new("other", Quantity::Seconds)], ..workload() };
        assert!(!found(Kind::Shm, one_row, 3));
    }

    #[test]
    fn what_has_no_outcome_yet_is_kept() {
        let (_directory, earlier) = kept(measured(None));
        let of = |workload| Outcome { workload, ..measured(None) };
        let others = [of(Workload { ranks: 4, ..workload() })];
        let json = report::json(&others, "b", earlier.without(&others));
        let ranks = json["measurements"].as_array().unwrap().iter().map(|measured| &measured["ranks"]);
        assert_eq!(ranks.collect::<Vec<_>>(), [4, 2]);
        assert_eq!(earlier.without(&[measured(None)]).count(), 0);
    }

    #[test]
    fn what_failed_is_measured_again() {
        let (_directory, earlier) = kept(measured(Some("it fell over")));
        assert!(earlier.outcome(Kind::Shm, &workload(), &how(3)).is_none());
    }
}
