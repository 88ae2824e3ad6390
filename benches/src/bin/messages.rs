//! Messages of 8 B to 64 MiB between two processes of this machine, sent by svmio and by MPIs from and into plain
//! memory of the program; and over a shaped network between two hosts, beside iperf3. Prints tables in Markdown.
//! The same, as JSON too, goes as `messages.md` and `messages.json` into the directory that `SVMIO_FIGURES` names.
//! With `--aims` a failure where an aim is missed; with `--check` a few sizes only, and a failure where one is missed by
//! far.

use std::process::ExitCode;

use serde_json::json;
use svmio_benches::aims::{self, Aim, Extent};
use svmio_benches::figures::{self, Record};
use svmio_benches::interleaved::{CHECKED, REPETITIONS, least_of_lists, median, medians_of_lists};
use svmio_benches::left_out::LeftOut;
use svmio_benches::messages::{Pattern, Sender};
use svmio_benches::phase::{self, Phase};
use svmio_benches::wire;

const FULL: [u64; 11] =
    [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20, 64 << 20];
const CHECK: [u64; 3] = [8, 1 << 20, 16 << 20];

fn main() -> ExitCode {
    let (extent, judging) = aims::asked("messages", "Messages between two processes, by svmio and by MPIs");
    let was_calm = phase::is_calm();
    let sizes: &[u64] = if extent == Extent::Full { &FULL } else { &CHECK };
    println!("cargo run --release -p svmio-benches --bin messages\n");
    let others = [(extent == Extent::Check, "check".to_owned())];
    let mut record = Record::new(figures::name("messages", &others));
    let (summary, runs) =
        if extent == Extent::Full { ("Medians", REPETITIONS) } else { ("The least", CHECKED) };
    record.tell(format_args!(
        "Two processes, messages between plain memory of both. {summary} of {runs} runs of each side, in turn. At \
         the beginning {}.",
        Phase::now()
    ));
    let senders = Sender::all();
    let latencies = compare(&senders, Pattern::Pingpong, sizes, extent, &mut record);
    let streams = compare(&senders, Pattern::Bandwidth, sizes, extent, &mut record);
    record.tell(format_args!("\nIn between {}.", Phase::now()));

    let latency = ratio(&latencies, 0);
    let mut aims = vec![Aim::at_most("8 B: time, of that of the best MPI", latency, 0.7, 1.2)];
    for (at, size) in sizes.iter().enumerate().filter(|(_, size)| **size >= 1 << 20) {
        let (times, what) = (1.0 / ratio(&streams, at), size >> 20);
        aims.push(Aim::at_least(format!("{what} MiB: bandwidth, of that of the best MPI"), times, 1.3, 0.9));
    }
    record.keep(&aims);
    let mut left_out = LeftOut::default();
    if left_out.unless_root("messages over 1 Gbit/s between two hosts") {
        let wire = wire::compare(extent, &mut record);
        aims.push(Aim::at_least("1 Gbit/s: least bandwidth from 1 MiB on, of iperf3's", wire, 0.95, 0.8));
    }
    record.tell(format_args!("\nAt the end {}.", Phase::now()));
    record.keep(&aims);
    left_out.end(aims::end(judging, &aims, was_calm))
}

/// Measures all senders, and prints the table. Seconds for each sender and size.
///
/// What is only checked is the least that each takes: where a third program runs, who spins keeps its core, and who
/// yields, as svmio does, waits for it.
fn compare(
    senders: &[Sender],
    pattern: Pattern,
    sizes: &[u64],
    extent: Extent,
    record: &mut Record,
) -> Vec<Vec<f64>> {
    let mut round_trips = Vec::new();
    let run = |side: usize| {
        round_trips.push(phase::settle());
        senders[side].run(pattern, sizes)
    };
    let seconds = match extent {
        Extent::Full => medians_of_lists(senders.len(), run),
        Extent::Check => least_of_lists(senders.len(), run),
    };
    round_trips.sort_by(f64::total_cmp);
    let middle = median(round_trips.clone());
    let names: Vec<&str> = senders.iter().map(Sender::name).collect();
    let (title, verdict) = match pattern {
        Pattern::Pingpong => ("Half a round trip, µs", "svmio's time / the best MPI's"),
        Pattern::Bandwidth => ("A stream, MB/s", "svmio's bandwidth / the best MPI's"),
    };
    record.tell(format_args!("\n{title}:\n\n| bytes | {} | {verdict} |", names.join(" | ")));
    record.tell(format_args!("|--:|{}--:|", "--:|".repeat(names.len())));
    for (at, size) in sizes.iter().enumerate() {
        let numbers = seconds.iter().map(|seconds| match pattern {
            Pattern::Pingpong => format!(" {:.2} |", seconds[at] * 1e6),
            Pattern::Bandwidth => format!(" {:.0} |", *size as f64 / 1e6 / seconds[at]),
        });
        let ratio = ratio(&seconds, at);
        let verdict = if pattern == Pattern::Pingpong { ratio } else { 1.0 / ratio };
        record.tell(format_args!("| {size} |{} {verdict:.2} |", numbers.collect::<String>()));
        let of_sender =
            names.iter().zip(&seconds).map(|(name, seconds)| ((*name).to_owned(), json!(seconds[at])));
        record.add(json!({
            "what": title, "bytes": size, "seconds": of_sender.collect::<serde_json::Map<_, _>>(),
        }));
    }
    record.tell(format_args!(
        "\nBefore the runs a bare cache line took {:.2} µs for half its way to and fro (median; {:.2} to {:.2}).",
        middle / 2e3,
        round_trips[0] / 2e3,
        round_trips[round_trips.len() - 1] / 2e3
    ));
    seconds
}

/// svmio's time over that of the best of the others.
fn ratio(seconds: &[Vec<f64>], at: usize) -> f64 {
    let others = seconds[1..].iter().map(|seconds| seconds[at]);
    seconds[0][at] / others.fold(f64::INFINITY, f64::min)
}
