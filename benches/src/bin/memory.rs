//! Programs that use files on several nodes as memory: a stencil, and a sort of more keys than memory may hold. Each
//! beside itself with explicit reads and writes, on four nodes that share this machine's memory and on four hosts with
//! links of 1 Gbit/s; the sort also beside itself in a local file that is mapped. Prints tables in Markdown. Needs
//! root.
//!
//! What is measured goes as `memory.json` into the directory that `SVMIO_FIGURES` names.
//!
//! With `--check` small sizes, and a failure where an aim is missed by far.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use svmio_benches::aims::{self, Aim, Extent};
use svmio_benches::interleaved::REPETITIONS;
use svmio_benches::left_out;
use svmio_benches::memory::job::{self, Nodes};
use svmio_benches::memory::{sort, stencil};
use svmio_benches::nodes::bed::{self, Bed};
use svmio_benches::phase::{self, Phase};

fn main() -> ExitCode {
    if bed::cleaned_up() || job::is_done_here() {
        return ExitCode::SUCCESS;
    }
    let extent = Extent::from_command_line(
        "memory",
        "A stencil and a sort over files as memory, beside explicit reads and writes",
    );
    if !left_out::is_root() {
        return left_out::all("programs on files as memory");
    }
    let was_calm = phase::is_calm();
    println!("cargo run --release -p svmio-benches --bin memory\n");
    println!("Medians of {REPETITIONS} runs of each side, in turn. At the beginning {}.", Phase::now());
    let bed = Bed::new();
    let places = [Nodes::Memory, Nodes::Hosts(&bed)];
    let figures = std::env::var_os("SVMIO_FIGURES").map(PathBuf::from);
    let disk = figures.clone().unwrap_or_else(|| ".".into());
    let mut aims = stencil::compare(&places, extent);
    aims.extend(sort::compare(&places, &disk, extent));
    drop(bed);
    println!("\nAt the end {}.", Phase::now());
    if let Some(directory) = figures {
        keep(&aims, &directory.join("memory.json"));
    }
    aims::end(extent, &aims, was_calm)
}

/// Writes what was measured, with what is aimed at, as JSON.
fn keep(aims: &[Aim], file: &Path) {
    let of = |aim: &Aim| json!({ "what": aim.what, "measured": aim.measured, "aim": aim.aim });
    let text = json!({ "aims": aims.iter().map(of).collect::<Vec<_>>() }).to_string();
    std::fs::write(file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}
