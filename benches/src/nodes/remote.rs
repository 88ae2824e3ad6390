//! Reading what lies on another node: as fast as the link, and the second time as fast as memory.

use serde_json::json;
use svmio_tests::Program;

use super::bed::{Bed, HOSTS, Keeper};
use super::link::Links;
use super::measured::{self, Call};
use crate::aims::{Aim, Extent};
use crate::figures::Record;
use crate::interleaved::medians;

/// Measures iperf3 and svmio in turn, and prints the table. Returns what is aimed at.
///
/// # Panics
/// Where a run fails.
pub fn compare(bed: &Bed, program: &Program, extent: Extent, record: &mut Record) -> Vec<Aim> {
    let mebibytes: u32 = if extent == Extent::Full { 128 } else { 64 };
    let mpi = program.mpi;
    let links = Links::new(bed.hosts());
    record.tell(format_args!(
        "\n{mpi}: each reader reads {mebibytes} MiB that the next rank wrote; MB/s, of all readers together. The second \
         reading is of the same, and a copy in memory that of the same size.\n"
    ));
    record.tell(format_args!(
        "| readers | iperf3 | svmio, first | / iperf3 | svmio, second | copy | second / copy |"
    ));
    record.tell(format_args!("|--:|--:|--:|--:|--:|--:|--:|"));
    let mut aims = Vec::new();
    for readers in [1, HOSTS] {
        let bytes = (u64::from(mebibytes) << 20).to_string();
        let megabytes = f64::from(readers) * f64::from(mebibytes << 20) / 1e6;
        let speeds = medians(2, |side| {
            if side == 0 {
                return [links.megabytes_per_second(readers as usize), 0.0, 0.0];
            }
            let measured = measured::run(
                bed,
                program,
                Keeper::Svmio,
                Call::new("remote", &[&readers.to_string(), &bytes]),
            );
            ["first", "second", "copy"].map(|name| megabytes / measured.get(name))
        });
        let (peer, [first, second, copy]) = (speeds[0][0], speeds[1]);
        let (of_peer, of_copy) = (first / peer, second / copy);
        record.tell(format_args!(
            "| {readers} | {peer:.0} | {first:.0} | {of_peer:.2} | {second:.0} | {copy:.0} | {of_copy:.2} |"
        ));
        record.add(json!({
            "part": "remote", "mpi": mpi.name(), "readers": readers, "unit": "MB/s", "iperf3": peer, "first": first,
            "second": second, "copy": copy,
        }));
        aims.push(Aim::at_least(format!("{mpi}, {readers} reading: of iperf3's"), of_peer, 0.9, 0.5));
        aims.push(Aim::at_least(format!("{mpi}, {readers} reading again: of a copy's"), of_copy, 0.9, 0.3));
    }
    aims
}
