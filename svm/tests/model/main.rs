//! Random programs of many ranks on many nodes, against a sequential model of MPI-IO's rules.
//!
//! A [program](program::Program) is a list of steps. In each, the ranks read and write at the same time, with
//! or without locks, or all together sync, change the size, or close and open the file; a sync or closing may meet
//! accesses that others are still, or again, at. The
//! [execution](execution) notes what every rank observes, and the [oracle] says whether it may be so. Programs that
//! fail are made shorter.
//!
//! Plain `cargo test` runs some hundred programs, the same each time; with `SVMIO_FULL=1` it is ten thousand. Over a
//! [network] it is twenty, and a thousand. The environment may say how many (`SVMIO_MODEL_PROGRAMS`), and which others
//! (`SVMIO_MODEL_SEED`, a number); and that pages are read from their homes without asking, or not
//! (`SVMIO_TEST_READS`, `native` or `asked`).

mod execution;
#[path = "../job/mod.rs"]
mod job;
mod network;
mod oracle;
mod phases;
mod program;

use std::cell::Cell;
use std::time::Duration;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use svmio_svm::CacheSettings;

use execution::{World, with_job};
use job::watched;
use program::{Extent, Locked, LockedAccess, Policy, Program, Step};

/// How many shapes of jobs each test goes through.
const WORLDS: u64 = 5;
/// How often a program that may fail is run once another has failed: what goes wrong depends on who is faster.
const ATTEMPTS: u32 = 12;
/// A program that takes longer will not end.
const LONGEST: Duration = Duration::from_secs(60);

const PAGE: u64 = 1 << 12;

#[test]
fn with_a_cache_of_one_page() {
    check(0, CacheSettings { page: PAGE, capacity: PAGE });
}

#[test]
fn with_a_cache_of_few_pages() {
    check(1, CacheSettings { page: PAGE, capacity: 8 * PAGE });
}

#[test]
fn with_a_cache_of_few_pages_as_long_as_segments() {
    check(2, CacheSettings { page: 16 * PAGE, capacity: 3 * 16 * PAGE });
}

#[test]
fn with_a_cache_of_plenty() {
    check(3, CacheSettings::default());
}

/// Segments get their homes while others read where there was nothing. Random programs seldom come to that.
#[test]
fn new_segments_are_seen_all_or_not_at_all() {
    let extent = Extent { start: 2 * PAGE, length: 40 * PAGE };
    let read = |rank| (rank, locked(LockedAccess::Read(extent)));
    let write = |rank| (rank, locked(LockedAccess::Write(extent)));
    let accesses = [0, 1, 2, 3, 5, 6, 7, 1, 2, 3, 5].map(read).into_iter().chain([4, 5].map(write));
    holds_again_and_again(&[Step::SetSize(program::LONGEST), Step::UnderLocks(accesses.collect())]);
}

/// A segment gets its home by a write elsewhere in it than others read, who have locked where there was nothing, and is
/// then written where they read.
#[test]
fn who_reads_in_a_segment_without_home_has_a_lock_also_when_it_gets_one() {
    let (at, extent) = (3 * PAGE, Extent { start: 16 * PAGE + 4, length: 2 * PAGE });
    let reads =
        (0..3).flat_map(|_| [0, 1, 3, 4, 5, 7].map(|rank| (rank, locked(LockedAccess::Read(extent)))));
    let writes = [LockedAccess::Increment(at), LockedAccess::Write(extent)].map(|access| (2, locked(access)));
    holds_again_and_again(&[Step::UnderLocks(writes.into_iter().chain(reads).collect())]);
}

fn locked(access: LockedAccess) -> Locked {
    Locked { slack: 0, inner: vec![access] }
}

/// Runs these steps many times by eight ranks on four nodes.
fn holds_again_and_again(steps: &[Step]) {
    let program = Program { segment_size: 32 * PAGE, placement: Policy::FirstTouch, steps: steps.to_vec() };
    let world = World { nodes: 4, ranks: 8, is_blockwise: false, cache: CacheSettings::default() };
    let times = (programs() / 10).clamp(20, 500);
    let wrong = with_job(&world, |run| {
        (0..times).find_map(|_| oracle::check(&program, &watched(LONGEST, &program, || run(&program))).err())
    });
    assert_eq!(wrong, None);
}

/// A number from the environment.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

/// How many programs all tests together run.
fn programs() -> u64 {
    let full = if job::is_full() { 20_000 } else { 100 };
    number("SVMIO_MODEL_PROGRAMS").unwrap_or(full)
}

fn check(test: u64, cache: CacheSettings) {
    let seed = number("SVMIO_MODEL_SEED").unwrap_or(1);
    // Each job has its programs; more than half of them have the shape that the others vary.
    let worlds = WORLDS.max(programs() / 4 / 250);
    for round in 0..worlds {
        let varied = |by: u64, count: u64| ((round * 7 + test * 3 + seed) / by % count) as usize;
        let world = match round {
            round if round < 2 || round % 2 == 0 => {
                let is_blockwise = round.div_ceil(2) % 2 == 1;
                World { nodes: 4, ranks: 8, is_blockwise, cache }
            }
            _ => {
                let nodes = 1 + varied(1, 4);
                let ranks = (nodes + varied(2, 7)).clamp(2, 8);
                World { nodes, ranks, is_blockwise: varied(3, 2) == 0, cache }
            }
        };
        let count = (programs() / 4).div_ceil(worlds) as u32;
        let seed = seed << 32 | test << 16 | round;
        if let Err(failure) = with_job(&world, |run| many(count, seed, run)) {
            panic!("{world:?}, seed {seed:#x}: {failure}");
        }
    }
}

/// Runs so many programs, and tells of the shortest that failed.
fn many(count: u32, seed: u64, run: &mut dyn FnMut(&Program) -> Vec<execution::Log>) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: count,
        failure_persistence: None,
        max_shrink_time: 60_000,
        max_shrink_iters: 4000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let run = std::cell::RefCell::new(run);
    let has_failed = Cell::new(false);
    let result = runner.run(&program::programs(), |program| {
        let attempts = if has_failed.get() { ATTEMPTS } else { 1 };
        for _ in 0..attempts {
            let logs = watched(LONGEST, &program, || (run.borrow_mut())(&program));
            if let Err(wrong) = oracle::check(&program, &logs) {
                has_failed.set(true);
                return Err(TestCaseError::fail(wrong));
            }
        }
        Ok(())
    });
    match result {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, program)) => Err(format!("{reason}\nthe program: {program:?}")),
        Err(other) => Err(other.to_string()),
    }
}
