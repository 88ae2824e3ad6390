//! Files on one node: svmio beside the stock drivers of both MPIs, the very same programs on the same file system, in
//! turn. Prints a table in Markdown; the same, as JSON too, and curves over the size of pieces go as `files.md`,
//! `files.json` and `files-*.svg` into the directory that `SVMIO_FIGURES` names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use svmio_benches::aims::{self, Extent};
use svmio_benches::files::outcome::Outcome;
use svmio_benches::files::place::{Kind, Place};
use svmio_benches::files::{BtClass, NAMES, Wanted, curves, measuring, report, workloads};
use svmio_benches::phase::Phase;
use svmio_benches::{interleaved, told};
use svmio_tests::{Installation, Mpi, Program};

/// svmio beside stock MPI-IO on one node
#[derive(Debug, Parser)]
#[command(name = "files")]
struct CommandLine {
    /// Small files, each once, with four ranks: only to see that everything works
    #[arg(long)]
    check: bool,
    /// Only these programs [default: all]
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',', value_parser = PossibleValuesParser::new(NAMES))]
    only: Vec<String>,
    /// Only what has an aim: no curves
    #[arg(long)]
    aims: bool,
    /// How often each keeper of files is run
    #[arg(long, default_value_t = interleaved::REPETITIONS, value_parser = at_least_one::<usize>)]
    runs: usize,
    /// With how many ranks
    #[arg(long, value_name = "RANKS", value_delimiter = ',', default_value = "2,4", value_parser = at_least_one::<u32>)]
    ranks: Vec<u32>,
    /// Where files lie: /dev/shm, the same with small pages for svmio, too, a tmpfs of 2 MiB pages (as root), a disk
    #[arg(long, value_name = "PLACE", value_delimiter = ',', default_value = "shm", value_parser = kind)]
    on: Vec<Kind>,
    /// Which directory of a disk
    #[arg(long, value_name = "DIRECTORY", default_value = "target/on-disk")]
    disk: PathBuf,
    /// Which classes of BT's
    #[arg(long, value_name = "CLASS", value_delimiter = ',', default_value = "W,A,B", value_parser = class)]
    classes: Vec<BtClass>,
}

fn at_least_one<T: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let number = text.parse::<T>().ok().filter(|number| *number >= T::from(1));
    number.ok_or_else(|| "a number above zero is needed".to_owned())
}

fn kind(text: &str) -> Result<Kind, String> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    kind.ok_or_else(|| format!("the places are {}", Kind::ALL.map(Kind::name).join(", ")))
}

fn class(text: &str) -> Result<BtClass, String> {
    let class = BtClass::ALL.into_iter().find(|class| class.name() == text);
    class.ok_or_else(|| format!("the classes are {}", BtClass::ALL.map(BtClass::name).join(", ")))
}

/// What the first use of a machine's memory is spared the measurements.
const WARM_UP: usize = 2 << 30;

fn main() -> ExitCode {
    let mut line = CommandLine::parse();
    let extent = if line.check { Extent::Check } else { Extent::Full };
    if extent == Extent::Check {
        line.runs = 1;
        line.ranks = vec![4];
    }
    // Rather now than after minutes.
    Installation::get();
    let programs = Mpi::DEBIAN.map(told::program);
    let wanted = Wanted {
        programs: line.only,
        ranks: line.ranks,
        extent,
        classes: line.classes,
        only_aims: line.aims,
    };
    let mut told = format!(
        "Medians of {} runs of each, in turn; svmio and the stock drivers on the same file system. A ratio tells how \
         many times as good svmio is as the best stock driver: of the same MPI, and the better of both.\n\
         `fresh` and `first`: a new file; `write`: the same again, `again`: a new one after another was deleted.\n\n\
         At the beginning {}.\n",
        line.runs,
        Phase::now()
    );
    println!("cargo run --release -p svmio-benches --bin files\n\n{told}");
    let mut outcomes = Vec::new();
    for &kind in &line.on {
        Place::with(kind, &line.disk, |place| {
            let (text, of_place) = measured(place, &programs, &wanted, line.runs);
            told.push_str(&text);
            outcomes.extend(of_place);
        });
    }
    let end = format!("\nAt the end {}.\n", Phase::now());
    println!("{end}");
    told.push_str(&end);
    if let Some(directory) = std::env::var_os("SVMIO_FIGURES") {
        keep(&told, &outcomes, Path::new(&directory));
    }
    let aims: Vec<_> = outcomes.iter().flat_map(Outcome::aims).collect();
    if extent == Extent::Full {
        aims::account(&aims);
    }
    judged(&outcomes)
}

/// Measures all that is wanted in a place, and prints it as it comes.
fn measured(place: &Place, programs: &[Program], wanted: &Wanted, runs: usize) -> (String, Vec<Outcome>) {
    let mut text = format!("\n{}: {}.\n\n{}\n", place.kind().name(), place.file_system(), report::head());
    print!("{text}");
    if wanted.extent == Extent::Full {
        place.warm_up(WARM_UP);
    }
    let mut outcomes = Vec::new();
    for workload in workloads(wanted, place.kind()) {
        let outcome = measuring::measure(place, programs, &workload, runs);
        let lines = report::lines(&outcome);
        print!("{lines}");
        text.push_str(&lines);
        outcomes.push(outcome);
    }
    (text, outcomes)
}

fn keep(told: &str, outcomes: &[Outcome], directory: &Path) {
    let failed = |error| panic!("{}: {error}", directory.display());
    fs::create_dir_all(directory).unwrap_or_else(failed);
    fs::write(directory.join("files.md"), told).unwrap_or_else(failed);
    fs::write(directory.join("files.json"), format!("{:#}\n", report::json(outcomes))).unwrap_or_else(failed);
    curves::draw(outcomes, directory).unwrap_or_else(|error| panic!("{error}"));
}

/// Fails where svmio did; tells where others did.
fn judged(outcomes: &[Outcome]) -> ExitCode {
    let faults = |of_svmio| outcomes.iter().flat_map(move |outcome| outcome.faults(of_svmio));
    for fault in faults(false) {
        println!("\nA stock driver's fault: {fault}");
    }
    let mut code = ExitCode::SUCCESS;
    for fault in faults(true) {
        println!("\nFAILED: {fault}");
        code = ExitCode::FAILURE;
    }
    code
}
