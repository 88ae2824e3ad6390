//! Files as memory: what a fault costs, beside the kernel's and a bare thread's with `userfaultfd`; how fast a file of
//! another host is gone through, beside iperf3; what threads gain that wait at the same time; what plain reads take of
//! which nothing is cached, by asking their home and without. Prints tables in Markdown; the same, as JSON too, goes as
//! `mapping.md` and `mapping.json`, with options in their names, into the directory that `SVMIO_FIGURES` names. Needs root.

use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use svmio_benches::aims::{self, Aim, Extent};
use svmio_benches::figures::{self, joined};
use svmio_benches::interleaved::{self, in_turn};
use svmio_benches::left_out::{self, LeftOut};
use svmio_benches::mapping::report::{Bare, Faults, Misses, Random, Scan, Straight};
use svmio_benches::mapping::{Bed, Part, member};
use svmio_benches::phase::{self, Phase};

const PARTS: [&str; 6] = ["faults", "scan", "random", "writes", "reads", "misses"];
const BEDS: [&str; 4] = ["shm", "loopback", "hosts", "far"];

/// Between which nodes a part is measured.
fn beds_of(part: &str) -> &'static [&'static str] {
    match part {
        "faults" | "misses" => &BEDS[..2],
        "scan" => &BEDS[2..3],
        "writes" | "reads" => &BEDS[..3],
        _ => &BEDS,
    }
}

/// What a check takes: the rest has no aims, or only such as hold on a quiet machine.
const CHECKED: [&str; 3] = ["faults", "scan", "random"];

/// Files as memory
#[derive(Debug, Parser)]
#[command(name = "mapping")]
struct CommandLine {
    /// Fewer and shorter runs, and a failure where an aim is missed by far
    #[arg(long)]
    check: bool,
    /// Only these [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = PossibleValuesParser::new(PARTS))]
    only: Vec<String>,
    /// Only between nodes that reach each other so [default: all]
    #[arg(long, value_name = "BED", value_delimiter = ',', value_parser = PossibleValuesParser::new(BEDS))]
    bed: Vec<String>,
    /// How often each is run
    #[arg(long, default_value_t = interleaved::REPETITIONS, value_parser = interleaved::at_least_one::<usize>)]
    runs: usize,
}

/// What was measured of a part.
struct Outcome {
    table: String,
    json: Value,
    aims: Vec<Aim>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((word, rest)) = arguments.split_first()
        && word == member::WORD
    {
        member::run(rest);
        return ExitCode::SUCCESS;
    }
    let mut command_line = CommandLine::parse();
    let extent = Extent::of(command_line.check);
    if command_line.check {
        command_line.runs = 1;
    }
    if !left_out::is_root() {
        return left_out::all("files as memory");
    }
    let was_calm = phase::is_calm();
    println!("cargo run --release -p svmio-benches --bin mapping\n");
    println!("Medians of {} runs of each, in turn. At the beginning {}.\n", command_line.runs, Phase::now());
    let mut outcomes = Vec::new();
    let mut left_out = LeftOut::default();
    for part in command_line.lacking() {
        left_out.add(part, &format!("it is measured on {} only", beds_of(part).join(", ")));
    }
    for name in PARTS.into_iter().filter(|name| command_line.wants(name)) {
        let beds: Vec<Bed> = command_line.beds(name).map(bed).collect();
        if beds.is_empty() {
            continue;
        }
        let part = match name {
            "faults" => faults(&command_line, &beds),
            "scan" => scan(&command_line, &beds),
            "writes" => writes(&command_line, &beds),
            "reads" => reads(&command_line, &beds),
            "misses" => misses(&command_line, &beds),
            _ => random(&command_line, &beds),
        };
        part.iter().for_each(|outcome| println!("{}", outcome.table));
        outcomes.extend(part);
        // All of it takes long, and what is measured is not to be lost.
        keep(&command_line.table(), &outcomes);
    }
    println!("At the end {}.", Phase::now());
    let aims: Vec<Aim> = outcomes.into_iter().flat_map(|outcome| outcome.aims).collect();
    left_out.end(aims::end(extent, &aims, was_calm))
}

impl CommandLine {
    /// The name of the tables' files.
    fn table(&self) -> String {
        let options = [
            (self.check, "check".to_owned()),
            (!self.only.is_empty(), joined(&self.only)),
            (!self.bed.is_empty(), format!("bed-{}", joined(&self.bed))),
            (!self.check && self.runs != interleaved::REPETITIONS, format!("runs-{}", self.runs)),
        ];
        figures::name("mapping", &options)
    }

    /// How often each way is taken in a run.
    fn rounds(&self) -> usize {
        if self.check { 3 } else { 7 }
    }

    /// Those of a part that are wanted.
    fn beds(&self, part: &str) -> impl Iterator<Item = &'static str> {
        let is_wanted = |name: &&str| self.bed.is_empty() || self.bed.iter().any(|only| only == *name);
        beds_of(part).iter().copied().filter(is_wanted)
    }

    /// What is asked for by its name, and is not measured on any bed that is wanted.
    fn lacking(&self) -> impl Iterator<Item = &str> {
        self.only.iter().map(String::as_str).filter(|part| self.beds(part).next().is_none())
    }

    fn wants(&self, name: &str) -> bool {
        let by_default = !self.check || CHECKED.contains(&name);
        if self.only.is_empty() { by_default } else { self.only.iter().any(|only| only == name) }
    }
}

fn bed(name: &str) -> Bed {
    match name {
        "shm" => Bed::shm(),
        "loopback" => Bed::loopback(),
        "far" => Bed::far(),
        _ => Bed::hosts(),
    }
}

fn faults(command_line: &CommandLine, beds: &[Bed]) -> Vec<Outcome> {
    let rounds = if command_line.check { 3 } else { 25 };
    let runs = in_turn(command_line.runs, beds.len(), |side| {
        phase::settle();
        beds[side].run(Part::Faults { rounds, count: 200 })
    });
    let faults = beds.iter().zip(runs).map(|(bed, runs)| Faults { bed: bed.name(), runs });
    faults.map(|it| Outcome { table: it.markdown(), json: it.json(), aims: it.aims() }).collect()
}

fn scan(command_line: &CommandLine, beds: &[Bed]) -> Vec<Outcome> {
    let bytes = if command_line.check { 128 << 20 } else { 1 << 30 };
    let of_bed = |bed: &Bed| {
        let mut runs = in_turn(command_line.runs, 2, |side| match side {
            0 => bed.line_rate(),
            _ => bed.run(Part::Scan { bytes }),
        });
        let mapping = runs.pop().unwrap_or_default();
        let it = Scan { bytes, mapping, line: runs.pop().unwrap_or_default() };
        Outcome { table: it.markdown(), json: it.json(), aims: it.aims() }
    };
    beds.iter().map(of_bed).collect()
}

fn random(command_line: &CommandLine, beds: &[Bed]) -> Vec<Outcome> {
    let count = if command_line.check { 200 } else { 2000 };
    let runs = in_turn(command_line.runs, beds.len(), |side| {
        phase::settle();
        beds[side].run(Part::Random { count })
    });
    let line =
        |bed: &Bed| matches!(bed, Bed::Hosts(..) | Bed::Far(..)).then(|| bed.line_rate() * 1e6 / 4096.0);
    let rates = beds.iter().zip(runs).map(|(bed, runs)| Random { bed: bed.name(), line: line(bed), runs });
    rates.map(|it| Outcome { table: it.markdown(), json: it.json(), aims: it.aims() }).collect()
}

fn writes(command_line: &CommandLine, beds: &[Bed]) -> Vec<Outcome> {
    let rounds = command_line.rounds();
    let runs = in_turn(command_line.runs, beds.len(), |side| {
        phase::settle();
        beds[side].run(Part::Writes { rounds })
    });
    let writes = beds.iter().zip(runs).map(|(bed, runs)| Straight { bed: bed.name(), runs });
    writes.map(|it| Outcome { table: it.markdown(), json: it.json(), aims: it.aims() }).collect()
}

fn reads(command_line: &CommandLine, beds: &[Bed]) -> Vec<Outcome> {
    let rounds = 10 * command_line.rounds();
    let runs = in_turn(command_line.runs, beds.len(), |side| {
        phase::settle();
        beds[side].run(Part::Reads { rounds })
    });
    let reads = beds.iter().zip(runs).map(|(bed, runs)| Bare { bed: bed.name(), runs });
    reads.map(|it| Outcome { table: it.markdown(), json: it.json(), aims: Vec::new() }).collect()
}

fn misses(command_line: &CommandLine, beds: &[Bed]) -> Vec<Outcome> {
    let rounds = if command_line.check { 3 } else { 11 };
    let runs = in_turn(command_line.runs, beds.len(), |side| {
        phase::settle();
        beds[side].run(Part::Misses { rounds })
    });
    let misses = beds.iter().zip(runs).map(|(bed, runs)| Misses { bed: bed.name(), runs });
    misses.map(|it| Outcome { table: it.markdown(), json: it.json(), aims: Vec::new() }).collect()
}

fn keep(name: &str, outcomes: &[Outcome]) {
    let tables: Vec<&str> = outcomes.iter().map(|outcome| outcome.table.as_str()).collect();
    let values: Vec<&Value> = outcomes.iter().map(|outcome| &outcome.json).collect();
    figures::keep(name, &tables.join("\n"), &json!({ "measurements": values }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_and_not_measured_there_is_left_out() {
        let lacking = |words: &[&str]| {
            let line = CommandLine::parse_from([&["mapping", "--check"], words].concat());
            line.lacking().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lacking(&["--only", "scan", "--bed", "shm"]), ["scan"]);
        assert_eq!(lacking(&["--only", "faults,random", "--bed", "hosts,far"]), ["faults"]);
        assert_eq!(lacking(&["--only", "faults,scan"]), [""; 0]);
        assert_eq!(lacking(&["--bed", "hosts"]), [""; 0]);
    }

    #[test]
    fn something_is_measured_on_each_bed() {
        for bed in BEDS {
            assert!(CHECKED.iter().any(|part| beds_of(part).contains(&bed)), "{bed}");
        }
    }
}
