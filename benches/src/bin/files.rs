//! Files on one node: svmio beside the stock drivers of both MPIs, the very same programs on the same file system, in
//! turn. Prints a table in Markdown; the same, as JSON too, and curves over the size of pieces go as `files.md`,
//! `files.json` and `files-*.svg`, with options in their names, into the directory that `SVMIO_FIGURES` names.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use svmio_benches::aims::{self, Judging};
use svmio_benches::figures::{self, joined};
use svmio_benches::files::earlier::{self, Earlier};
use svmio_benches::files::measuring::{self, Measuring};
use svmio_benches::files::outcome::{Counting, Outcome};
use svmio_benches::files::place::{Kind, Place};
use svmio_benches::files::{Amount, BtClass, NAMES, Wanted, curves, lacking, report, workloads};
use svmio_benches::interleaved::at_least_one;
use svmio_benches::left_out::LeftOut;
use svmio_benches::phase::{self, Phase};
use svmio_benches::settings::Settings;
use svmio_benches::{interleaved, told};
use svmio_tests::{Installation, Mpi};

/// Where files lie on a disk by default.
const DISK: &str = "target/on-disk";

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
    /// Only what has an aim: no curves; a failure where one is missed
    #[arg(long, conflicts_with = "check")]
    aims: bool,
    /// A few rows with smaller files, two ranks and three runs, in half a minute: a failure where svmio is not nearly
    /// what it was
    #[arg(long, conflicts_with_all = ["check", "aims", "ranks", "on"])]
    short: bool,
    /// Go on with what an interrupted run of the same build has kept in SVMIO_FIGURES
    #[arg(long)]
    resume: bool,
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
    #[arg(long, value_name = "DIRECTORY", default_value = DISK)]
    disk: PathBuf,
    /// Which classes of BT's
    #[arg(long, value_name = "CLASS", value_delimiter = ',', default_value = "W,A,B", value_parser = class)]
    classes: Vec<BtClass>,
}

impl CommandLine {
    /// The name of the table's files, by what is not as it is without options: a part does not overwrite the whole.
    fn table(&self, settings: &Settings) -> String {
        let ranks = joined(&self.ranks);
        let places = joined(&self.on.iter().map(|kind| kind.name()).collect::<Vec<_>>());
        let classes = joined(&self.classes.iter().map(|class| class.name()).collect::<Vec<_>>());
        // A check, and a short look, have their own number of runs.
        let has_runs = !self.check && !self.short && self.runs != interleaved::REPETITIONS;
        let options = [
            (!self.only.is_empty(), joined(&self.only)),
            (classes != "W,A,B", format!("classes-{classes}")),
            (ranks != "2,4", format!("ranks-{ranks}")),
            (places != "shm", format!("on-{places}")),
            (self.disk != Path::new(DISK), format!("disk-{}", self.disk.display())),
            (has_runs, format!("runs-{}", self.runs)),
            (self.aims, "aims".to_owned()),
            (self.check, "check".to_owned()),
            (self.short, "short".to_owned()),
            (!settings.is_empty(), settings.words()),
        ];
        figures::name("files", &options)
    }

    fn amount(&self) -> Amount {
        match self {
            CommandLine { check: true, .. } => Amount::Check,
            CommandLine { short: true, .. } => Amount::Short,
            CommandLine { aims: true, .. } => Amount::Aims,
            _ => Amount::All,
        }
    }
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
    let amount = line.amount();
    match amount {
        Amount::All | Amount::Aims => {}
        Amount::Short => (line.runs, line.ranks) = (interleaved::CHECKED, vec![2]),
        Amount::Check => (line.runs, line.ranks) = (1, vec![4]),
    }
    let was_calm = phase::is_calm();
    let settings = Settings::of_environment();
    let name = line.table(&settings);
    // Rather now than after minutes.
    Installation::get();
    let programs = Mpi::DEBIAN.map(told::program);
    let build = earlier::build(&programs, &settings);
    let earlier = if line.resume { earlier(&name, &build) } else { Ok(Earlier::default()) };
    let earlier = match earlier {
        Ok(earlier) => earlier,
        Err(why) => {
            eprintln!("files: {why}");
            return ExitCode::FAILURE;
        }
    };
    let wanted = Wanted { programs: line.only, ranks: line.ranks, amount, classes: line.classes };
    let (counting, counts) = match amount {
        Amount::Short => (Counting::Best, "The best"),
        Amount::All | Amount::Aims | Amount::Check => (Counting::Median, "Medians"),
    };
    let mut told = format!(
        "{counts} of {} runs of each, in turn; svmio and the stock drivers on the same file system. A ratio tells how \
         many times as good svmio is as the best stock driver: of the same MPI, and the better of both.\n\
         `fresh` and `first`: a new file; `write`: the same again, `again`: a new one after another was deleted.\n\n\
         At the beginning {}.\n",
        line.runs,
        Phase::now()
    );
    if !settings.is_empty() {
        told = format!("With {settings}.\n\n{told}");
    }
    println!("cargo run --release -p svmio-benches --bin files{}\n\n{told}", amount.option());
    // What a short look judges is written again, and read.
    let warms_memory = matches!(amount, Amount::All | Amount::Aims);
    let how = Measuring { programs: &programs, repetitions: line.runs, warms_memory, counting };
    let (mut outcomes, mut resumed) = (Vec::new(), 0);
    // What is there of another build counts for nothing from now on.
    figures::keep(&name, &told, &report::json(&outcomes, &build, earlier.without(&outcomes)));
    let mut left_out = LeftOut::default();
    for &kind in &line.on {
        for lacking in lacking(&wanted, kind) {
            if lacking.is_all {
                left_out.add(&lacking.what, "nothing of it is measured that way");
            } else {
                tell(&mut told, &format!("\nNothing is measured of {}.", lacking.what));
            }
        }
        let done = Place::with(kind, &line.disk, |place| {
            tell(&mut told, &format!("\n{}: {}.\n\n{}", kind.name(), place.file_system(), report::head()));
            if warms_memory {
                place.warm_up(WARM_UP);
            }
            for workload in workloads(&wanted, kind) {
                let kept = earlier.outcome(kind, &workload, &how);
                resumed += usize::from(kept.is_some());
                let outcome = kept.unwrap_or_else(|| measuring::measure(place, &workload, &how));
                tell(&mut told, report::lines(&outcome).trim_end());
                outcomes.push(outcome);
                // All of it takes long, and what is measured is not to be lost.
                figures::keep(&name, &told, &report::json(&outcomes, &build, earlier.without(&outcomes)));
            }
        });
        if let Err(why) = done {
            left_out.add(&format!("files on {}", kind.name()), &why);
        }
    }
    if resumed > 0 {
        tell(
            &mut told,
            &format!("\nOf these measurements, {resumed} are of an earlier run of the same build."),
        );
    }
    tell(&mut told, &format!("\nAt the end {}.\n{}", Phase::now(), report::faults(&outcomes)));
    figures::keep(&name, &told, &report::json(&outcomes, &build, earlier.without(&outcomes)));
    if let Some(directory) = figures::directory() {
        // Of what has an aim there are too few points, which would take the place of all.
        if matches!(amount, Amount::All | Amount::Check) {
            curves::draw(&outcomes, &directory, &name).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    let aims: Vec<_> = outcomes.iter().flat_map(Outcome::aims).collect();
    let code = match amount {
        Amount::Check => ExitCode::SUCCESS,
        Amount::All => aims::end(Judging::Nothing, &aims, was_calm),
        Amount::Aims | Amount::Short => aims::end(Judging::Missed, &aims, was_calm),
    };
    let code = left_out.end(code);
    let is_faulty = outcomes.iter().any(|outcome| !outcome.faults(true).is_empty());
    if is_faulty { ExitCode::from(aims::FAULTY) } else { code }
}

/// What an interrupted run has left.
fn earlier(name: &str, build: &str) -> Result<Earlier, String> {
    let directory = figures::directory().ok_or("without SVMIO_FIGURES nothing is kept to go on with")?;
    Earlier::of(&directory, name, build)
}

/// Prints it, and adds it to what was told.
fn tell(told: &mut String, text: &str) {
    println!("{text}");
    told.push_str(text);
    told.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_with_other_settings_does_not_take_the_place_of_anything() {
        let line = CommandLine::parse_from(["files", "--only", "btio", "--aims"]);
        let shared = [("SVMIO_OUTCOME".to_owned(), "shared".to_owned())];
        assert_eq!(line.table(&Settings::default()), "files-btio-aims");
        assert_eq!(line.table(&Settings::among(shared.into_iter())), "files-btio-aims-outcome=shared");
    }
}
