//! The demonstration: ROMIO's `coll_perf` on svmio's files and on stock MPI-IO, in one table.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::build;
use crate::launcher::{Job, Launcher, cores};
use crate::mpi::Mpi;
use crate::paths::{self, Paths};
use crate::process;
use crate::romio::compile;
use crate::romio::programs::PROGRAMS;
use crate::{setup, table};

/// Runs of each kind, alternating, so that the machine's moods fall on all alike; medians count.
const ROUNDS: usize = 5;

/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(300);

/// An array of 256 cubed integers, 64 MiB, in place of the 14 GB of the program as shipped.
const ARRAY: &[(&str, &str)] = &[("128 * 17", "256"), ("128 * 9", "256"), ("128 * 11", "256")];

/// Megabytes (2^20) a second that one run reached.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bandwidth {
    write: f64,
    read: f64,
}

/// Sets up, builds, measures and prints.
pub(crate) fn run(paths: &Paths) -> Result<()> {
    setup::run()?;
    build::run(paths)?;
    Launcher::Svm.check(paths)?;
    let program = PROGRAMS.iter().find(|program| program.name == "coll_perf").context("no coll_perf")?;
    let mut kinds: Vec<(Mpi, Launcher, PathBuf)> = Vec::new();
    for mpi in Mpi::DEBIAN {
        let executable = paths.target().join("demo").join(mpi.name()).join(program.name);
        compile::variant(paths, mpi, program, ARRAY, &executable)?;
        kinds.extend(Launcher::BOTH.map(|launcher| (mpi, launcher, executable.clone())));
    }
    let ranks = u32::try_from(cores().clamp(2, 4)).unwrap_or(2);
    println!("demo: coll_perf, 256^3 integers, {ranks} ranks, medians of {ROUNDS} runs each");
    let mut results: Vec<Vec<Bandwidth>> = vec![Vec::new(); kinds.len()];
    for _ in 0..ROUNDS {
        for ((mpi, launcher, executable), results) in kinds.iter().zip(&mut results) {
            results.push(measure(paths, *mpi, *launcher, ranks, executable)?);
        }
    }
    let median_of = |mpi: Mpi, launcher: Launcher, part: fn(&Bandwidth) -> f64| {
        kinds
            .iter()
            .zip(&results)
            .find(|((m, l, _), _)| (*m, *l) == (mpi, launcher))
            .map_or(f64::NAN, |(_, results)| median(results.iter().map(part).collect()))
    };
    let mut rows = Vec::new();
    for mpi in Mpi::DEBIAN {
        let mut row = vec![mpi.name().to_owned()];
        for part in [|b: &Bandwidth| b.write, |b: &Bandwidth| b.read] {
            let stock = median_of(mpi, Launcher::Stock, part);
            let svm = median_of(mpi, Launcher::Svm, part);
            row.extend([format!("{stock:.0}"), format!("{svm:.0}"), format!("{:.2}", svm / stock)]);
        }
        rows.push(row);
    }
    let head = ["MiB/s", "write stock", "write svm", "ratio", "read stock", "read svm", "ratio"];
    println!("{}", table::render(&head.map(String::from), &rows));
    Ok(())
}

fn measure(paths: &Paths, mpi: Mpi, launcher: Launcher, ranks: u32, executable: &Path) -> Result<Bandwidth> {
    let scratch = paths::scratch("demo").context("cannot make a folder for the run")?;
    let file = match launcher {
        Launcher::Stock => scratch.path().join("coll_perf.dat").display().to_string(),
        _ => "svm:/demo/coll_perf.dat".to_owned(),
    };
    let job = Job {
        mpi,
        launcher,
        ranks,
        program: executable,
        arguments: vec!["-fname".into(), file.into()],
        folder: scratch.path(),
    };
    let log = executable.with_extension(format!("{}.log", launcher.name()));
    let finished = process::run_limited(&mut job.command(paths)?, LIMIT, &log)?;
    match (finished.succeeded(), bandwidth(&finished.output)) {
        (true, Some(bandwidth)) => Ok(bandwidth),
        _ => {
            let (mpi, launcher) = (mpi.name(), launcher.name());
            bail!("coll_perf with {mpi} on {launcher}: {}", finished.complaint("failed"))
        }
    }
}

fn bandwidth(output: &str) -> Option<Bandwidth> {
    let after =
        |words: &str| -> Option<f64> { output.split_once(words)?.1.split_whitespace().next()?.parse().ok() };
    Some(Bandwidth {
        write: after("Collective write bandwidth = ")?,
        read: after("Collective read bandwidth = ")?,
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_read_off_the_output() {
        let output = "Global array size 256 x 256 x 256 integers\n\
            Collective write time = 0.5 sec, Collective write bandwidth = 128.25 Mbytes/sec\n\
            Collective read time = 0.25 sec, Collective read bandwidth = 256.5 Mbytes/sec\n";
        assert_eq!(bandwidth(output), Some(Bandwidth { write: 128.25, read: 256.5 }));
        assert_eq!(bandwidth("nothing"), None);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![5.0, 1.0, 3.0]), 3.0);
    }
}
