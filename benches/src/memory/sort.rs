//! A sort of more keys than memory may hold: by loads and stores to files on four nodes, beside the same program with
//! reads and writes of these, and by loads and stores to a local file.

use std::path::Path;

use serde_json::json;

use super::job::{self, NODES, Nodes};
use super::limited::Limited;
use crate::aims::{Aim, Extent};
use crate::figures::Record;
use crate::files::place::{remove_left, temporary};
use crate::interleaved::medians;

/// How many times what all processes may have in memory the keys take.
const TIMES: u64 = 4;

/// Measures all of them, and prints the table; the local file is below `disk`. Returns what is aimed at.
///
/// # Panics
/// Where a run fails, or keys do not come out in order.
pub fn compare(places: &[Nodes<'_>], disk: &Path, extent: Extent, record: &mut Record) -> Vec<Aim> {
    let limit = if extent == Extent::Full { 32 << 20 } else { 2 << 20 };
    let together = u64::from(NODES) * limit;
    let (bytes, mebibytes) = (TIMES * together, (TIMES * together) >> 20);
    let words = [bytes / 8, limit].map(|number| number.to_string());
    let words = ["sort", "--keys", &words[0], "--limit", &words[1], "--access"];
    record.tell(format_args!(
        "\nA sort of {mebibytes} MiB of keys, by four processes on a node each that may have {} MiB of others' keys in \
         memory; seconds.\n",
        limit >> 20
    ));
    record.tell(format_args!(
        "| between nodes | mapped | explicit | mapped / explicit | faults, of the process with most |"
    ));
    record.tell(format_args!("|---|--:|--:|--:|--:|"));
    let mut aims = Vec::new();
    for place in places {
        let both = medians(2, |access| {
            let told = place.run(&[&words[..], &[["mapped", "explicit"][access]]].concat());
            ["seconds", "faults"].map(|name| told.get(name))
        });
        let ([mapped, faults], [explicit, _]) = (both[0], both[1]);
        let (name, ratio) = (place.name(), mapped / explicit);
        record.tell(format_args!("| {name} | {mapped:.2} | {explicit:.2} | {ratio:.2} | {faults:.0} |"));
        record.add(json!({
            "part": "sort", "between": name, "bytes": bytes, "mapped_seconds": mapped, "explicit_seconds": explicit,
            "faults": faults,
        }));
        aims.push(Aim::at_most(format!("sort, {name}: mapped / explicit"), ratio, 1.0, 4.0));
    }
    /// Bytes that a process takes besides: its program, stacks, buffers of the fabric.
    const OWN: u64 = 24 << 20;
    let limited = match Limited::to(together + u64::from(NODES) * OWN) {
        Ok(limited) => limited,
        Err(error) => {
            record.tell(format_args!("\nNo local file: memory cannot be limited: {error}."));
            return aims;
        }
    };
    remove_left(disk);
    let directory = temporary(disk);
    let below = directory.path().to_string_lossy().into_owned();
    let words = [&words[..], &["local", "--directory", &below]].concat();
    let processes = [1, NODES];
    let local = medians(2, |side| [job::run_limited(&limited, processes[side], &words).get("seconds")]);
    record.tell(format_args!(
        "\nThe same keys in a local file that is mapped, all processes together with {} MiB of memory, the kernel's pages of \
         the file and {} MiB for each process itself included: {:.2} s by one process, {:.2} s by four.",
        (together + u64::from(NODES) * OWN) >> 20,
        OWN >> 20,
        local[0][0],
        local[1][0]
    ));
    for (processes, [seconds]) in processes.iter().zip(local) {
        record.add(
            json!({ "part": "sort", "between": "local file", "processes": processes, "seconds": seconds }),
        );
    }
    aims
}
