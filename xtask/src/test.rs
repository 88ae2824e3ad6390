//! The whole check: stages, each with its numbers of good and bad results.
//!
//! A further suite is a further row of [`ROUNDS`].
//!
//! ```text
//! rounds one after the other:   setup │ wheels │ fmt → clippy → doc → cargo-test │ mpi4py → ... → aims
//!                                     │ build  │ romio → coll → ... → benches   │
//! ```

mod apart;
mod counting;
mod failures;
mod programs;
mod results;

use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use counting::counted;
pub(crate) use counting::demand;

use crate::comparison::Tally;
use crate::mpi::Mpi;
use crate::paths::Paths;
use crate::process::computing;
use crate::suite::Selection;
use crate::{
    aims, build, coll, hdf5, hosts, mpi4py, mpich_io, process, promises, romio, setup, sources, table, wheels,
};

/// One stage of the check.
struct Stage {
    name: &'static str,
    /// Whether the stages after it make no sense when it fails.
    is_needed: bool,
    /// Whether it runs only when it is named, or in a soak.
    takes_long: bool,
    /// Whether it tests the installation in `target/svmio`, which is to be that of the present sources then.
    uses_installation: bool,
    /// Whether it uses what is in the virtual environments.
    uses_wheels: bool,
    run: fn(&Paths) -> Result<Tally>,
}

impl Stage {
    const fn new(name: &'static str, run: fn(&Paths) -> Result<Tally>) -> Self {
        Self { name, is_needed: false, takes_long: false, uses_installation: true, uses_wheels: false, run }
    }

    const fn of_sources(name: &'static str, run: fn(&Paths) -> Result<Tally>) -> Self {
        Self { uses_installation: false, ..Self::new(name, run) }
    }

    const fn needed(name: &'static str, run: fn(&Paths) -> Result<Tally>) -> Self {
        Self { is_needed: true, ..Self::of_sources(name, run) }
    }

    const fn long(name: &'static str, run: fn(&Paths) -> Result<Tally>) -> Self {
        Self { takes_long: true, ..Self::new(name, run) }
    }

    const fn with_wheels(self) -> Self {
        Self { uses_wheels: true, ..self }
    }
}

/// Stages that run one after the other.
type Queue = &'static [Stage];

/// Rounds, one after the other, of queues that run side by side: one that compiles, and so keeps the cores busy, beside
/// one that waits for most of its time. What measures runs alone, and so do HDF5's tests and mpi4py's: their ranks of Open MPI
/// poll, and take ten times as long beside others.
const ROUNDS: &[&[Queue]] = &[
    &[&[Stage::needed("setup", |paths| done(set_up(paths)))]],
    &[
        &[Stage::needed(WHEELS, |paths| done(wheels::run(paths)))],
        &[Stage::needed(BUILD, |paths| done(build::run(paths)))],
    ],
    &[
        &[
            Stage::of_sources("fmt", |paths| done(fmt(paths))),
            Stage::of_sources("clippy", |paths| done(clippy(paths))),
            Stage::of_sources("doc", |paths| done(doc(paths))),
            Stage::new("cargo-test", programs::run).with_wheels(),
        ],
        &[
            Stage::new("romio", |paths| romio::runs::run(paths, &Selection::short(), &[])).with_wheels(),
            Stage::new("coll", |paths| coll::runs::run(paths, &coll::runs::Selection::short())),
            Stage::new("romio-nodes", |paths| romio::runs::run(paths, &Selection::over_nodes(), &[])),
            Stage::of_sources("loom", loom),
            Stage::new("benches", |paths| done(promises::benches(paths))).with_wheels(),
        ],
    ],
    &[&[
        Stage::new("mpi4py", |paths| mpi4py::run(paths, &Selection::short())).with_wheels(),
        Stage::new("hdf5", |paths| {
            let short = Selection { short: true, ..Selection::on_one_node_and_over_nodes() };
            hdf5::runs::run(paths, &short)
        }),
        Stage::new("mpi4py-nodes", |paths| mpi4py::run(paths, &Selection::over_nodes())).with_wheels(),
        Stage::new("cargo-test-alone", programs::run_alone).with_wheels(),
        Stage::new(AIMS, aims::judge_all).with_wheels(),
    ]],
    &[&[
        Stage::long("romio-full", |paths| romio::runs::run(paths, &Selection::default(), &[])).with_wheels(),
        Stage::long("mpich-io-full", |paths| {
            mpich_io::runs::run(paths, &Selection::on_one_node_and_over_nodes(), &[])
        })
        .with_wheels(),
        Stage::long("mpi4py-full", |paths| mpi4py::run(paths, &Selection::default())).with_wheels(),
        Stage::long("hdf5-full", |paths| hdf5::runs::run(paths, &Selection::on_one_node_and_over_nodes())),
        Stage::long("romio-8-ranks", |paths| romio::runs::run(paths, &Selection::over_crowded_nodes(), &[])),
        Stage::long("mpi4py-8-ranks", |paths| mpi4py::run(paths, &Selection::over_crowded_nodes()))
            .with_wheels(),
        Stage::long("coll-full", |paths| coll::runs::run(paths, &coll::runs::Selection::default())),
        Stage::long("romio-hosts", |paths| on_hosts(paths, "romio")),
        Stage::long("mpich-io-hosts", |paths| on_hosts(paths, "mpich-io")),
        Stage::long("hdf5-hosts", |paths| on_hosts(paths, "hdf5")),
        Stage::long("mpi4py-hosts", |paths| on_hosts(paths, "mpi4py")).with_wheels(),
    ]],
];

/// The stage that makes the virtual environments.
const WHEELS: &str = "wheels";

/// The stage that makes the installation.
const BUILD: &str = "build";

/// The stage of which part may have to be left unjudged.
const AIMS: &str = "aims";

fn stages() -> impl Iterator<Item = &'static Stage> {
    ROUNDS.iter().copied().flatten().copied().flatten()
}

/// The names of all stages, in order.
pub(crate) fn stage_names() -> Vec<&'static str> {
    stages().map(|stage| stage.name).collect()
}

/// The names of the stages that take long.
pub(crate) fn long_stage_names() -> Vec<String> {
    stages().filter(|stage| stage.takes_long).map(|stage| stage.name.to_owned()).collect()
}

/// What came of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcome {
    tally: Tally,
    elapsed: Duration,
    /// What the cores spent on it, all together.
    computing: Duration,
}

/// A stage that is over.
type Ended = (&'static Stage, Outcome);

/// Runs the stages named in `only`, the installation being built, and the virtual environments made, for those that use
/// them; when it is empty, all that do not take long. True when nothing failed.
pub(crate) fn run(paths: &Paths, only: &[String]) -> Result<bool> {
    if let Some(unknown) = only.iter().find(|name| !stage_names().contains(&name.as_str())) {
        bail!("there is no stage {unknown}; there are {}", stage_names().join(", "));
    }
    failures::forget(paths)?;
    let started = Instant::now();
    let mut ended: Vec<Ended> = Vec::new();
    for round in ROUNDS {
        let queues = round.iter().map(|queue| queue.iter().filter(|stage| is_wanted(stage, only)).collect());
        let queues: Vec<Vec<&'static Stage>> = queues.filter(|queue: &Vec<_>| !queue.is_empty()).collect();
        ended.extend(run_round(paths, &queues));
        let is_useless = |(stage, outcome): &&Ended| stage.is_needed && outcome.tally.failed > 0;
        if let Some((stage, _)) = ended.iter().find(is_useless) {
            eprintln!("{}: without it, the rest makes no sense", stage.name);
            break;
        }
    }
    let is_well = report(&ended, started.elapsed());
    let failures = failures::kept(paths);
    if !failures.is_empty() {
        println!("\nThese tests have failed:\n{failures}");
    }
    Ok(is_well)
}

/// Whether a stage is run where `only` are asked for.
fn is_wanted(stage: &Stage, only: &[String]) -> bool {
    let is_named = |stage: &Stage| only.iter().any(|name| name == stage.name);
    if only.is_empty() {
        return !stage.takes_long;
    }
    let is_used = |uses: fn(&Stage) -> bool| stages().any(|other| uses(other) && is_named(other));
    is_named(stage)
        || match stage.name {
            WHEELS => is_used(|other| other.uses_wheels),
            BUILD => is_used(|other| other.uses_installation),
            _ => false,
        }
}

/// Runs the stage `name` for the process that runs the check.
pub(crate) fn run_for_another(paths: &Paths, name: &str) -> Result<bool> {
    let stage = stages().find(|stage| stage.name == name).with_context(|| format!("no stage {name}"))?;
    let outcome = run_here(paths, stage);
    apart::tell(paths, name, outcome)?;
    Ok(outcome.tally.failed == 0)
}

/// Runs queues side by side; one alone in this very process, so that its output is shown as it comes.
fn run_round(paths: &Paths, queues: &[Vec<&'static Stage>]) -> Vec<Ended> {
    match queues {
        [] => Vec::new(),
        [queue] => queue
            .iter()
            .map(|stage| {
                println!("\n== {}", stage.name);
                (*stage, run_here(paths, stage))
            })
            .collect(),
        _ => {
            let names =
                |queue: &Vec<&Stage>| queue.iter().map(|stage| stage.name).collect::<Vec<_>>().join(" ");
            let all: Vec<String> = queues.iter().map(names).collect();
            println!("\nside by side, each shown when it has ended: {}", all.join(" | "));
            std::thread::scope(|scope| {
                let run = |queue: &'_ Vec<&'static Stage>| {
                    queue.iter().map(|stage| (*stage, run_apart(paths, stage))).collect::<Vec<Ended>>()
                };
                let threads: Vec<_> = queues.iter().map(|queue| scope.spawn(move || run(queue))).collect();
                let ended = threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
                ended.flatten().collect()
            })
        }
    }
}

fn run_here(paths: &Paths, stage: &Stage) -> Outcome {
    let (started, computed) = (Instant::now(), computing::so_far());
    let tally = (stage.run)(paths).unwrap_or_else(|error| failure(stage, &error));
    Outcome { tally, elapsed: started.elapsed(), computing: computing::so_far().saturating_sub(computed) }
}

fn run_apart(paths: &Paths, stage: &Stage) -> Outcome {
    let started = Instant::now();
    apart::run(paths, stage.name).unwrap_or_else(|error| {
        let tally = failure(stage, &error);
        Outcome { tally, elapsed: started.elapsed(), computing: Duration::ZERO }
    })
}

fn failure(stage: &Stage, error: &anyhow::Error) -> Tally {
    eprintln!("{}: {error:#}", stage.name);
    Tally { passed: 0, failed: 1 }
}

/// Shows the table, the stages in their order. True when nothing failed.
fn report(ended: &[Ended], elapsed: Duration) -> bool {
    let mut total = Tally::default();
    let mut rows = Vec::new();
    for stage in stages() {
        let Some((_, outcome)) = ended.iter().find(|(one, _)| one.name == stage.name) else { continue };
        total += outcome.tally;
        rows.push(row(stage.name, outcome));
    }
    let head = ["stage", "passed", "failed", "seconds", "of computing"].map(String::from);
    println!("\n{}", table::render(&head, &rows));
    println!("{} passed, {} failed, in {:.0} s", total.passed, total.failed, elapsed.as_secs_f64());
    let judged = ended.iter().find(|(stage, _)| stage.name == AIMS).map(|(_, outcome)| outcome.tally);
    let not_judged = judged.map_or(0, |tally| aims::AIMED.len().saturating_sub(tally.passed + tally.failed));
    if not_judged > 0 {
        println!(
            "NOT JUDGED: {not_judged} of {} benchmarks with aims, as others used the machine; run `cargo xtask test \
             --only {AIMS}` when nobody does",
            aims::AIMED.len()
        );
    }
    total.failed == 0 && total.passed > 0
}

fn row(name: &str, outcome: &Outcome) -> Vec<String> {
    let Outcome { tally, elapsed, computing } = outcome;
    let seconds = [elapsed, computing].map(|time| format!("{:.0}", time.as_secs_f64()));
    let counts = [tally.passed, tally.failed].map(|count| count.to_string());
    std::iter::once(name.to_owned()).chain(counts).chain(seconds).collect()
}

/// A stage that either holds as a whole or does not.
fn done(result: Result<()>) -> Result<Tally> {
    result.map(|()| Tally { passed: 1, failed: 0 })
}

fn set_up(paths: &Paths) -> Result<()> {
    setup::run()?;
    sources::romio_tests(paths).map(|_| ())
}

fn fmt(paths: &Paths) -> Result<()> {
    process::run(build::cargo(paths).args(["fmt", "--all", "--check"]))?;
    process::run(rust_file(paths).args(["fmt", "--check"]))
}

/// What clippy is told.
const CLIPPY: [&str; 2] = ["-D", "warnings"];

fn clippy(paths: &Paths) -> Result<()> {
    process::run(build::cargo(paths).args(["clippy", "--workspace", "--all-targets", "--"]).args(CLIPPY))?;
    process::run(rust_file(paths).args(["clippy", "--all-targets", "--"]).args(CLIPPY))
}

/// Cargo, for the package that is built with the MPI of the program that uses it, and not with the workspace.
fn rust_file(paths: &Paths) -> Command {
    let mut cargo = build::cargo(paths);
    cargo.current_dir(paths.root().join("mpiio").join("file"));
    cargo.env("MPICC", Mpi::DebianMpich.c_compiler(paths)).env("CARGO_TARGET_DIR", paths.rust_programs());
    cargo
}

fn doc(paths: &Paths) -> Result<()> {
    let mut cargo = build::cargo(paths);
    // By what clippy has checked, where that is found: otherwise cargo checks all packages again for it, which is half
    // the work. This is how `cargo clippy` runs cargo.
    let driver = Path::new(cargo.get_program()).with_file_name("clippy-driver");
    if driver.is_file() {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", driver);
        cargo.env("CLIPPY_ARGS", CLIPPY.map(|word| format!("{word}__CLIPPY_HACKERY__")).concat());
    }
    // Examples are asked for so that cargo chooses the features that clippy has, of what both depend on.
    let what = ["--lib", "--bins", "--examples"];
    cargo.args(["doc", "--workspace", "--no-deps", "--document-private-items"]).args(what);
    process::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))?;
    let mut cargo = rust_file(paths);
    cargo.args(["doc", "--no-deps", "--document-private-items", "--lib"]);
    process::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))?;
    process::run(rust_file(paths).args(["test", "--doc"]))
}

/// The lock-free parts, in every order in which threads can meet in them.
fn loom(paths: &Paths) -> Result<Tally> {
    let mut tally = Tally::default();
    for (packages, mut tests) in promises::loom(paths) {
        tally += counted(&mut tests, packages)?;
    }
    Ok(tally)
}

/// A suite over several hosts, with the MPIs that run there.
fn on_hosts(paths: &Paths, suite: &str) -> Result<Tally> {
    let words = [suite, "--on", "hosts", "--mpi", "mpich,openmpi"];
    counted(&mut hosts::beside_hosts(paths, &words)?, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_stages_have_one_name() {
        let mut names = stage_names();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn no_old_installation_is_tested_and_no_mpi_is_missing() {
        let wanted = |only: &str| {
            let only = [only.to_owned()];
            stages().filter(|stage| is_wanted(stage, &only)).map(|stage| stage.name).collect::<Vec<_>>()
        };
        for with_wheels in
            ["romio", "romio-full", "mpich-io-full", "mpi4py-hosts", "cargo-test", "benches", AIMS]
        {
            assert_eq!(wanted(with_wheels), [WHEELS, BUILD, with_wheels]);
        }
        for with_debians_mpis in ["coll", "romio-nodes", "hdf5", "mpich-io-hosts"] {
            assert_eq!(wanted(with_debians_mpis), [BUILD, with_debians_mpis]);
        }
        assert_eq!(wanted("fmt"), ["fmt"]);
        assert_eq!(wanted(BUILD), [BUILD]);
    }

    #[test]
    fn the_long_stages_come_last() {
        let is_long: Vec<bool> = stages().map(|stage| stage.takes_long).collect();
        assert!(is_long.is_sorted(), "they would run between others in a soak");
    }
}
