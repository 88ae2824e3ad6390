//! What Rust's test programs, and suites, print of their results.

use crate::comparison::Tally;

/// All results in what test programs printed; nothing where there is none.
pub(super) fn of_programs(output: &str) -> Option<Tally> {
    output.lines().filter_map(test_result).reduce(|mut sum, tally| {
        sum += tally;
        sum
    })
}

/// The result in a line of a test program or of a suite.
pub(super) fn of_line(line: &str) -> Option<Tally> {
    test_result(line).or_else(|| suite_result(line))
}

/// The tests that a program said to have failed: `test a::b ... FAILED`.
pub(super) fn failed_tests(output: &str) -> impl Iterator<Item = &str> {
    // Behind the name there may be what it printed without a line's end.
    output.lines().filter_map(|line| {
        let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
        end.ends_with("FAILED").then_some(name)
    })
}

/// The numbers in `test result: ok. 3 passed; 0 failed; ...`.
fn test_result(line: &str) -> Option<Tally> {
    let rest = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |word: &str| rest.split("; ").find_map(|part| part.strip_suffix(word)?.trim().parse().ok());
    Some(Tally { passed: count("passed")?, failed: count("failed")? })
}

/// The numbers in `SUITE: 3 runs good, 0 bad, ...`.
fn suite_result(line: &str) -> Option<Tally> {
    let (before, after) = line.split_once(" runs good, ")?;
    let passed = before.rsplit_once(' ')?.1.parse().ok()?;
    Some(Tally { passed, failed: after.split_once(" bad")?.0.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_test_programs_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; \
            0 filtered out; finished in 0.01s";
        assert_eq!(of_line(line), Some(Tally { passed: 12, failed: 3 }));
        assert_eq!(of_line("test a::b ... ok"), None);
        assert_eq!(of_programs(&format!("{line}\ntest a\n{line}\n")), Some(Tally { passed: 24, failed: 6 }));
        assert_eq!(of_programs("test a::b ... ok\n"), None);
        let line = "ROMIO's tests: 14 runs good, 2 bad, 11 s of runs";
        assert_eq!(of_line(line), Some(Tally { passed: 14, failed: 2 }));
        assert_eq!(of_line("the runs good, and bad"), None);
    }

    #[test]
    fn failed_tests_are_found() {
        let output = "test a::b ... ok\ntest c ... FAILED\ntest d ... words FAILED\ntest e ... ignored\n";
        assert_eq!(failed_tests(output).collect::<Vec<_>>(), ["c", "d"]);
    }
}
