//! Computing while a message is sent, on shared memory and between two hosts over a network of 1 Gbit/s: how much of
//! the transfer the computation hides, and from which computation on sending asynchronously is the better choice.
//! On shared memory a bare copy stands beside it, by a peer that is told by one word and tells by another one: as much
//! as can be hidden on this machine at this time.
//! Prints tables in Markdown, keeps them as `overlap.md` and `overlap.json`, and draws them, in the directory that
//! `SVMIO_FIGURES` names. With `--aims` a failure where an aim is missed; with `--check` a few sizes on shared memory
//! only, and a failure where one is missed by far.

use std::process::ExitCode;

use serde_json::{Value, json};
use svmio_benches::aims::{self, Aim, Extent};
use svmio_benches::figures::{self, Record};
use svmio_benches::left_out::LeftOut;
use svmio_benches::messages::tool;
use svmio_benches::phase::{self, Phase};
use svmio_benches::wire::Wire;

/// Milliseconds, as in the paper's figure 10 and finer where transfers are short.
const COMPUTE: &str = "0,0.1,0.2,0.5,1,2,5,10,20,30,40,50,60";

/// The same beside messages that take 35 ms (4 MiB) to 141 ms (16 MiB) over the network: more than that, and more than
/// twice as much.
const LONG_COMPUTE: &str = "0,10,20,40,60,80,100,150,200,300,400";

fn main() -> ExitCode {
    let (extent, judging) = aims::asked("overlap", "Computing while a message is sent");
    let was_calm = phase::is_calm();
    println!("cargo run --release -p svmio-benches --bin overlap\n");
    let others = [(extent == Extent::Check, "check".to_owned())];
    let mut record = Record::new(figures::name("overlap", &others));
    record.tell(format_args!("Times without computation, µs. At the beginning {}.", Phase::now()));
    let mut left_out = LeftOut::default();
    let aims = match extent {
        Extent::Full => {
            let mut aims =
                overlapped("shared memory", &["--sizes", "64K..16M", "--compute", COMPUTE], &mut record);
            if left_out.unless_root("computing while sending over 1 Gbit/s between two hosts") {
                aims.extend(overlapped_by_wire(&mut record));
            }
            aims
        }
        Extent::Check => overlapped(
            "shared memory",
            &["--sizes", "256K,4M,16M", "--compute", "0,5,20", "--least"],
            &mut record,
        ),
    };
    record.tell(format_args!("\nAt the end {}.", Phase::now()));
    record.keep(&aims);
    left_out.end(aims::end(judging, &aims, was_calm))
}

/// Measures between two hosts, and prints the tables.
fn overlapped_by_wire(record: &mut Record) -> Vec<Aim> {
    let wire = Wire::even();
    let network = wire.options();
    let runs = [("1 Gbit/s", "64K..2M", COMPUTE), ("1 Gbit/s, long messages", "4M..16M", LONG_COMPUTE)];
    let of_run = |(fabric, sizes, compute)| {
        let mut options = vec!["--sizes", sizes, "--compute", compute];
        options.extend(network.iter().map(String::as_str));
        overlapped(fabric, &options, record)
    };
    runs.into_iter().flat_map(of_run).collect()
}

/// Measures on one fabric, and prints the table.
fn overlapped(fabric: &str, options: &[&str], record: &mut Record) -> Vec<Aim> {
    let plot = figures::directory().map(|directory| {
        std::fs::create_dir_all(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let name = fabric.replace(',', "").replace([' ', '/'], "-");
        directory.join(format!("{}-{name}.svg", record.name())).to_string_lossy().into_owned()
    });
    let mut arguments = [&["bench", "overlap", "--json"], options].concat();
    arguments.extend(plot.iter().flat_map(|path| ["--plot", path]));
    let result = tool(&arguments);
    record.add(json!({ "between": fabric, "result": result }));
    let sizes = result["modes"][0]["sizes"].as_array().unwrap_or_else(|| panic!("no sizes in {result}"));
    record.tell(format_args!(
        "\n{fabric}; hidden at least by computations from once and from twice the transfer's time on:\n\n| bytes | \
         synchronous | asynchronous | break-even measured | calculated | hidden by once | not hidden there, µs | by \
         twice | not hidden there, µs | bare copy: by once | not hidden, µs | by twice | not hidden, µs |\n|{}",
        "--:|".repeat(13)
    ));
    let mut aims = Vec::new();
    for size in sizes {
        let number = |key: &str| size[key].as_f64().unwrap_or(f64::NAN);
        let (bytes, synchronous, asynchronous) =
            (number("size"), number("synchronous"), number("asynchronous"));
        // None where the curves do not meet.
        let break_even = size["break_even_measured"].as_f64().unwrap_or(f64::INFINITY);
        let told = |key: &str, of: &dyn Fn(&Value) -> &Value| {
            let share = size[key].as_f64();
            let share_told = share.map_or(NOT_MEASURED.into(), |share| format!("{:.1} %", share * 100.0));
            let rest = share.and_then(|share| not_hidden(size, share, of));
            let rest = rest.map_or(NOT_MEASURED.into(), |seconds| format!("{:.1}", seconds * 1e6));
            format!("{share_told} | {rest}")
        };
        let message = |key| told(key, &|step| step);
        let bare = |key| told(key, &|step| &step["bare"]);
        record.tell(format_args!(
            "| {bytes} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {} | {} | {} |",
            synchronous * 1e6,
            asynchronous * 1e6,
            break_even * 1e6,
            number("break_even_calculated") * 1e6,
            message("hidden"),
            message("hidden_by_double"),
            bare("bare_hidden"),
            bare("bare_hidden_by_double"),
        ));
        let what = |what: &str| format!("{fabric}, {bytes} B: {what}");
        // A short transfer is over in the time that two calls take. On shared memory both ends copy at rest, the receiver
        // alone beside a computation: of that, one that is no longer may have hidden half.
        let limit = if bytes < 4e6 { 0.4 } else { 0.9 };
        for (key, computation, limit) in
            [("hidden", "as long", 0.4), ("hidden_by_double", "twice as long", limit)]
        {
            let what = what(&format!("share that computations hide that are at least {computation}"));
            aims.push(Aim::at_least(what, number(key), 0.95, limit));
        }
        // As a share of the transfer: what is near zero is noise. The one that is calculated, since the other one has
        // no more places than there were computations.
        let share = number("break_even_calculated") / synchronous;
        aims.push(Aim::at_most(what("break-even point, of the transfer's time"), share, 0.0, 0.3));
    }
    record.keep(&aims);
    aims
}

/// What stands for what there was no computation long enough for, or no memory that both map.
const NOT_MEASURED: &str = "not measured";

/// Seconds that the computation did not hide which hid that share, of what `of` finds in a measurement.
fn not_hidden(size: &Value, share: f64, of: &dyn Fn(&Value) -> &Value) -> Option<f64> {
    let mut steps = size["steps"].as_array().into_iter().flatten().map(of);
    steps.find(|step| step["hidden"].as_f64() == Some(share)).and_then(|step| step["not_hidden"].as_f64())
}
