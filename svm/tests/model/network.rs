//! The same over a network, and with pages that come from their homes by one way alone.

use std::process::Command;

use super::job;

/// What is tried, the first two of them always.
const TESTS: [&str; 5] = [
    "with_a_cache_of_few_pages",
    "with_a_cache_of_plenty",
    "with_a_cache_of_one_page",
    "with_a_cache_of_few_pages_as_long_as_segments",
    "new_segments_are_seen_all_or_not_at_all",
];

/// One after the other: each takes all cores.
#[test]
fn programs_find_what_mpi_promises_over_libfabric_and_by_either_way_of_reading() {
    check(&[("SVMIO_TEST_FABRIC", "ofi")]);
    check(&[("SVMIO_TEST_READS", "native")]);
    if job::is_full() {
        check(&[("SVMIO_TEST_READS", "asked")]);
        check(&[("SVMIO_TEST_READS", "native"), ("SVMIO_TEST_FABRIC", "ofi")]);
    }
}

/// Runs the tests in a process of its own with this in its environment.
fn check(environment: &[(&str, &str)]) {
    let is_full = job::is_full();
    let (tests, programs) = if is_full { (&TESTS[..], "1000") } else { (&TESTS[..2], "14") };
    let mut command = Command::new(std::env::current_exe().expect("a process has a path to its program"));
    command.args(tests).args(["--exact", "--test-threads=2"]);
    command.env("SVMIO_MODEL_PROGRAMS", programs).envs(environment.iter().copied());
    let output = command.output().expect("the program starts again");
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let passed = format!("{} passed", tests.len());
    assert!(output.status.success() && said.contains(&passed), "{said}{complaint}");
}
