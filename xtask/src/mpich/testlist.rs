//! `testlist.in`: which of a folder of MPICH's tests are run, with how many ranks and which arguments.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// One run of a program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Test {
    pub(crate) program: String,
    pub(crate) ranks: u32,
    pub(crate) arguments: Vec<String>,
    /// How much memory it takes, GB, where that is much.
    pub(crate) gigabytes: Option<f64>,
}

/// How much of the list is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Full,
    /// Each program once, with the fewest ranks that it is listed with, at most [`MOST_RANKS_IN_SHORT`]; left out are
    /// those that use persistent and nonblocking operations and neighbourhoods, and communicators between two groups.
    Short,
}

/// Some programs want a number that divides 10.
const MOST_RANKS_IN_SHORT: u32 = 5;

/// The tests in a folder; of the short list in that of collectives.
pub(crate) fn read(folder: &Path, extent: Extent) -> Result<Vec<Test>> {
    // Configure makes the one of the other.
    let [made, file] = ["testlist", "testlist.in"].map(|name| folder.join(name));
    let file = if file.exists() { file } else { made };
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let all = parse(&text)?;
    Ok(match extent {
        Extent::Full => all,
        Extent::Short => short(all),
    })
}

fn parse(text: &str) -> Result<Vec<Test>> {
    let mut tests: Vec<Test> = Vec::new();
    for line in text.lines().map(str::trim) {
        // `@largetest@` is configure's mark of a comment unless 20 GB of memory are to be used.
        if line.is_empty() || line.starts_with(['#', '@']) {
            continue;
        }
        let mut words = line.split_whitespace();
        let (Some(program), Some(Ok(ranks))) = (words.next(), words.next().map(str::parse)) else {
            bail!("this line of testlist.in does not begin with a program and a number of ranks: {line}");
        };
        let (mut arguments, mut gigabytes) = (Vec::new(), None);
        for word in words {
            match word.split_once('=') {
                Some(("arg", argument)) => arguments.push(argument.to_owned()),
                Some(("mem", amount)) => gigabytes = amount.parse().ok(),
                _ => {}
            }
        }
        let test = Test { program: program.to_owned(), ranks, arguments, gigabytes };
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
    Ok(tests)
}

fn short(all: Vec<Test>) -> Vec<Test> {
    let mut tests: Vec<Test> =
        all.into_iter().filter(|test| is_of_blocking_operations(&test.program)).collect();
    // Stable: of lines with the same number of ranks the first is taken.
    tests.sort_by_key(|test| test.ranks);
    let mut seen = HashSet::new();
    tests.retain(|test| seen.insert(test.program.clone()));
    for test in &mut tests {
        test.ranks = test.ranks.min(MOST_RANKS_IN_SHORT);
    }
    tests.sort_by(|a, b| a.program.cmp(&b.program));
    tests
}

fn is_of_blocking_operations(program: &str) -> bool {
    let others = ["nb", "p_", "nonblocking", "neighb", "ring_neighbor", "iallred", "ibarrier", "ic"];
    !others.iter().any(|start| program.starts_with(start)) && !program.ends_with("inter")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a comment\n\nreduce 5\nreduce 10\nallred 4 arg=-count=10\nallred 4 arg=-count=10\n\
        @largetest@gather_big 8 mem=20.1\np_scan 4 strict=false\nuoplong 16 mem=1.4\nuoplong 11\n";

    #[test]
    fn lines_are_programs_ranks_and_arguments() {
        let tests = parse(TEXT).unwrap();
        assert_eq!(tests.len(), 6);
        let arguments = vec!["-count=10".to_owned()];
        let allred = Test { program: "allred".to_owned(), ranks: 4, arguments, gigabytes: None };
        assert_eq!(tests[2], allred);
        assert_eq!(tests[4].gigabytes, Some(1.4));
        assert!(parse("reduce many").is_err());
    }

    #[test]
    fn the_short_list_has_each_blocking_program_once() {
        let tests = short(parse(TEXT).unwrap());
        let found: Vec<(&str, u32)> = tests.iter().map(|test| (test.program.as_str(), test.ranks)).collect();
        assert_eq!(found, [("allred", 4), ("reduce", 5), ("uoplong", 5)]);
    }
}
