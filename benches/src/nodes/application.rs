//! What applications do with files, on svmio and on what is mounted: the table of ratios, as the papers have it.

use serde_json::json;
use svmio_tests::Program;

use super::bed::{Bed, HOSTS, Keeper, MEGABITS};
use super::gluster;
use super::measured::{self, Call};
use crate::aims::{Aim, Extent};
use crate::figures::Record;
use crate::interleaved::medians_of_lists;

/// What is run.
struct Application {
    what: &'static str,
    arguments: Vec<String>,
    /// What svmio's ranks find in their environment; the others' do not look there.
    variables: Vec<(&'static str, &'static str)>,
    /// The rows that come of it: their names, and the numbers of the program that they show.
    rows: Vec<Row>,
    /// How much is moved in each, MB.
    megabytes: f64,
}

struct Row {
    title: String,
    number: &'static str,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    MegabytesPerSecond,
    Seconds,
}

const COLL_PERF: &str = "coll_perf";
const BT_EDGE: u32 = 64;
/// How often it writes in class A, and in a check.
const BT_STEPS: (u32, u32) = (40, 10);

/// The cube is written once, and then at most so many times again, and read as often, where that is more than once after a
/// time that does not count: of these the median counts. Who takes more than a second in all does it once.
fn coll_perf(edge: u32, times_again: u32) -> Application {
    let row = |number, what| Row {
        title: format!("coll_perf {edge}³: {what}, MB/s"),
        number,
        unit: Unit::MegabytesPerSecond,
    };
    let mut rows = vec![row("fresh", "first write"), row("write", "written again"), row("read", "read")];
    if times_again > 1 {
        rows.insert(1, row("second", "second write"));
    }
    Application {
        what: COLL_PERF,
        arguments: vec![edge.to_string(), "slowest".to_owned(), times_again.to_string()],
        variables: vec![],
        rows,
        megabytes: f64::from(edge).powi(3) * 4.0 / 1e6,
    }
}

fn bt(steps: u32) -> Application {
    let row = |number, what| Row {
        title: format!("BTIO, class A, {steps} times: {what}, s"),
        number,
        unit: Unit::Seconds,
    };
    Application {
        what: "btio",
        arguments: vec![BT_EDGE.to_string(), "full".to_owned(), steps.to_string()],
        variables: vec![],
        rows: vec![row("write", "write"), row("read", "read")],
        megabytes: f64::NAN,
    }
}

fn interleaved(count: u32) -> Application {
    let row = Row {
        title: format!("{count} times 8 B of each rank, interleaved: write, MB/s"),
        number: "write",
        unit: Unit::MegabytesPerSecond,
    };
    Application {
        what: "pieces",
        arguments: vec!["collective".to_owned(), count.to_string()],
        variables: vec![],
        rows: vec![row],
        megabytes: f64::from(count) * 8.0 * f64::from(HOSTS) / 1e6,
    }
}

/// Where svmio keeps what is read.
#[derive(Clone, Copy)]
enum Place {
    /// With who wrote it, as it does by itself: for its readers all of it is remote.
    Writers,
    /// On all hosts in turn, as GlusterFS does with shards: readers hold a part of it themselves.
    AllHosts,
}

fn remote(readers: u32, mebibytes: u32, place: Place) -> Application {
    let mut title = "what another rank wrote".to_owned();
    let mut variables = vec![];
    if let Place::AllHosts = place {
        title += ", spread over all hosts";
        variables = vec![("SVMIO_PLACEMENT", "round_robin"), ("SVMIO_SEGMENT_SIZE", gluster::SHARD)];
    }
    title += &match readers {
        1 => ": one reads (the median of all), MB/s".to_owned(),
        _ => format!(": {readers} read at once, MB/s"),
    };
    let row = Row { title, number: "first", unit: Unit::MegabytesPerSecond };
    Application {
        what: "remote",
        arguments: vec![readers.to_string(), (u64::from(mebibytes) << 20).to_string()],
        variables,
        rows: vec![row],
        megabytes: f64::from(readers) * f64::from(mebibytes << 20) / 1e6,
    }
}

/// Measures all keepers in turn, and prints the table. Returns what is aimed at.
///
/// # Panics
/// Where a run fails.
pub fn compare(bed: &Bed, program: &Program, extent: Extent, record: &mut Record) -> Vec<Aim> {
    let mut applications = vec![coll_perf(256, 3)];
    if extent == Extent::Full {
        applications.push(coll_perf(512, 1));
    }
    let steps = if extent == Extent::Full { BT_STEPS.0 } else { BT_STEPS.1 };
    applications.extend([bt(steps), interleaved(1 << 17)]);
    for place in [Place::Writers, Place::AllHosts] {
        applications.extend([remote(1, 32, place), remote(HOSTS, 32, place)]);
    }
    let mpi = program.mpi;
    record.tell(format_args!(
        "\n{mpi}, {HOSTS} ranks on {HOSTS} hosts, {MEGABITS} Mbit/s each way, the others through {}. Beside them: how \
         many times as fast svmio is.\n",
        measured::driver(mpi).component.unwrap_or("ufs")
    ));
    let beside = |keeper: Keeper| if keeper == Keeper::Svmio { "" } else { " ratio |" };
    let columns = Keeper::ALL.map(|keeper| format!(" {} |{}", keeper.name(), beside(keeper)));
    record.tell(format_args!("| |{}\n|---|--:|--:|--:|--:|--:|", columns.concat()));
    let carried = f64::from(HOSTS * MEGABITS) / 8.0;
    let mut aims = Vec::new();
    let mut wrong = Vec::new();
    for application in applications {
        let arguments: Vec<&str> = application.arguments.iter().map(String::as_str).collect();
        let call = Call { what: application.what, arguments: &arguments, variables: &application.variables };
        let seconds = medians_of_lists(Keeper::ALL.len(), |side| {
            let keeper = Keeper::ALL[side];
            let measured = measured::run(bed, program, keeper, call);
            let words = measured.wrong();
            if words > 0.0 {
                wrong.push(format!("{} {}: {words} words", application.what, keeper.name()));
                // However fast it was: that is not what was asked for.
                return vec![f64::NAN; application.rows.len()];
            }
            application.rows.iter().map(|row| measured.get(row.number)).collect()
        });
        for (at, row) in application.rows.iter().enumerate() {
            let seconds: Vec<f64> = seconds.iter().map(|of_keeper| of_keeper[at]).collect();
            let mut line = format!("| {} |", row.title);
            for (keeper, own) in Keeper::ALL.iter().zip(&seconds) {
                line += &match row.unit {
                    _ if own.is_nan() => " wrong data |".to_owned(),
                    Unit::MegabytesPerSecond => format!(" {:.0} |", application.megabytes / own),
                    Unit::Seconds => format!(" {own:.2} |"),
                };
                line += &match own / seconds[0] {
                    _ if *keeper == Keeper::Svmio => String::new(),
                    ratio if ratio.is_nan() => " - |".to_owned(),
                    ratio => format!(" {ratio:.1} |"),
                };
            }
            record.tell(line);
            let of_keeper = Keeper::ALL.iter().zip(&seconds);
            let of_keeper = of_keeper.map(|(keeper, own)| (keeper.name().to_owned(), json!(own)));
            record.add(json!({
                "part": "application", "mpi": mpi.name(), "what": row.title,
                "seconds": of_keeper.collect::<serde_json::Map<_, _>>(),
            }));
            let best = seconds[1..].iter().copied().fold(f64::NAN, f64::min) / seconds[0];
            aims.push(Aim::at_least(
                format!("{mpi}, {}: times the better of the others", row.title),
                best,
                1.0,
                0.7,
            ));
            // Of the first write, the job's first open is a part, which takes as long however much is written.
            if application.what == COLL_PERF && row.number == "write" {
                let times = application.megabytes / seconds[0] / carried;
                let what = format!("{mpi}, {}: times what the links carry in all", row.title);
                aims.push(Aim::at_least(what, times, 5.0, 1.0));
            }
        }
    }
    if !wrong.is_empty() {
        record.tell(format_args!("\nRead back, but not what was written: {}.", wrong.join("; ")));
    }
    aims
}
