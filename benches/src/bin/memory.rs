//! Programs that use files on several nodes as memory: a stencil, and a sort of more keys than memory may hold. Each
//! beside itself with explicit reads and writes, on four nodes that share this machine's memory and on four hosts with
//! links of 1 Gbit/s; the sort also beside itself in a local file that is mapped. Prints tables in Markdown. Needs
//! root.
//!
//! What is told goes as `memory.md`, and as `memory.json` with what is aimed at, with options in their names, into the
//! directory that `SVMIO_FIGURES` names.
//!
//! With `--aims` a failure where an aim is missed; with `--check` small sizes, and a failure where one is missed by far.

use std::process::ExitCode;

use svmio_benches::aims::{self, Extent};
use svmio_benches::figures::{self, Record};
use svmio_benches::interleaved::REPETITIONS;
use svmio_benches::left_out::{self, LeftOut};
use svmio_benches::memory::job::{self, Nodes};
use svmio_benches::memory::{sort, stencil};
use svmio_benches::nodes::bed::{self, Bed};
use svmio_benches::phase::{self, Phase};

/// Where the local file lies, unless figures have a place.
const DISK: &str = "target/on-disk";

fn main() -> ExitCode {
    if bed::cleaned_up() || job::is_done_here() {
        return ExitCode::SUCCESS;
    }
    let (extent, judging) =
        aims::asked("memory", "A stencil and a sort over files as memory, beside explicit reads and writes");
    if !left_out::is_root() {
        return left_out::all("programs on files as memory");
    }
    let was_calm = phase::is_calm();
    println!("cargo run --release -p svmio-benches --bin memory\n");
    let others = [(extent == Extent::Check, "check".to_owned())];
    let mut record = Record::new(figures::name("memory", &others));
    record.tell(format_args!(
        "Medians of {REPETITIONS} runs of each side, in turn. At the beginning {}.",
        Phase::now()
    ));
    let bed = Bed::new();
    let places = [Nodes::Memory, Nodes::Hosts(&bed)];
    let disk = figures::directory().unwrap_or_else(|| DISK.into());
    let mut left_out = LeftOut::default();
    let mut aims = stencil::compare(&places, extent, &mut record);
    record.keep(&aims);
    aims.extend(sort::compare(&places, extent, &mut record));
    if let Err(why) = sort::local(&disk, extent, &mut record) {
        left_out.add("a sort in a local file", &why);
    }
    drop(bed);
    record.tell(format_args!("\nAt the end {}.", Phase::now()));
    record.keep(&aims);
    left_out.end(aims::end(judging, &aims, was_calm))
}
