//! Computing while a message is sent, on shared memory: how much of the transfer the computation hides, and from
//! which computation on sending asynchronously is the better choice. Prints a table in Markdown, and draws it into
//! the directory `SVMIO_FIGURES` names. With `--check` a few sizes only, and a failure where an aim is missed by far.

use std::path::PathBuf;
use std::process::ExitCode;

use svmio_benches::aims::{self, Aim, Extent};
use svmio_benches::messages::tool;
use svmio_benches::phase::{self, Phase};

fn main() -> ExitCode {
    let extent = Extent::from_command_line();
    let was_calm = phase::is_calm();
    let (sizes, compute) = match extent {
        Extent::Full => ("64K..16M", "0,0.1,0.2,0.5,1,2,5,10,20,30,40,50,60"),
        Extent::Check => ("256K,4M,16M", "0,5"),
    };
    println!("cargo run --release -p svmio-benches --bin overlap\n");
    println!("Times without computation, µs. At the beginning {}.\n", Phase::now());
    let plot = std::env::var_os("SVMIO_FIGURES").map(|directory| {
        let directory = PathBuf::from(directory);
        std::fs::create_dir_all(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        directory.join("overlap.svg").to_string_lossy().into_owned()
    });
    let mut arguments = vec!["bench", "overlap", "--json", "--sizes", sizes, "--compute", compute];
    arguments.extend(plot.iter().flat_map(|path| ["--plot", path]));
    if extent == Extent::Check {
        arguments.push("--least");
    }
    let result = tool(&arguments);
    let sizes = result["modes"][0]["sizes"].as_array().unwrap_or_else(|| panic!("no sizes in {result}"));
    println!("| bytes | synchronous | asynchronous | break-even measured | calculated | hidden at least |");
    println!("|--:|--:|--:|--:|--:|--:|");
    let mut aims = Vec::new();
    for size in sizes {
        let number = |key: &str| size[key].as_f64().unwrap_or(f64::NAN);
        let (bytes, synchronous) = (number("size"), number("synchronous"));
        // None where the curves do not meet.
        let break_even = size["break_even_measured"].as_f64().unwrap_or(f64::INFINITY);
        println!(
            "| {bytes} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} % |",
            synchronous * 1e6,
            number("asynchronous") * 1e6,
            break_even * 1e6,
            number("break_even_calculated") * 1e6,
            number("hidden") * 100.0
        );
        let what = |what: &str| format!("{bytes} B: {what}");
        // A short transfer is over in the time that two calls take.
        let limit = if bytes < 4e6 { 0.4 } else { 0.9 };
        aims.push(Aim::at_least(what("share that is hidden"), number("hidden"), 0.95, limit));
        // As a share of the transfer: what is near zero is noise. The one that is calculated, since the other one has
        // no more places than there were computations.
        let share = number("break_even_calculated") / synchronous;
        aims.push(Aim::at_most(what("break-even point, of the transfer's time"), share, 0.0, 0.3));
    }
    println!("\nAt the end {}.", Phase::now());
    aims::end(extent, &aims, was_calm)
}
