//! A sort of more keys than memory may hold: by loads and stores to files on four nodes, beside the same program with
//! reads and writes of these, and by loads and stores to a local file.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::job::{self, NODES, Nodes};
use super::limited::Limited;
use crate::aims::{Aim, Extent};
use crate::figures::Record;
use crate::files::place::temporary;
use crate::interleaved::medians;

/// How many times what all processes may have in memory the keys take.
const TIMES: u64 = 4;

/// How much is sorted.
struct Size {
    /// Of the keys, bytes.
    bytes: u64,
    /// What a process may have of others' keys in memory, bytes.
    limit: u64,
}

impl Size {
    fn of(extent: Extent) -> Size {
        let limit = if extent == Extent::Full { 32 << 20 } else { 2 << 20 };
        Size { bytes: TIMES * u64::from(NODES) * limit, limit }
    }

    /// What the program is told, but for how keys are reached.
    fn words(&self) -> [String; 6] {
        let (keys, limit) = ((self.bytes / 8).to_string(), self.limit.to_string());
        ["sort".into(), "--keys".into(), keys, "--limit".into(), limit, "--access".into()]
    }
}

/// Measures it on files of several nodes, and prints the table. Returns what is aimed at.
///
/// # Panics
/// Where a run fails, or keys do not come out in order.
pub fn compare(places: &[Nodes<'_>], extent: Extent, record: &mut Record) -> Vec<Aim> {
    let size = Size::of(extent);
    record.tell(format_args!(
        "\nA sort of {} MiB of keys, by four processes on a node each that may have {} MiB of others' keys in \
         memory; seconds.\n",
        size.bytes >> 20,
        size.limit >> 20
    ));
    record.tell(format_args!(
        "| between nodes | mapped | explicit | mapped / explicit | faults, of the process with most |"
    ));
    record.tell(format_args!("|---|--:|--:|--:|--:|"));
    let mut aims = Vec::new();
    let words = size.words();
    let words = words.each_ref().map(String::as_str);
    for place in places {
        let both = medians(2, |access| {
            let told = place.run(&[&words[..], &[["mapped", "explicit"][access]]].concat());
            ["seconds", "faults"].map(|name| told.get(name))
        });
        let ([mapped, faults], [explicit, _]) = (both[0], both[1]);
        let (name, ratio) = (place.name(), mapped / explicit);
        record.tell(format_args!("| {name} | {mapped:.2} | {explicit:.2} | {ratio:.2} | {faults:.0} |"));
        record.add(json!({
            "part": "sort", "between": name, "bytes": size.bytes, "mapped_seconds": mapped,
            "explicit_seconds": explicit, "faults": faults,
        }));
        aims.push(Aim::at_most(format!("sort, {name}: mapped / explicit"), ratio, 1.0, 4.0));
    }
    aims
}

/// Measures it on a local file below `disk`, with no more memory than all processes had on several nodes.
///
/// # Errors
/// Why it was not run, where memory cannot be limited, or there is no such place.
///
/// # Panics
/// As [`compare`].
pub fn local(disk: &Path, extent: Extent, record: &mut Record) -> Result<(), String> {
    /// Bytes that a process takes besides: its program, stacks, buffers of the fabric.
    const OWN: u64 = 24 << 20;
    let size = Size::of(extent);
    let memory = u64::from(NODES) * (size.limit + OWN);
    let limited = Limited::to(memory).map_err(|error| format!("memory cannot be limited: {error}"))?;
    fs::create_dir_all(disk).map_err(|error| format!("{}: {error}", disk.display()))?;
    svmio_leftovers::remove_directories_in(disk);
    let directory = temporary(disk);
    let below = directory.path().to_string_lossy().into_owned();
    let words = size.words();
    let words = [&words.each_ref().map(String::as_str)[..], &["local", "--directory", &below]].concat();
    let processes = [1, NODES];
    let local = medians(2, |side| [job::run_limited(&limited, processes[side], &words).get("seconds")]);
    record.tell(format_args!(
        "\nThe same keys in a local file that is mapped, all processes together with {} MiB of memory, the kernel's pages of \
         the file and {} MiB for each process itself included: {:.2} s by one process, {:.2} s by four.",
        memory >> 20,
        OWN >> 20,
        local[0][0],
        local[1][0]
    ));
    for (processes, [seconds]) in processes.iter().zip(local) {
        record.add(
            json!({ "part": "sort", "between": "local file", "processes": processes, "seconds": seconds }),
        );
    }
    Ok(())
}
