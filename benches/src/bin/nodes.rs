//! Files over four hosts with links of 1 Gbit/s: svmio beside GlusterFS and one server's directory in what
//! applications do, beside iperf3 in reading, beside messages in writing small pieces; and what it costs the
//! processors. Prints tables in Markdown. Needs root.
//!
//! What is told goes as `nodes.md`, and as `nodes.json` with what is aimed at, with options in their names, into the
//! directory that `SVMIO_FIGURES` names.
//!
//! With `--aims` a failure where an aim is missed; with `--check` fewer and smaller runs, and a failure where one is missed
//! by far; with `--only PART,...` some of `processor`, `remote`, `pieces`, `apart`,
//! `application`.

use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use svmio_benches::aims::{self, Aim, Extent, Judging};
use svmio_benches::figures::{self, Record, joined};
use svmio_benches::interleaved::REPETITIONS;
use svmio_benches::left_out::{self, LeftOut};
use svmio_benches::nodes::bed::{self, Bed};
use svmio_benches::nodes::{apart, application, pieces, processor, remote};
use svmio_benches::phase::{self, Phase};
use svmio_benches::told;
use svmio_tests::{Installation, Mpi, Program};

type Part = fn(&Bed, &Program, Extent, &mut Record) -> Vec<Aim>;

const PARTS: [(&str, Part); 5] = [
    ("processor", processor::compare),
    ("remote", remote::compare),
    ("pieces", pieces::compare),
    ("apart", apart::compare),
    (APPLICATION, application::compare),
];

/// The one that needs other file systems.
const APPLICATION: &str = "application";

/// Files over four hosts with links of 1 Gbit/s (as root)
#[derive(Debug, Parser)]
#[command(name = "nodes")]
struct CommandLine {
    /// A failure where an aim is missed
    #[arg(long, conflicts_with = "check")]
    aims: bool,
    /// Fewer and smaller runs, and a failure where an aim is missed by far
    #[arg(long)]
    check: bool,
    /// Only these [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = PossibleValuesParser::new(PARTS.map(|(name, _)| name)))]
    only: Vec<String>,
}

fn main() -> ExitCode {
    if bed::cleaned_up() {
        return ExitCode::SUCCESS;
    }
    let CommandLine { aims: judges, check, only } = CommandLine::parse();
    let extent = Extent::of(check);
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let parts: Vec<_> = PARTS.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    if !left_out::is_root() {
        return left_out::all("files over four hosts");
    }
    let was_calm = phase::is_calm();
    // Rather now than after minutes.
    Installation::get();
    println!("cargo run --release -p svmio-benches --bin nodes\n");
    let others = [(check, "check".to_owned()), (!only.is_empty(), joined(&only))];
    let mut record = Record::new(figures::name("nodes", &others));
    record.tell(format_args!(
        "Medians of {REPETITIONS} runs of each side, in turn. At the beginning {}.",
        Phase::now()
    ));
    let mut bed = Bed::new();
    let mut left_out = LeftOut::default();
    let programs = Mpi::DEBIAN.map(told::program);
    let mut aims = Vec::new();
    for (name, part) in parts {
        // Just before it is needed: the others are measured where this fails, and beside nothing else.
        if name == APPLICATION {
            if let Some(missing) = bed::missing() {
                left_out.add("files beside other file systems", &missing);
                continue;
            }
            bed.mount();
        }
        for program in &programs {
            aims.extend(part(&bed, program, extent, &mut record));
            record.keep(&aims);
        }
    }
    drop(bed);
    record.tell(format_args!("\nAt the end {}.", Phase::now()));
    record.keep(&aims);
    left_out.end(aims::end(Judging::of(judges, check), &aims, was_calm))
}
