//! Eight bytes at a time into what lies on all nodes, in turn with those of all other ranks.

use serde_json::json;
use svmio_tests::Program;

use super::bed::{Bed, HOSTS, Keeper};
use super::measured::{self, Call};
use crate::aims::{Aim, Extent};
use crate::figures::Record;
use crate::interleaved::medians;

/// How svmio is asked to write them, and what that is called.
const WAYS: [(&str, &str); 3] = [
    ("collective", "one collective call"),
    ("view", "one call of each rank through its view"),
    ("calls", "one call for each piece"),
];

/// Measures messages and svmio in turn, and prints the table. Returns what is aimed at.
///
/// # Panics
/// Where a run fails.
pub fn compare(bed: &Bed, program: &Program, extent: Extent, record: &mut Record) -> Vec<Aim> {
    let (pieces, messages): (u32, u32) =
        if extent == Extent::Full { (1 << 20, 10_000) } else { (1 << 17, 2_000) };
    let mpi = program.mpi;
    // Microseconds for a piece of every rank.
    let times = medians(1 + WAYS.len(), |side| {
        if side == 0 {
            let measured = measured::run_messages(bed, program, messages.into());
            return [measured.get("write") / f64::from(messages) * 1e6];
        }
        let count = pieces.to_string();
        let measured =
            measured::run(bed, program, Keeper::Svmio, Call::new("pieces", &[WAYS[side - 1].0, &count]));
        [measured.get("write") / f64::from(pieces) * 1e6]
    });
    let message = times[0][0];
    record.tell(format_args!(
        "\n{mpi}: {HOSTS} ranks write {pieces} pieces of 8 bytes each, interleaved, into a file that lies with all of \
         them, until it is there; µs for a piece.\n\n| | µs | times as fast as messages |\n|---|--:|--:|"
    ));
    record.tell(format_args!(
        "| one message for each piece of another rank's, and its answer | {message:.2} | |"
    ));
    let mut aims = Vec::new();
    for ((_, name), [own]) in WAYS.iter().zip(&times[1..]) {
        let ratio = message / own;
        record.tell(format_args!("| svmio, {name} | {own:.3} | {ratio:.0} |"));
        record.add(json!({
            "part": "pieces", "mpi": mpi.name(), "way": name, "microseconds": own, "message_microseconds": message,
        }));
        aims.push(Aim::at_least(format!("{mpi}, 8 B, {name}: times as fast as messages"), ratio, 50.0, 5.0));
    }
    aims
}
