//! Reading what lies on another node: as fast as the link, and the second time as fast as memory.

use serde_json::json;
use svmio_tests::Program;

use super::bed::{Bed, HOSTS, Keeper};
use super::link::Links;
use super::measured::{self, Call};
use crate::aims::{Aim, Extent};
use crate::figures::Record;
use crate::interleaved::medians;

/// What is read of what the next rank wrote.
struct Pattern {
    name: &'static str,
    /// Of what every second one is read; all where there are none.
    piece: Option<u64>,
    /// How much of what the link moves is read at most: little pieces come in whole pages.
    part: f64,
}

const PATTERNS: [Pattern; 3] = [
    Pattern { name: "all", piece: None, part: 1.0 },
    Pattern { name: "every second 64 KiB, through a view", piece: Some(64 << 10), part: 1.0 },
    Pattern { name: "every second KiB, through a view", piece: Some(1 << 10), part: 0.5 },
];

/// Measures iperf3 and svmio in turn, and prints the table. Returns what is aimed at.
///
/// # Panics
/// Where a run fails.
pub fn compare(bed: &Bed, program: &Program, extent: Extent, record: &mut Record) -> Vec<Aim> {
    let mebibytes: u32 = if extent == Extent::Full { 128 } else { 64 };
    let mpi = program.mpi;
    let links = Links::new(bed.hosts());
    record.tell(format_args!(
        "\n{mpi}: each reader reads of {mebibytes} MiB that the next rank wrote; MB/s, of all readers together. The second \
         reading is of the same, and a copy in memory that of the same size and pieces.\n"
    ));
    record.tell(format_args!(
        "| read | readers | iperf3 | svmio, first | / iperf3 | svmio, second | copy | second / copy |"
    ));
    record.tell(format_args!("|---|--:|--:|--:|--:|--:|--:|--:|"));
    let mut aims = Vec::new();
    for Pattern { name, piece, part } in PATTERNS {
        for readers in [1, HOSTS] {
            let bytes = u64::from(mebibytes) << 20;
            let read = if piece.is_some() { bytes / 2 } else { bytes };
            let megabytes = f64::from(readers) * read as f64 / 1e6;
            let mut arguments = vec![readers.to_string(), bytes.to_string()];
            arguments.extend(piece.map(|piece| piece.to_string()));
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            let what = if piece.is_some() { "remote-view" } else { "remote" };
            let speeds = medians(2, |side| {
                if side == 0 {
                    return [links.megabytes_per_second(readers as usize), 0.0, 0.0];
                }
                let measured = measured::run(bed, program, Keeper::Svmio, Call::new(what, &arguments));
                ["first", "second", "copy"].map(|name| megabytes / measured.get(name))
            });
            let (peer, [first, second, copy]) = (speeds[0][0], speeds[1]);
            let (of_peer, of_copy) = (first / peer, second / copy);
            record.tell(format_args!(
                "| {name} | {readers} | {peer:.0} | {first:.0} | {of_peer:.2} | {second:.0} | {copy:.0} | {of_copy:.2} |"
            ));
            record.add(json!({
                "part": "remote", "mpi": mpi.name(), "read": name, "readers": readers, "unit": "MB/s", "iperf3": peer,
                "first": first, "second": second, "copy": copy,
            }));
            let title = format!("{mpi}, {readers} reading {name}");
            aims.push(Aim::at_least(format!("{title}: of iperf3's"), of_peer, 0.9 * part, 0.5 * part));
            aims.push(Aim::at_least(format!("{title}, again: of a copy's"), of_copy, 0.9, 0.3));
        }
    }
    aims
}
