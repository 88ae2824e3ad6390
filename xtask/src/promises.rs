//! The workspace's own tests and benchmarks of real MPI programs: what they need to find, and the long run of the tests.

use std::process::Command;

use anyhow::{Result, bail};

use crate::aims::{self, Judgement};
use crate::paths::Paths;
use crate::{bench, build, process, setup, test, wheels};

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
    test::demand(cargo.env("SVMIO_FULL", "1"), 1)?;
    // Random programs with the longest messages, and the fuzz targets of everything that arrives from the wire.
    test::demand(test_of_transport(paths, "sizes").env("SVMIO_FULL", "1"), 1)?;
    test::demand(test_of_transport(paths, "decoders").env("BOLERO_RANDOM_ITERATIONS", "10000000"), 1)?;
    // Random programs of messages on every back end, with faults and losses, against plain queues; and losses alone.
    test::demand(programs_of_messages(paths).env("PROPTEST_CASES", "4000"), 1)?;
    test::demand(test_of_transport(paths, "simulated").env("PROPTEST_CASES", "4000"), 1)?;
    // Random programs of ranks on several nodes, compared with a model.
    let mut model = cargo_of(paths, "svmio-svm", "model");
    test::demand(model.env("SVMIO_FULL", "1"), 1)?;
    // Files as memory: litmus tests and random programs of each kind of consistency, faults while pages go, and what
    // mappings take. Locks in segments that get their homes meanwhile. Copies to hosts that are lost on the way.
    for name in ["mapping", "mapping_resources", "node_locks", "remote_stores"] {
        test::demand(cargo_of(paths, "svmio-svm", name).env("SVMIO_FULL", "1"), 1)?;
    }
    // A hundred thousand simulated ranks.
    for name in ["simulation", "collective"] {
        test::demand(cargo_of(paths, "svmio-collectives", name).env("SVMIO_FULL", "1"), 1)?;
    }
    // Every algorithm with 1 to 64 ranks, each late in turn; ten million barriers of real processes with random delays,
    // and random programs of collectives.
    for name in ["executor_barriers", "executor_processes"] {
        test::demand(cargo_of(paths, "svmio-collectives", name).env("SVMIO_FULL", "1"), 1)?;
    }
    // The lock-free parts, in more orders.
    for (packages, mut tests) in loom(paths) {
        test::demand(tests.env("SVMIO_FULL", "1"), packages)?;
    }
    let suites_pass = test::run(paths, &test::long_stage_names())?;
    // Files over hosts, beside other file systems: that nothing is far off.
    setup::run_for_benchmarks()?;
    if aims::judge(paths, "nodes", &["--check"])? == Judgement::FarOff {
        bail!("files over hosts are far from what is aimed at, or were not measured; see above");
    }
    if suites_pass { Ok(()) } else { bail!("a suite has failed; see above") }
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
/// Each with its number of packages, all of which have such tests.
pub(crate) fn loom(paths: &Paths) -> [(usize, Command); 2] {
    [&["svmio-transport", "svmio-collectives"][..], &["svmio-svm"]].map(|packages| {
        let mut cargo = build::cargo(paths);
        cargo.args(["test", "--lib"]);
        for package in packages {
            cargo.args(["--package", package, "--features", &format!("{package}/loom")]);
        }
        // These have no library. They are there for cargo to choose the features that it has chosen already.
        cargo.args(["--package", "xtask", "--package", "svmio", "loom"]);
        (packages.len(), cargo)
    })
}

/// Whether the benchmarks of MPI programs work: those of files with small files, once, for svmio and every stock
/// driver; those of collectives with every adapter. How fast they are is not judged. Builds those that have aims, too:
/// these run alone, and building uses all cores.
pub(crate) fn benches(paths: &Paths) -> Result<()> {
    process::run(bench::benchmark(paths, "files")?.arg("--check"))?;
    process::run(bench::benchmark(paths, "collectives")?.args(["--adapters", "--check"]))?;
    for (name, _) in aims::AIMED {
        build::benchmark(paths, name)?;
    }
    Ok(())
}

/// Builds what benchmarks and tests of MPI programs need, after what that needs itself.
pub(crate) fn ready(paths: &Paths) -> Result<()> {
    setup::run()?;
    wheels::run(paths)?;
    build::run(paths)
}
