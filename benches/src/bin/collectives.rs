//! Barriers and collectives of processes on one node: svmio beside both of Debian's MPIs, and beside the newest ones
//! where `SVMIO_MPICH5` and `SVMIO_OPENMPI5` name their virtual environments, in turn. Prints a table in Markdown; the
//! same, as JSON too, goes as `collectives.md` and `collectives.json` into the directory that `SVMIO_FIGURES` names.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use svmio_benches::aims::{self, Extent};
use svmio_benches::collectives::report::{self, Outcome};
use svmio_benches::collectives::{Conditions, Contender, NAMES, hosts, member};
use svmio_benches::interleaved::{self, in_turn, median};
use svmio_benches::phase::{self, Phase};

/// svmio's collectives beside those of MPIs
#[derive(Debug, Parser)]
#[command(name = "collectives")]
struct CommandLine {
    /// Barriers over four hosts instead (as root), beside what they are predicted to cost
    #[arg(long, conflicts_with_all = ["only", "against", "ranks", "busy", "sessions"])]
    hosts: bool,
    /// Few ranks, each contender once: only to see that nothing is far off
    #[arg(long)]
    check: bool,
    /// Only these [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(NAMES))]
    only: Vec<String>,
    /// Only these contenders, and svmio [default: all]
    #[arg(long, value_name = "MPI", value_delimiter = ',')]
    against: Vec<String>,
    /// How often each contender is run
    #[arg(long, default_value_t = interleaved::REPETITIONS)]
    runs: usize,
    /// With how many ranks
    #[arg(long, value_name = "RANKS", value_delimiter = ',', default_value = "2,4,8,16")]
    ranks: Vec<u32>,
    /// How long each collective is repeated in a run
    #[arg(long, default_value_t = 100)]
    milliseconds: u32,
    /// With a process beside them that computes all the time
    #[arg(long)]
    busy: bool,
    /// With svmio's ranks in sessions of their own, as Hydra starts its
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
    if command_line.hosts { over_hosts(&command_line) } else { measure(command_line) }
}

fn measure(mut command_line: CommandLine) -> ExitCode {
    let extent = if command_line.check { Extent::Check } else { Extent::Full };
    if command_line.check {
        (command_line.runs, command_line.ranks) = (1, vec![2, 4]);
    }
    let was_calm = phase::is_calm();
    println!("cargo run --release -p svmio-benches --bin collectives\n");
    println!(
        "Medians of {} runs of each, in turn; microseconds. At the beginning {}.\n",
        command_line.runs,
        Phase::now()
    );
    let contenders: Vec<Contender> = Contender::all()
        .into_iter()
        .filter(|contender| {
            let name = contender.name();
            name == "svmio"
                || command_line.against.is_empty()
                || command_line.against.iter().any(|wanted| wanted == name)
        })
        .collect();
    let outcomes: Vec<Outcome> =
        command_line.ranks.iter().map(|&ranks| outcome(&command_line, &contenders, ranks)).collect();
    let table = report::markdown(&outcomes);
    println!("{table}\nAt the end {}.", Phase::now());
    if let Some(directory) = std::env::var_os("SVMIO_FIGURES") {
        write(&PathBuf::from(directory), &table, &outcomes);
    }
    let aims: Vec<_> = outcomes.iter().flat_map(Outcome::aims).collect();
    aims::end(extent, &aims, was_calm)
}

/// How often each of svmio's barriers is repeated in a run over hosts.
const COUNT: u32 = 500;

fn over_hosts(command_line: &CommandLine) -> ExitCode {
    let extent = if command_line.check { Extent::Check } else { Extent::Full };
    let runs = if command_line.check { 3 } else { command_line.runs };
    let was_calm = phase::is_calm();
    println!("cargo run --release -p svmio-benches --bin collectives -- --hosts\n");
    println!("Medians of {runs} runs of each, in turn. At the beginning {}.\n", Phase::now());
    let outcome = hosts::compare(runs, COUNT, command_line.milliseconds);
    println!("{}\nAt the end {}.", outcome.markdown(), Phase::now());
    if let Some(directory) = std::env::var_os("SVMIO_FIGURES") {
        outcome.write(&PathBuf::from(directory));
    }
    aims::end(extent, &outcome.aims(), was_calm)
}

fn outcome(command_line: &CommandLine, contenders: &[Contender], ranks: u32) -> Outcome {
    let wanted =
        |name: &&str| command_line.only.is_empty() || command_line.only.iter().any(|only| only == name);
    let names: Vec<&'static str> = NAMES.into_iter().filter(wanted).collect();
    let conditions = Conditions { is_busy: command_line.busy, has_sessions: command_line.sessions };
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

fn write(directory: &PathBuf, table: &str, outcomes: &[Outcome]) {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    };
    fs::create_dir_all(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    write("collectives.md", table);
    write("collectives.json", &format!("{:#}\n", report::json(outcomes)));
}
