//! Barriers and collectives of processes on one node: svmio beside XHC's design, both of Debian's MPIs, and the newest ones
//! where `SVMIO_MPICH5` and `SVMIO_OPENMPI5` name their virtual environments, in turn. Prints a table in Markdown; the
//! same, as JSON too, goes as `collectives.md` and `collectives.json`, with options in their names, into the directory that
//! `SVMIO_FIGURES` names.
//!
//! With `--adapters`: one MPI program with each MPI's own collectives and with svmio's, by each adapter; the table goes
//! to `collectives-adapters.md` and `collectives-adapters.json`.
//!
//! With `--aims` it fails where an aim is missed, with `--check` where one is missed by far.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use svmio_benches::aims::{self, Judging};
use svmio_benches::collectives::report::{self, Outcome};
use svmio_benches::collectives::{Conditions, Contender, NAMES, adapters, hosts, member};
use svmio_benches::figures;
use svmio_benches::interleaved::{self, in_turn, median};
use svmio_benches::left_out;
use svmio_benches::phase::{self, Phase};

/// With how many ranks by default.
const RANKS: &str = "2,4,8,16";

/// How long each is repeated by default.
const MILLISECONDS: u32 = 100;

/// svmio's collectives beside those of MPIs
#[derive(Debug, Parser)]
#[command(name = "collectives")]
struct CommandLine {
    /// Barriers over four hosts instead (as root), beside what they are predicted to cost
    #[arg(long, conflicts_with_all = ["only", "against", "ranks", "busy", "sessions"])]
    hosts: bool,
    /// Collectives of data over four hosts instead (as root), by every algorithm and by the one that svmio takes
    #[arg(long, conflicts_with_all = ["only", "against", "ranks", "busy", "sessions", "hosts", "adapters"])]
    data: bool,
    /// An unmodified MPI program's collectives instead: each MPI's own, and svmio's by preload and by the component of
    /// Open MPI
    #[arg(long, conflicts_with = "hosts")]
    adapters: bool,
    /// Few ranks and runs: only to see that nothing is far off; with --adapters, that all works, however
    /// fast
    #[arg(long)]
    check: bool,
    /// A failure where an aim is missed
    #[arg(long, conflicts_with = "check")]
    aims: bool,
    /// Only these [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(NAMES))]
    only: Vec<String>,
    /// Only these MPIs (or "XHC's design"), and svmio [default: all]
    #[arg(long, value_name = "MPI", value_delimiter = ',')]
    against: Vec<String>,
    /// How often each contender is run
    #[arg(long, default_value_t = interleaved::REPETITIONS, value_parser = interleaved::at_least_one::<usize>)]
    runs: usize,
    /// With how many ranks
    #[arg(long, value_name = "RANKS", value_delimiter = ',', default_value = RANKS)]
    ranks: Vec<u32>,
    /// How long each collective is repeated in a run
    #[arg(long, default_value_t = MILLISECONDS)]
    milliseconds: u32,
    /// With a process beside them that computes all the time
    #[arg(long)]
    busy: bool,
    /// With each rank, svmio's and the MPIs', in a session of its own, as Hydra starts them
    #[arg(long)]
    sessions: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((word, rest)) = arguments.split_first()
        && word == member::WORD
    {
        member::run(rest);
        return ExitCode::SUCCESS;
    }
    if let Some((word, rest)) = arguments.split_first()
        && word == hosts::member::WORD
    {
        hosts::member::run(rest);
        return ExitCode::SUCCESS;
    }
    let command_line = CommandLine::parse();
    if (command_line.hosts || command_line.data) && !left_out::is_root() {
        return left_out::all("collectives over four hosts");
    }
    match &command_line {
        CommandLine { hosts: true, .. } => over_hosts(&command_line),
        CommandLine { data: true, .. } => data_over_hosts(&command_line),
        CommandLine { adapters: true, .. } => by_adapters(command_line),
        _ => measure(command_line),
    }
}

fn measure(mut command_line: CommandLine) -> ExitCode {
    let name = command_line.table("collectives");
    if command_line.check {
        (command_line.runs, command_line.ranks) = (3, vec![2, 4]);
    }
    let mut contenders = Contender::all();
    let is_ours = |contender: &Contender| matches!(contender, Contender::Svmio);
    command_line
        .check_against(contenders.iter().filter(|contender| !is_ours(contender)).map(Contender::name));
    contenders.retain(|contender| is_ours(contender) || command_line.is_against(contender.name()));
    let was_calm = phase::is_calm();
    println!("cargo run --release -p svmio-benches --bin collectives\n");
    println!(
        "Medians of {} runs of each, in turn; microseconds. At the beginning {}.\n",
        command_line.runs,
        Phase::now()
    );
    let outcomes: Vec<Outcome> =
        command_line.ranks.iter().map(|&ranks| outcome(&command_line, &contenders, ranks)).collect();
    let table = report::markdown(&outcomes);
    println!("{table}\nAt the end {}.", Phase::now());
    figures::keep(&name, &table, &report::json(&outcomes));
    let aims: Vec<_> = outcomes.iter().flat_map(Outcome::aims).collect();
    aims::end(command_line.judging(), &aims, was_calm)
}

/// How often each of svmio's barriers is repeated in a run over hosts.
const COUNT: u32 = 500;

fn over_hosts(command_line: &CommandLine) -> ExitCode {
    let runs = if command_line.check { 3 } else { command_line.runs };
    let was_calm = phase::is_calm();
    println!("cargo run --release -p svmio-benches --bin collectives -- --hosts\n");
    println!("Medians of {runs} runs of each, in turn. At the beginning {}.\n", Phase::now());
    let outcome = hosts::compare(runs, COUNT, command_line.milliseconds);
    println!("{}\nAt the end {}.", outcome.markdown(), Phase::now());
    let name = command_line.table("collectives-hosts");
    figures::keep(&name, &outcome.markdown(), &outcome.json());
    if let Some(directory) = figures::directory() {
        outcome.draw(&directory.join(format!("{name}.svg")));
    }
    aims::end(command_line.judging(), &outcome.aims(), was_calm)
}

/// How often each collective of data is repeated in a run over hosts.
const DATA_COUNT: u32 = 12;

fn data_over_hosts(command_line: &CommandLine) -> ExitCode {
    let runs = if command_line.check { 1 } else { command_line.runs };
    let was_calm = phase::is_calm();
    println!("cargo run --release -p svmio-benches --bin collectives -- --data\n");
    println!("Medians of {runs} runs. At the beginning {}.\n", Phase::now());
    let outcome = hosts::data::compare(runs, DATA_COUNT);
    println!("{}\nAt the end {}.", outcome.markdown(), Phase::now());
    let name = command_line.table("collectives-data");
    figures::keep(&name, &outcome.markdown(), &outcome.json());
    aims::end(command_line.judging(), &outcome.aims(), was_calm)
}

fn outcome(command_line: &CommandLine, contenders: &[Contender], ranks: u32) -> Outcome {
    let (names, conditions) = (command_line.names(), command_line.conditions());
    let phase = Phase::now();
    let runs = in_turn(command_line.runs, contenders.len(), |side| {
        phase::settle();
        contenders[side].run(&names, ranks, command_line.milliseconds, conditions)
    });
    let of_contender = |runs: &Vec<Vec<f64>>| {
        (0..names.len()).map(|name| median(runs.iter().map(|run| run[name]).collect())).collect()
    };
    let seconds = runs.iter().map(of_contender).collect();
    let contenders = contenders.iter().map(Contender::name).collect();
    Outcome { ranks, conditions, names, contenders, seconds, phase }
}

/// How long each collective is repeated in a run that only shows that all works.
const CHECK_MILLISECONDS: u32 = 5;

fn by_adapters(mut command_line: CommandLine) -> ExitCode {
    use adapters::report;
    let name = command_line.table("collectives-adapters");
    if command_line.check {
        (command_line.runs, command_line.ranks) = (1, vec![4]);
        command_line.milliseconds = CHECK_MILLISECONDS;
    }
    let mut contenders = adapters::Contender::all();
    command_line.check_against(contenders.iter().map(|contender| contender.mpi().name()));
    contenders.retain(|contender| command_line.is_against(contender.mpi().name()));
    let runs = command_line.runs;
    let conditions = command_line.conditions();
    let was_calm = phase::is_calm();
    println!(
        "cargo run --release -p svmio-benches --bin collectives -- --adapters{}\n",
        conditions.options()
    );
    println!("Medians of {runs} runs of each, in turn; microseconds. At the beginning {}.\n", Phase::now());
    let outcome = |&ranks: &u32| adapted(&command_line, &contenders, ranks);
    let outcomes: Vec<report::Outcome> = command_line.ranks.iter().map(outcome).collect();
    let table = report::markdown(&outcomes);
    println!("{table}\nAt the end {}.", Phase::now());
    figures::keep(&name, &table, &report::json(&outcomes));
    // So short a run says nothing of how fast they are.
    let code = if command_line.check {
        ExitCode::SUCCESS
    } else {
        let aims: Vec<_> = outcomes.iter().flat_map(report::Outcome::aims).collect();
        aims::end(command_line.judging(), &aims, was_calm)
    };
    let [ours, stock]: [Vec<&str>; 2] =
        [0, 1].map(|side| outcomes.iter().flat_map(|outcome| outcome.faults()[side].clone()).collect());
    stock.iter().for_each(|fault| eprintln!("\nwithout svmio: {fault}"));
    ours.iter().for_each(|fault| eprintln!("\nFAILED: {fault}"));
    if ours.is_empty() { code } else { ExitCode::from(aims::FAULTY) }
}

fn adapted(
    command_line: &CommandLine,
    contenders: &[adapters::Contender],
    ranks: u32,
) -> adapters::report::Outcome {
    let (names, conditions) = (command_line.names(), command_line.conditions());
    let phase = Phase::now();
    let runs = in_turn(command_line.runs, contenders.len(), |side| {
        if !command_line.check {
            phase::settle();
        }
        contenders[side].run(&names, ranks, command_line.milliseconds, conditions)
    });
    let runs = contenders.iter().cloned().zip(runs).collect();
    adapters::report::Outcome { ranks, conditions, names, runs, phase }
}

impl CommandLine {
    /// The name of the tables' files. A check has its own number of runs and ranks.
    fn table(&self, benchmark: &str) -> String {
        let is_asked = !self.check;
        let ranks = figures::joined(&self.ranks);
        let options = [
            (self.busy, "busy".to_owned()),
            (self.sessions, "sessions".to_owned()),
            (self.check, "check".to_owned()),
            (!self.only.is_empty(), figures::joined(&self.only)),
            (!self.against.is_empty(), format!("against-{}", figures::joined(&self.against))),
            (is_asked && ranks != RANKS, format!("ranks-{ranks}")),
            (is_asked && self.runs != interleaved::REPETITIONS, format!("runs-{}", self.runs)),
            (self.milliseconds != MILLISECONDS, format!("milliseconds-{}", self.milliseconds)),
        ];
        figures::name(benchmark, &options)
    }

    fn names(&self) -> Vec<&'static str> {
        let is_wanted = |name: &&str| self.only.is_empty() || self.only.iter().any(|only| only == name);
        NAMES.into_iter().filter(is_wanted).collect()
    }

    fn is_against(&self, mpi: &str) -> bool {
        self.against.is_empty() || self.against.iter().any(|wanted| wanted == mpi)
    }

    /// Ends the process where one is to be compared with that is not among these.
    fn check_against<'n>(&self, there: impl Iterator<Item = &'n str>) {
        if let Err(why) = self.known(there) {
            Self::command().error(ErrorKind::InvalidValue, why).exit();
        }
    }

    fn known<'n>(&self, there: impl Iterator<Item = &'n str>) -> Result<(), String> {
        let there: BTreeSet<&str> = there.collect();
        let Some(unknown) = self.against.iter().find(|name| !there.contains(name.as_str())) else {
            return Ok(());
        };
        let there: Vec<&str> = there.into_iter().collect();
        Err(format!(
            "there is no {unknown} to compare with; there are {}; mpich5 and openmpi5 are there where SVMIO_MPICH5 and \
             SVMIO_OPENMPI5 name their virtual environments, which `cargo xtask wheels` makes in target/venv",
            there.join(", ")
        ))
    }

    fn judging(&self) -> Judging {
        Judging::of(self.aims, self.check)
    }

    fn conditions(&self) -> Conditions {
        Conditions { is_busy: self.busy, has_sessions: self.sessions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_not_there_is_not_left_out_unseen() {
        let known = |against: &str| {
            let line = CommandLine::parse_from(["collectives", "--against", against]);
            line.known(["mpich", "openmpi", "XHC's design", "mpich"].into_iter())
        };
        assert_eq!(known("mpich,XHC's design"), Ok(()));
        for unknown in ["mpich,mpich5", "mpich5", "mpihc", "svmio"] {
            let why = known(unknown).unwrap_err();
            assert!(why.contains("there are XHC's design, mpich, openmpi; "), "{unknown}: {why}");
        }
        assert_eq!(CommandLine::parse_from(["collectives"]).known([].into_iter()), Ok(()));
    }
}
