//! The workspace's own tests and benchmarks of real MPI programs: what they need to find, and the long runs.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::comparison::Tally;
use crate::paths::Paths;
use crate::{build, process, setup, test, wheels};

/// Cargo, with the installation and the MPIs from virtual environments told to what it starts.
pub(crate) fn cargo(paths: &Paths) -> Command {
    with_what_tests_need(build::cargo(paths), paths)
}

/// A program, with the installation and the MPIs from virtual environments told to it.
pub(crate) fn with_what_tests_need(mut program: Command, paths: &Paths) -> Command {
    program.env("SVMIO_INSTALLATION", paths.installation());
    program.env("SVMIO_MPICH5", paths.venv("mpich5"));
    program.env("SVMIO_OPENMPI5", paths.venv("openmpi5"));
    program
}

/// Runs the tests that repeat themselves as often as is promised.
pub(crate) fn soak(paths: &Paths) -> Result<()> {
    ready(paths)?;
    let mut cargo = cargo(paths);
    cargo.args(["test", "--package", "svmio-tests", "--no-fail-fast", "--", "--nocapture"]);
    process::run(cargo.env("SVMIO_FULL", "1"))?;
    // Random programs with the longest messages, and the fuzz targets of everything that arrives from the wire.
    process::run(test_of_transport(paths, "sizes").env("SVMIO_FULL", "1"))?;
    process::run(test_of_transport(paths, "decoders").env("BOLERO_RANDOM_ITERATIONS", "10000000"))?;
    // Random programs of messages on every back end, with faults and losses, against plain queues; and losses alone.
    process::run(programs_of_messages(paths).env("PROPTEST_CASES", "4000"))?;
    process::run(test_of_transport(paths, "simulated").env("PROPTEST_CASES", "4000"))?;
    // Random programs of ranks on several nodes, compared with a model.
    let mut model = cargo_of(paths, "svmio-svm", "model");
    process::run(model.env("SVMIO_FULL", "1"))?;
    // Files as memory: litmus tests and random programs of each kind of consistency, faults while pages go, and what
    // mappings take. Locks in segments that get their homes meanwhile.
    for name in ["mapping", "mapping_resources", "node_locks"] {
        process::run(cargo_of(paths, "svmio-svm", name).env("SVMIO_FULL", "1"))?;
    }
    // A hundred thousand simulated ranks.
    process::run(cargo_of(paths, "svmio-collectives", "simulation").env("SVMIO_FULL", "1"))?;
    // Every algorithm with 1 to 64 ranks, each late in turn; ten million barriers of real processes with random delays,
    // and random programs of collectives.
    for name in ["executor_barriers", "executor_processes"] {
        process::run(cargo_of(paths, "svmio-collectives", name).env("SVMIO_FULL", "1"))?;
    }
    // The lock-free parts, in more orders.
    for mut tests in loom(paths) {
        process::run(tests.env("SVMIO_FULL", "1"))?;
    }
    if test::run(paths, &test::long_stage_names())? { Ok(()) } else { bail!("a suite has failed; see above") }
}

/// Cargo, about to run the random programs of messages, which see what only tests within the library do.
fn programs_of_messages(paths: &Paths) -> Command {
    let mut cargo = cargo(paths);
    cargo.args(["test", "--release", "--package", "svmio-transport", "--lib", "message::tests::oracle"]);
    cargo.args(["--", "--nocapture"]);
    cargo
}

fn test_of_transport(paths: &Paths, name: &str) -> Command {
    cargo_of(paths, "svmio-transport", name)
}

/// Cargo, about to run one test program of a package, optimised.
fn cargo_of(paths: &Paths, package: &str, name: &str) -> Command {
    let mut cargo = cargo(paths);
    cargo.args(["test", "--release", "--package", package, "--test", name, "--", "--nocapture"]);
    cargo
}

/// Cargo, about to explore the interleavings of the lock-free parts. They are made otherwise for that; what they depend
/// on is what the other tests have, too. Apart, for `svmio-svm` cannot use the other two as they are made then.
pub(crate) fn loom(paths: &Paths) -> [Command; 2] {
    [&["svmio-transport", "svmio-collectives"][..], &["svmio-svm"]].map(|packages| {
        let mut cargo = build::cargo(paths);
        cargo.args(["test", "--lib"]);
        for package in packages {
            cargo.args(["--package", package, "--features", &format!("{package}/loom")]);
        }
        // These have no library. They are there for cargo to choose the features that it has chosen already.
        cargo.args(["--package", "xtask", "--package", "svmio", "loom"]);
        cargo
    })
}

/// Runs the benchmarks, beside what users would take instead, and draws what they find and the papers' diagrams.
pub(crate) fn bench(paths: &Paths) -> Result<()> {
    setup::run_for_benchmarks()?;
    ready(paths)?;
    let files = &["--on", "shm,small-pages,huge,disk"][..];
    let others =
        ["messages", "overlap", "nodes", "mapping", "memory", "collectives"].map(|name| (name, &[][..]));
    let more = [
        &["--adapters"][..],
        &["--adapters", "--busy"],
        &["--adapters", "--sessions"],
        &["--adapters", "--busy", "--sessions"],
        &["--hosts"],
        &["--data"],
    ]
    .map(|words| ("collectives", words));
    for (name, words) in [("files", files)].into_iter().chain(others).chain(more) {
        process::run(benchmark(paths, name)?.args(words).env("SVMIO_FIGURES", paths.figures()))?;
    }
    let mut papers = Command::new(build::svmio(paths));
    process::run(papers.args(["bench", "figures", "--plot"]).arg(paths.figures()))
}

/// Whether the benchmarks of MPI programs work: those of files with small files, once, for svmio and every stock
/// driver; those of collectives with every adapter. How fast they are is not judged. Builds those that have [`aims`],
/// too: these run alone, and building uses all cores.
pub(crate) fn benches(paths: &Paths) -> Result<()> {
    process::run(benchmark(paths, "files")?.arg("--check"))?;
    process::run(benchmark(paths, "collectives")?.args(["--adapters", "--check"]))?;
    for name in AIMED {
        build::benchmark(paths, name)?;
    }
    Ok(())
}

/// The benchmarks that have aims.
pub(crate) const AIMED: [&str; 4] = ["messages", "overlap", "mapping", "collectives"];

/// What a benchmark exits with where others use the machine and nothing can be said.
const NOT_JUDGED: i32 = 75;

/// Whether nothing is far from what is aimed at: the benchmarks that have aims, shortened.
pub(crate) fn aims(paths: &Paths) -> Result<Tally> {
    const TRIES: usize = 3;
    let mut tally = Tally::default();
    for name in AIMED {
        // What is far off three times is far off by itself.
        let mut far_off = 0;
        let mut is_near = false;
        for _ in 0..TRIES {
            let mut command = benchmark(paths, name)?;
            let status = command.arg("--check").status().with_context(|| format!("cannot run {name}"))?;
            is_near = status.success();
            if is_near {
                break;
            }
            far_off += usize::from(status.code() != Some(NOT_JUDGED));
        }
        if is_near {
            tally += Tally { passed: 1, failed: 0 };
        } else if far_off == TRIES {
            tally += Tally { passed: 0, failed: 1 };
        } else {
            eprintln!(
                "{name}: NOT JUDGED; run `cargo xtask test --only aims` when nobody else uses this machine"
            );
        }
    }
    Ok(tally)
}

/// A benchmark, built.
fn benchmark(paths: &Paths, name: &str) -> Result<Command> {
    Ok(with_what_tests_need(Command::new(build::benchmark(paths, name)?), paths))
}

fn ready(paths: &Paths) -> Result<()> {
    setup::run()?;
    wheels::run(paths)?;
    build::run(paths)
}
