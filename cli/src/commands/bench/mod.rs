//! `svmio bench`: how fast the fabric and its messages are here.
//!
//! ```text
//! what was typed      BenchArguments   FabricChoice, Sizes, Protocol
//! what is to be done  Plan             the same for every process
//!                       ├─ processes   a job of this program's own processes, on a real fabric
//!                       └─ simulation  in this process, in virtual time
//!                            └─ measuring     what each process does, on whatever fabric
//! what was measured   Report
//!                       ├─ showing     tables, JSON, diagrams
//!                       ├─ hiding      what overlapping brought
//!                       └─ chart       a diagram as SVG
//! figures             the papers' diagrams, from the simulated fabric
//! ```

pub(super) mod chart;
mod fabric_choice;
mod figures;
mod hiding;
mod measuring;
mod plan;
pub(super) mod processes;
pub(super) mod showing;
mod simulation;
mod sizes;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use svmio_transport::settings::Settings;

pub(crate) use self::fabric_choice::{FabricChoice, model};
use self::figures::FiguresArguments;
use self::hiding::Summary;
use self::plan::{Effort, Plan, Protocol, Report, What};
use self::processes::{ProcessArguments, Start};
use self::sizes::Sizes;
use super::Outcome;
use super::error::CommandError;
use super::output::Output;

/// The exit codes, as every benchmark's help tells them.
macro_rules! after_help {
    ($examples:literal) => {
        concat!("Examples:\n", $examples, "\n\nExit codes: 0 fine; 1 something failed; 2 wrong command line.")
    };
}

/// The arguments of `svmio bench`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    what: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// The time of a message: half of a round trip
    #[command(after_help = after_help!(
        "  svmio bench pingpong
  svmio bench pingpong --sizes 8,64K --mode eager,rendezvous-stores
  svmio bench pingpong --fabric sim:sci-switch --json
  svmio bench pingpong --fabric ofi --prefix0 'ip netns exec a' --prefix1 'ip netns exec b' \\
      --master 10.0.0.1:7777"
    ))]
    Pingpong(MessageArguments),

    /// The bandwidth of a stream of messages
    #[command(after_help = after_help!(
        "  svmio bench bandwidth
  svmio bench bandwidth --sizes 1K..16M --plot bandwidth.svg
  svmio bench bandwidth --fabric sim:sci-ring --ranks 8      four pairs at the same time"
    ))]
    Bandwidth(MessageArguments),

    /// How much of sending is hidden behind a computation
    #[command(after_help = after_help!(
        "  svmio bench overlap
  svmio bench overlap --sizes 1M --compute 0,10,20,30 --plot overlap.svg
  svmio bench overlap --fabric sim:sci-switch --mode rendezvous-staged"
    ))]
    Overlap(OverlapArguments),

    /// The time of a remote interrupt: half of a round trip between sleepers
    #[command(after_help = after_help!(
        "  svmio bench interrupt
  svmio bench interrupt --count 10000 --plot interrupt.svg"
    ))]
    Interrupt(InterruptArguments),

    /// The papers' diagrams, from the simulated fabric
    #[command(after_help = after_help!("  svmio bench figures --plot figures
  svmio bench figures --model sci-ring --plot figures"))]
    Figures(FiguresArguments),

    /// One process of a benchmark's job: what the others start
    #[command(hide = true)]
    Process(ProcessArguments),
}

/// On which fabric it is measured, and how the result is shown.
#[derive(Debug, Args)]
struct CommonArguments {
    /// shm, ofi, ofi:PROVIDER or sim:MODEL (`svmio fabric info` lists them)
    #[arg(long, value_name = "FABRIC", default_value = "shm")]
    fabric: FabricChoice,

    /// How often each measurement is made; the median is shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// JSON instead of a table, times in seconds
    #[arg(long)]
    json: bool,

    /// Also a diagram
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,

    /// A command that the first process is started by, as in "ip netns exec a"
    #[arg(long, value_name = "COMMAND")]
    prefix0: Option<String>,

    /// A command that the other processes are started by
    #[arg(long, value_name = "COMMAND")]
    prefix1: Option<String>,

    /// Where the first process is to be met by the others; needed where the commands lead to other networks
    #[arg(long, value_name = "HOST:PORT")]
    master: Option<String>,
}

/// The arguments of `svmio bench pingpong` and `svmio bench bandwidth`.
#[derive(Debug, Args)]
struct MessageArguments {
    #[command(flatten)]
    common: CommonArguments,

    /// How messages are sent; several are compared
    #[arg(long = "mode", value_name = "MODE", value_delimiter = ',', default_value = "automatic")]
    protocols: Vec<Protocol>,

    /// Sizes in bytes; A..B is each power of two from A to B
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        default_value = "8,64,512,4K,32K,256K,1M,4M,16M,64M"
    )]
    sizes: Vec<Sizes>,

    /// How many processes; the first half sends to the second, all pairs at the same time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = even)]
    ranks: u32,
}

/// The arguments of `svmio bench overlap`.
#[derive(Debug, Args)]
struct OverlapArguments {
    #[command(flatten)]
    common: CommonArguments,

    /// How messages are sent asynchronously; several are compared. Synchronously it is always the automatic mode
    #[arg(long = "mode", value_name = "MODE", value_delimiter = ',', default_value = "automatic")]
    protocols: Vec<Protocol>,

    /// Sizes in bytes; A..B is each power of two from A to B
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "64K,256K,1M,4M,16M")]
    sizes: Vec<Sizes>,

    /// Milliseconds of computation; 0 is always among them
    #[arg(
        long,
        value_name = "MS",
        value_delimiter = ',',
        default_value = "0,1,2,5,10,20,40,60",
        value_parser = milliseconds,
        allow_negative_numbers = true
    )]
    compute: Vec<f64>,

    /// Show the least of the repetitions instead of the median: on a busy machine, what nobody disturbed
    #[arg(long)]
    least: bool,
}

/// The arguments of `svmio bench interrupt`.
#[derive(Debug, Args)]
struct InterruptArguments {
    #[command(flatten)]
    common: CommonArguments,

    /// How many round trips each measurement has
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
}

/// Measures, and shows what was measured.
///
/// # Errors
/// Where something of it cannot be done.
pub(crate) fn bench(arguments: &BenchArguments) -> Result<Outcome, CommandError> {
    match &arguments.what {
        Benchmark::Pingpong(arguments) => messages(arguments, What::Pingpong),
        Benchmark::Bandwidth(arguments) => messages(arguments, What::Bandwidth),
        Benchmark::Overlap(arguments) => overlap(arguments),
        Benchmark::Interrupt(arguments) => interrupt(arguments),
        Benchmark::Figures(arguments) => figures::figures(arguments),
        Benchmark::Process(arguments) => processes::process(arguments),
    }
}

fn messages(arguments: &MessageArguments, what: What) -> Result<Outcome, CommandError> {
    let common = &arguments.common;
    let sizes = Sizes::all(&arguments.sizes);
    let plan = common.plan(what.clone(), distinct(&arguments.protocols), sizes);
    let report = common.measured(&plan, arguments.ranks)?;
    let messages = showing::Messages::of(&report, &what);
    shown(common, &messages, |output| messages.print(output))?;
    if let Some(path) = &common.plot {
        messages.chart().draw(path)?;
    }
    Ok(Outcome::Fine)
}

fn overlap(arguments: &OverlapArguments) -> Result<Outcome, CommandError> {
    let common = &arguments.common;
    let sizes = Sizes::all(&arguments.sizes);
    let mut compute: Vec<f64> = arguments.compute.iter().map(|milliseconds| milliseconds / 1e3).collect();
    compute.push(0.0);
    compute.sort_by(f64::total_cmp);
    compute.dedup();
    let plan = common.plan(What::Overlap { compute }, distinct(&arguments.protocols), sizes);
    let summary = if arguments.least { Summary::Least } else { Summary::Median };
    let overlap = showing::Overlap::of(common.measured(&plan, 2)?, &plan, summary);
    shown(common, &overlap, |output| overlap.print(output))?;
    if let Some(path) = &common.plot {
        overlap.draw(path)?;
    }
    Ok(Outcome::Fine)
}

fn interrupt(arguments: &InterruptArguments) -> Result<Outcome, CommandError> {
    let common = &arguments.common;
    let plan = common.plan(What::Interrupt { round_trips: arguments.count }, Vec::new(), Vec::new());
    let interrupt = showing::Interrupts::of(common.measured(&plan, 2)?);
    shown(common, &interrupt, |output| interrupt.print(output))?;
    if let Some(path) = &common.plot {
        interrupt.chart().draw(path)?;
    }
    Ok(Outcome::Fine)
}

fn shown(
    common: &CommonArguments,
    value: &impl serde::Serialize,
    print: impl FnOnce(&mut Output) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let mut output = Output::new()?;
    if common.json {
        output.json(value)?;
    } else {
        print(&mut output)?;
    }
    output.finish()
}

impl CommonArguments {
    fn plan(&self, what: What, protocols: Vec<Protocol>, sizes: Vec<u64>) -> Plan {
        let (effort, repeat) = match self.fabric {
            // Whatever is repeated there comes out the same.
            FabricChoice::Sim(_) => (Effort::Virtual, 1),
            _ => (Effort::Real, self.repeat),
        };
        Plan { what, protocols, sizes, repeat, effort }
    }

    fn measured(&self, plan: &Plan, ranks: u32) -> Result<Report, CommandError> {
        self.plot.as_deref().map_or(Ok(()), chart::check_place)?;
        let words = |prefix: &Option<String>| -> Vec<OsString> {
            prefix.iter().flat_map(|text| text.split_whitespace()).map(OsString::from).collect()
        };
        let prefix = |rank| words(if rank == 0 { &self.prefix0 } else { &self.prefix1 });
        let start = |fabric, provider| Start {
            fabric,
            provider,
            prefixes: (0..ranks).map(prefix).collect(),
            master: self.master.clone(),
            ranks,
        };
        match &self.fabric {
            FabricChoice::Sim(model) => {
                if self.prefix0.is_some() || self.prefix1.is_some() || self.master.is_some() {
                    return Err(CommandError::NoProcesses);
                }
                simulation::measured(model, &Settings::load()?.messages, plan, ranks)
            }
            FabricChoice::Shm => processes::measured(start("shm", None), plan),
            FabricChoice::Ofi(provider) => processes::measured(start("ofi", provider.clone()), plan),
        }
    }
}

/// Each protocol once, in the order in which they were typed.
fn distinct(protocols: &[Protocol]) -> Vec<Protocol> {
    let mut distinct = Vec::new();
    for protocol in protocols {
        if !distinct.contains(protocol) {
            distinct.push(*protocol);
        }
    }
    distinct
}

fn even(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(number) if number >= 2 && number.is_multiple_of(2) => Ok(number),
        _ => Err("processes form pairs: give an even number from 2 on".into()),
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=10_000.0).contains(&number) => Ok(number),
        _ => Err("a computation takes 0 to 10000 ms".into()),
    }
}
