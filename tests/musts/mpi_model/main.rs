//! Random programs of MPI's accesses by several processes, against a model of MPI-IO's rules.
//!
//! A [program](program::Program) is a list of steps: accesses by all of MPI's methods, alone and together, through
//! views, in both modes; syncs, barriers, changes of the size. An MPI program (`programs/mpi_model`) carries out
//! many of them in a row, and the [judge] says whether the ranks may have observed what they did, by what MPI
//! promises and by what svmio does. Stock MPICH's files are judged, too, by MPI's rules alone, but that also where
//! writes conflict each byte is to be one write's, and to stay so.
//!
//! Programs that go wrong are made [shorter](reducing). A failure tells the program's seed: `SVMIO_MODEL_SEED=N`,
//! with `SVMIO_MODEL_PROGRAMS=1`, has the same test run that program alone. Plain runs try some dozens of programs,
//! the same each time; with `SVMIO_FULL=1` it is thousands. `SVMIO_MODEL_PROGRAMS` says how many each test tries.

mod generating;
mod judge;
mod operation;
mod order;
mod program;
mod records;
mod reducing;
mod running;
mod script;
mod serial;
mod span;

use std::time::Duration;

use svmio_tests::{Mpi, is_full_run};

use running::{Place, World, Wrong};

/// How many programs one job carries out.
const AT_ONCE: u64 = 50;

#[test]
fn mpich_on_one_node() {
    check(1, World { mpi: Mpi::DebianMpich, place: Place::OneNode, ranks: 4 });
}

#[test]
fn openmpi_on_one_node() {
    check(2, World { mpi: Mpi::DebianOpenMpi, place: Place::OneNode, ranks: 4 });
}

#[test]
fn mpich_on_nodes_with_a_cache_of_one_page() {
    check(3, World { mpi: Mpi::DebianMpich, place: Place::Nodes { cache: "4K" }, ranks: 8 });
}

#[test]
fn openmpi_on_nodes_with_a_cache_of_one_page() {
    check(4, World { mpi: Mpi::DebianOpenMpi, place: Place::Nodes { cache: "4K" }, ranks: 8 });
}

#[test]
fn mpich_on_nodes_with_a_cache_of_plenty() {
    check(5, World { mpi: Mpi::DebianMpich, place: Place::Nodes { cache: "64M" }, ranks: 8 });
}

#[test]
fn openmpi_on_nodes_with_a_cache_of_plenty() {
    check(6, World { mpi: Mpi::DebianOpenMpi, place: Place::Nodes { cache: "64M" }, ranks: 8 });
}

#[test]
fn mpich_5_on_nodes() {
    check(8, World { mpi: Mpi::WheelMpich, place: Place::Nodes { cache: "64M" }, ranks: 8 });
}

#[test]
fn openmpi_5_on_nodes() {
    check(9, World { mpi: Mpi::WheelOpenMpi, place: Place::Nodes { cache: "64M" }, ranks: 8 });
}

#[test]
fn stock_mpich_keeps_mpis_rules() {
    check(7, World { mpi: Mpi::DebianMpich, place: Place::Stock, ranks: 4 });
}

/// A number from the environment.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

/// Runs the programs of a test, which has seeds of its own.
fn check(test: u64, world: World) {
    // What svmio does with MPIs from wheels is what it does with Debian's, by the same libraries.
    let plain = if Mpi::DEBIAN.contains(&world.mpi) { 12 } else { 4 };
    let count = number("SVMIO_MODEL_PROGRAMS").unwrap_or(if is_full_run() { 1000 } else { plain });
    let first = number("SVMIO_MODEL_SEED").unwrap_or(test * 1_000_000);
    for from in (first..first + count).step_by(AT_ONCE as usize) {
        let seeds = from..(from + AT_ONCE).min(first + count);
        let programs: Vec<_> = seeds.map(generating::program).collect();
        let Err(Wrong { number, what }) = world.run(&programs, Duration::from_secs(120)) else { continue };
        let time = Duration::from_secs(if is_full_run() { 600 } else { 60 });
        let (program, how) = reducing::reduced(&world, &programs[number], what.clone(), time);
        let lines = world.script(&program, 0).lines.join("\n");
        let seed = from + number as u64;
        let alone = format!("SVMIO_MODEL_PROGRAMS=1 SVMIO_MODEL_SEED={seed}");
        panic!("{world:?}, {alone}: {what}\nmade shorter: {how}\n{program:?}\nits lines:\n{lines}");
    }
}
