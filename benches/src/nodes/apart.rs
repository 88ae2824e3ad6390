//! Collective writes in which each rank writes what lies on its own node, beside independent ones: nobody has to ask
//! anybody.

use serde_json::json;
use svmio_tests::Program;

use super::bed::{Bed, HOSTS, Keeper};
use super::measured::{self, Call};
use crate::aims::{Aim, Extent};
use crate::figures::Record;
use crate::interleaved::medians;

/// Bytes of a block, and how many of them a rank writes in a pass.
const BLOCKS: [(u32, u32); 2] = [(4 << 10, 20_000), (64 << 10, 4_000)];

/// The kinds of calls that the program measures.
const KINDS: [&str; 3] = ["independent", "collective", "shared"];

/// Measures, and prints the table. Returns what is aimed at.
///
/// # Panics
/// Where a run fails.
pub fn compare(bed: &Bed, program: &Program, extent: Extent, record: &mut Record) -> Vec<Aim> {
    let mpi = program.mpi;
    record.tell(format_args!(
        "\n{mpi}: each of {HOSTS} ranks on hosts of their own writes blocks to what lies with it and was written before; \
         µs for a call.\n\n| block | independent | collective | / independent | of all ranks' outcome |\n\
         |--:|--:|--:|--:|--:|"
    ));
    let mut aims = Vec::new();
    for (block, calls) in BLOCKS {
        let calls = if extent == Extent::Full { calls } else { calls / 4 };
        let (bytes, count) = (block.to_string(), calls.to_string());
        let arguments = [&bytes[..], &count];
        let [independent, collective, shared, ratio] = medians(1, |_| {
            let call = Call::new("apart", &arguments);
            let measured = measured::run(bed, program, Keeper::Svmio, call);
            let [independent, collective, shared] = KINDS.map(|kind| measured.get(kind) * 1e6);
            // Within the run: they are measured in turn there.
            [independent, collective, shared, collective / independent]
        })[0];
        record.tell(format_args!(
            "| {block} B | {independent:.2} | {collective:.2} | {ratio:.2} | {shared:.1} |"
        ));
        record.add(json!({
            "part": "apart", "mpi": mpi.name(), "bytes": block, "independent_microseconds": independent,
            "collective_microseconds": collective, "shared_microseconds": shared,
        }));
        let what = format!("{mpi}, {block} B of a rank's own, collective: of an independent call's time");
        aims.push(Aim::at_most(what, ratio, 1.1, 2.0));
    }
    aims
}
