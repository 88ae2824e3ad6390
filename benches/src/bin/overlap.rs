//! Computing while a message is sent, on shared memory and between two hosts over a network of 1 Gbit/s: how much of
//! the transfer the computation hides, and from which computation on sending asynchronously is the better choice.
//! On shared memory a bare copy stands beside it, by a peer that is told by one word and tells by another one: as much
//! as can be hidden on this machine at this time.
//! Prints tables in Markdown, and draws them into the directory `SVMIO_FIGURES` names. With `--check` a few sizes on
//! shared memory only, and a failure where an aim is missed by far.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;
use svmio_benches::aims::{self, Aim, Extent};
use svmio_benches::messages::tool;
use svmio_benches::phase::{self, Phase};
use svmio_benches::wire::Wire;

/// Milliseconds, as in the paper's figure 10 and finer where transfers are short.
const COMPUTE: &str = "0,0.1,0.2,0.5,1,2,5,10,20,30,40,50,60";

fn main() -> ExitCode {
    let extent = Extent::from_command_line("overlap", "Computing while a message is sent");
    let was_calm = phase::is_calm();
    println!("cargo run --release -p svmio-benches --bin overlap\n");
    println!("Times without computation, µs. At the beginning {}.", Phase::now());
    let aims = match extent {
        Extent::Full => {
            let mut aims = overlapped("shared memory", &["--sizes", "64K..16M", "--compute", COMPUTE]);
            let wire = Wire::even();
            let network = wire.options();
            // The largest take longer than the longest computation.
            let mut options = vec!["--sizes", "64K..4M", "--compute", COMPUTE, "--repeat", "3"];
            options.extend(network.iter().map(String::as_str));
            aims.extend(overlapped("1 Gbit/s", &options));
            aims
        }
        Extent::Check => {
            overlapped("shared memory", &["--sizes", "256K,4M,16M", "--compute", "0,5,20", "--least"])
        }
    };
    println!("\nAt the end {}.", Phase::now());
    aims::end(extent, &aims, was_calm)
}

/// Measures on one fabric, and prints the table.
fn overlapped(fabric: &str, options: &[&str]) -> Vec<Aim> {
    let plot = std::env::var_os("SVMIO_FIGURES").map(|directory| {
        let directory = PathBuf::from(directory);
        std::fs::create_dir_all(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let name = fabric.replace([' ', '/'], "-");
        directory.join(format!("overlap-{name}.svg")).to_string_lossy().into_owned()
    });
    let mut arguments = [&["bench", "overlap", "--json"], options].concat();
    arguments.extend(plot.iter().flat_map(|path| ["--plot", path]));
    let result = tool(&arguments);
    let sizes = result["modes"][0]["sizes"].as_array().unwrap_or_else(|| panic!("no sizes in {result}"));
    println!(
        "\n{fabric}:\n\n| bytes | synchronous | asynchronous | break-even measured | calculated | hidden at least | \
         not hidden there, µs | bare copy: hidden at least | not hidden, µs |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut aims = Vec::new();
    for size in sizes {
        let number = |key: &str| size[key].as_f64().unwrap_or(f64::NAN);
        let (bytes, synchronous, asynchronous) =
            (number("size"), number("synchronous"), number("asynchronous"));
        // None where the curves do not meet.
        let break_even = size["break_even_measured"].as_f64().unwrap_or(f64::INFINITY);
        // None where the transfer takes longer than the computations.
        let hidden = size["hidden"].as_f64();
        let percent =
            |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0));
        let (share, bare_share) = (percent(hidden), percent(size["bare_hidden"].as_f64()));
        let [rest, bare_rest] = not_hidden(size)
            .map(|rest| rest.map_or("-".to_owned(), |seconds| format!("{:.1}", seconds * 1e6)));
        println!(
            "| {bytes} | {:.1} | {:.1} | {:.1} | {:.1} | {share} | {rest} | {bare_share} | {bare_rest} |",
            synchronous * 1e6,
            asynchronous * 1e6,
            break_even * 1e6,
            number("break_even_calculated") * 1e6,
        );
        let what = |what: &str| format!("{fabric}, {bytes} B: {what}");
        // A short transfer is over in the time that two calls take.
        let limit = if bytes < 4e6 { 0.4 } else { 0.9 };
        if let Some(hidden) = hidden {
            aims.push(Aim::at_least(what("share that is hidden"), hidden, 0.95, limit));
        }
        // As a share of the transfer: what is near zero is noise. The one that is calculated, since the other one has
        // no more places than there were computations.
        let share = number("break_even_calculated") / synchronous;
        aims.push(Aim::at_most(what("break-even point, of the transfer's time"), share, 0.0, 0.3));
    }
    aims
}

/// Seconds of a message, and of a bare copy, that the computation did not hide which hid the least share of it.
fn not_hidden(size: &Value) -> [Option<f64>; 2] {
    let steps = size["steps"].as_array().into_iter().flatten();
    let least = |share: &dyn Fn(&Value) -> Option<f64>, least: Option<f64>| {
        steps.clone().find(|step| share(step) == least).filter(|_| least.is_some())
    };
    let share = |step: &Value| step["hidden"].as_f64();
    let message = least(&share, size["hidden"].as_f64()).and_then(|step| step["not_hidden"].as_f64());
    let share = |step: &Value| step["bare"]["hidden"].as_f64();
    let bare = least(&share, size["bare_hidden"].as_f64());
    [message, bare.and_then(|step| step["bare"]["not_hidden"].as_f64())]
}
