//! The words after `svmio run`: `mpiexec`'s options, the program and its arguments.
//!
//! A job may have several programs, each with options of its own, with `:` between them; both launchers
//! split at every word that is a lone colon, and so does this.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Args;

use super::RunArguments;
use super::error::RunError;
use super::mpiexec_options::{self, OptionMeaning};

/// `mpiexec`'s command line, taken apart. Never empty.
#[derive(Debug)]
pub(crate) struct MpiexecLine {
    pub(crate) programs: Vec<ProgramLine>,
}

/// One program of a job, with the options before it and the arguments after it.
#[derive(Debug)]
pub(crate) struct ProgramLine {
    pub(crate) options: Vec<MpiexecOption>,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// An option with its values, as typed.
#[derive(Clone, Debug)]
pub(crate) struct MpiexecOption {
    /// The option, with dashes; with `=VALUE` if it was typed so.
    pub(crate) word: OsString,
    /// The words after it that belong to it.
    pub(crate) values: Vec<OsString>,
    pub(crate) meaning: OptionMeaning,
}

impl MpiexecLine {
    /// Takes the words apart.
    pub(crate) fn parse(words: &[OsString]) -> Result<MpiexecLine, RunError> {
        let programs =
            words.split(|word| word == ":").map(ProgramLine::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(MpiexecLine { programs })
    }

    /// The job's first program, by which its MPI is found.
    pub(crate) fn first(&self) -> &ProgramLine {
        // `split` yields at least one slice, and each became a program or an error.
        &self.programs[0]
    }

    /// The number of ranks, if all programs say theirs.
    pub(crate) fn rank_count(&self) -> Option<u64> {
        self.programs.iter().map(ProgramLine::rank_count).sum()
    }

    /// Whether an option places ranks on several nodes, so that fewer than all may run on this one.
    pub(crate) fn places_ranks(&self) -> bool {
        self.options().any(|option| option.meaning == OptionMeaning::Placement)
    }

    /// Whether options of `mpiexec` give a variable of this name to the ranks of all programs.
    pub(crate) fn gives_to_all(&self, name: &OsStr) -> bool {
        self.programs.iter().all(|program| program.gives_variable(name))
            || self.options().any(|option| {
                option.meaning == OptionMeaning::SetVariableOfAll && option.variable() == Some(name)
            })
    }

    /// Whether an option of `mpiexec` gives ranks the variable of this name that the launcher itself has.
    pub(crate) fn hands_on(&self, name: &OsStr) -> bool {
        self.options()
            .any(|option| option.meaning == OptionMeaning::ExportVariable && option.value() == Some(name))
    }

    fn options(&self) -> impl Iterator<Item = &MpiexecOption> {
        self.programs.iter().flat_map(|program| &program.options)
    }
}

impl ProgramLine {
    fn parse(words: &[OsString]) -> Result<ProgramLine, RunError> {
        let mut options = Vec::new();
        let mut unknown_option = None;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            if word == "--" {
                return ProgramLine::new(options, &words[at + 1..], unknown_option);
            }
            if word == "-" || !word.as_bytes().starts_with(b"-") {
                break;
            }
            let (name, has_value) = name_of(word);
            if is_own(name) {
                return Err(RunError::MisplacedOption { option: word.clone() });
            }
            let known = name.to_str().and_then(mpiexec_options::lookup);
            let (value_count, meaning) = known.unwrap_or((0, OptionMeaning::Other));
            let value_count = if has_value { 0 } else { value_count };
            if known.is_none() {
                unknown_option.get_or_insert_with(|| word.clone());
            }
            let Some(values) = words.get(at + 1..at + 1 + value_count) else {
                return Err(RunError::MissingValue { option: word.clone() });
            };
            options.push(MpiexecOption { word: word.clone(), values: values.to_vec(), meaning });
            at += 1 + value_count;
        }
        // An unknown option may take values; a `--` further on then tells where the program really is.
        if unknown_option.is_some()
            && let Some(separator) = words[at..].iter().position(|word| word == "--")
        {
            options.extend(words[at..at + separator].iter().map(|word| MpiexecOption {
                word: word.clone(),
                values: Vec::new(),
                meaning: OptionMeaning::Other,
            }));
            at += separator + 1;
        }
        ProgramLine::new(options, &words[at..], unknown_option)
    }

    fn new(
        options: Vec<MpiexecOption>,
        rest: &[OsString],
        unknown_option: Option<OsString>,
    ) -> Result<ProgramLine, RunError> {
        let (program, arguments) = rest.split_first().ok_or(RunError::NoProgram { unknown_option })?;
        Ok(ProgramLine { options, program: program.clone(), arguments: arguments.to_vec() })
    }

    /// The value of the last option with this meaning.
    pub(crate) fn value_of(&self, meaning: OptionMeaning) -> Option<&OsStr> {
        self.options.iter().rev().find(|option| option.meaning == meaning).and_then(MpiexecOption::value)
    }

    /// Whether one of the program's options gives its ranks a variable of this name.
    pub(crate) fn gives_variable(&self, name: &OsStr) -> bool {
        self.options.iter().any(|option| option.variable().is_some_and(|given| given == name))
    }

    fn rank_count(&self) -> Option<u64> {
        self.value_of(OptionMeaning::RankCount)?.to_str()?.parse().ok()
    }
}

impl MpiexecOption {
    /// An option of `mpiexec` that svmio adds.
    pub(crate) fn added(word: &str, values: impl IntoIterator<Item = OsString>) -> MpiexecOption {
        MpiexecOption {
            word: word.into(),
            values: values.into_iter().collect(),
            meaning: OptionMeaning::Other,
        }
    }

    /// The words of the option, as `mpiexec` gets them.
    pub(crate) fn words(&self) -> impl Iterator<Item = &OsString> {
        std::iter::once(&self.word).chain(&self.values)
    }

    /// The name of the variable that the option gives to the ranks.
    pub(crate) fn variable(&self) -> Option<&OsStr> {
        match self.meaning {
            OptionMeaning::SetVariable | OptionMeaning::SetVariableOfAll | OptionMeaning::ExportVariable => {
                let text = self.value()?.as_bytes();
                text.split(|byte| *byte == b'=').next().map(OsStr::from_bytes)
            }
            _ => None,
        }
    }

    /// The option's name, without dashes.
    pub(crate) fn name(&self) -> &OsStr {
        name_of(&self.word).0
    }

    /// The first value, typed as a word of its own or after `=`.
    pub(crate) fn value(&self) -> Option<&OsStr> {
        match self.values.first() {
            Some(value) => Some(value),
            None => {
                let word = self.word.as_bytes();
                let equals = word.iter().position(|byte| *byte == b'=')?;
                Some(OsStr::from_bytes(&word[equals + 1..]))
            }
        }
    }
}

/// Whether `svmio run` itself has a long option of this name: among `mpiexec`'s it is a mistake worth a clear word.
fn is_own(name: &OsStr) -> bool {
    let run = RunArguments::augment_args(clap::Command::new("run"));
    run.get_arguments().filter_map(clap::Arg::get_long).any(|own| name == own)
}

/// An option's name without its dashes, and whether `=VALUE` follows it in the same word.
fn name_of(word: &OsStr) -> (&OsStr, bool) {
    let bytes = word.as_bytes();
    let bytes = bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-")).unwrap_or(bytes);
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(equals) => (OsStr::from_bytes(&bytes[..equals]), true),
        None => (OsStr::from_bytes(bytes), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<MpiexecLine, RunError> {
        MpiexecLine::parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    /// The line with the options' words, the program and the arguments joined by `|`.
    fn parts(line: &str) -> String {
        let parsed = parse(line).unwrap();
        let program = parsed.first();
        let join = |words: Vec<&OsString>| {
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        [
            join(program.options.iter().flat_map(MpiexecOption::words).collect()),
            program.program.to_str().unwrap().to_owned(),
            join(program.arguments.iter().collect()),
        ]
        .join("|")
    }

    #[test]
    fn finds_the_program_with_and_without_the_separator() {
        for (line, expected) in [
            ("./app", "|./app|"),
            ("-- ./app", "|./app|"),
            ("-n 4 ./app -n 5", "-n 4|./app|-n 5"),
            ("-n 4 -- ./app -- x", "-n 4|./app|-- x"),
            ("-n 4 ./app -- x", "-n 4|./app|-- x"),
            (
                "--mca io romio321 -x A=b --oversubscribe ./app",
                "--mca io romio321 -x A=b --oversubscribe|./app|",
            ),
            ("-genv A b -n=4 ./app", "-genv A b -n=4|./app|"),
            ("--new-option value -n 2 -- ./app", "--new-option value -n 2|./app|"),
            ("--new-flag -n 2 ./app", "--new-flag -n 2|./app|"),
            ("-n 1 ./a x : -n 2 ./b", "-n 1|./a|x"),
        ] {
            assert_eq!(parts(line), expected, "{line}");
        }
    }

    #[test]
    fn counts_the_ranks_of_all_programs() {
        assert_eq!(parse("-n 1 ./a : --np 2 ./b : -np=4 ./c").unwrap().rank_count(), Some(7));
        assert_eq!(parse("-n 1 ./a : ./b").unwrap().rank_count(), None);
        assert_eq!(parse("-n many ./a").unwrap().rank_count(), None);
        assert!(parse("-n 4 -ppn 2 ./a").unwrap().places_ranks());
        assert!(!parse("-n 4 ./a -ppn 2").unwrap().places_ranks());
    }

    #[test]
    fn knows_the_variables_given() {
        let line = parse("-genv A 1 -x B=2 -x C ./a D : -env E 5 ./b").unwrap();
        for (name, given) in [
            ("A", [true, false]),
            ("B", [true, false]),
            ("C", [true, false]),
            ("D", [false, false]),
            ("E", [false, true]),
        ] {
            let name = OsStr::new(name);
            assert_eq!([0, 1].map(|at| line.programs[at].gives_variable(name)), given, "{name:?}");
            assert_eq!(line.gives_to_all(name), name == "A", "{name:?}");
            assert_eq!(line.hands_on(name), name == "C", "{name:?}");
        }
        let line = parse("-x A=1 ./a : -x A=2 -x B ./b : -x A ./c").unwrap();
        assert!(line.gives_to_all(OsStr::new("A")) && !line.gives_to_all(OsStr::new("B")));
        assert!(parse("-n 1 ./a : -genv A 1 ./b").unwrap().gives_to_all(OsStr::new("A")));
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(matches!(parse("-n 4"), Err(RunError::NoProgram { unknown_option: None })));
        assert!(matches!(parse("-n 4 --"), Err(RunError::NoProgram { .. })));
        assert!(matches!(parse("--odd -n 4"), Err(RunError::NoProgram { unknown_option: Some(_) })));
        assert!(matches!(parse("-n"), Err(RunError::MissingValue { .. })));
        for own in ["--dry-run", "--servers a,b", "--stats", "--store=/x", "--collectives", "--no-yield"] {
            let line = format!("-n 4 {own} ./a");
            assert!(matches!(parse(&line), Err(RunError::MisplacedOption { .. })), "{line}");
        }
        assert!(matches!(parse("./a :"), Err(RunError::NoProgram { .. })));
    }
}
