//! The same over a network, and with pages that this process reads from their homes without asking.

use std::process::Command;

use super::job;

/// What is tried: something of each kind, and what is behind the first five only over a network, unless there is time.
const TESTS: [&str; 9] = [
    "ahead::advice_is_followed",
    "failures::a_page_whose_home_is_lost_is_told_of_and_poisoned_soon",
    "litmus::release::all_writers_of_a_page_win",
    "litmus::release::who_has_seen_a_new_value_does_not_see_an_older_one_again",
    "memory::what_is_stored_on_one_node_is_seen_on_all_after_a_barrier",
    "litmus::strict::all_of_it_in_threads",
    "model::programs_find_the_memory_that_release_consistency_promises",
    "processes::pages_of_a_process_that_is_killed_are_told_of_and_poisoned",
    "processes::processes_that_are_killed_take_no_more_with_them_than_they_had",
];

/// What is tried besides where there is time.
const LONG_TESTS: [&str; 3] = [
    "processes::release_consistency_is_what_processes_find",
    "processes::entry_consistency_is_what_processes_find",
    "processes::strict_mappings_are_sequentially_consistent_for_processes",
];

/// One after the other: each takes all cores.
#[test]
fn mappings_work_over_libfabric_and_by_reading_without_asking() {
    check(("SVMIO_TEST_FABRIC", "ofi"), &TESTS);
    check(("SVMIO_TEST_READS", "native"), if job::is_full() { &TESTS } else { &TESTS[..5] });
    if job::is_full() {
        check(("SVMIO_TEST_FABRIC", "ofi"), &LONG_TESTS);
    }
}

/// Runs the tests in a process of its own with this in its environment.
fn check((variable, value): (&str, &str), tests: &[&str]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // Those of processes take all cores by themselves.
    let threads = if tests == LONG_TESTS { "1" } else { "2" };
    command.args(tests).args(["--exact", "--test-threads", threads]);
    let programs = if job::is_full() { "40" } else { "2" };
    command.env(variable, value).env("SVMIO_MODEL_PROGRAMS", programs);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = format!("{} passed", tests.len());
    assert!(output.status.success() && said.contains(&passed), "{variable}={value}: {said}");
}
