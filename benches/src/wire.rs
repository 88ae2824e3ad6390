//! svmio's messages over a network of a given rate, beside iperf3.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use svmio_tests::{Hosts, Rate};

use crate::aims::Extent;
use crate::interleaved::{REPETITIONS, medians_of_lists};
use crate::messages::{Pattern, svmio};

const MEGABITS: u32 = 1000;
const SIZES: [u64; 4] = [64 << 10, 1 << 20, 4 << 20, 16 << 20];

/// Measures both between two hosts, and prints the table. Returns svmio's bandwidth, as a share of iperf3's, of the
/// largest messages.
///
/// # Panics
/// Where one of them fails, or something is missing.
pub fn compare(extent: Extent) -> f64 {
    let hosts = Hosts::new(2);
    for host in 0..hosts.count() {
        hosts.set_rate(host, Rate::Megabits(MEGABITS));
    }
    let sizes: &[u64] = if extent == Extent::Full { &SIZES } else { &SIZES[3..] };
    let server = Server::start(&hosts);
    let words = |host| {
        let words: Vec<String> =
            hosts.prefix(host).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ")
    };
    let (first, second) = (words(0), words(1));
    // The hosts have a network for themselves: any port is free.
    let master = format!("{}:7000", hosts.address(0));
    let options =
        ["--fabric", "ofi", "--repeat", "1", "--prefix0", &first, "--prefix1", &second, "--master", &master];
    let values = medians_of_lists(2, |side| match side {
        0 => vec![iperf(&hosts)],
        _ => {
            let seconds = svmio(Pattern::Bandwidth, sizes, &options);
            sizes.iter().zip(seconds).map(|(size, seconds)| *size as f64 / 1e6 / seconds).collect()
        }
    });
    drop(server);
    let peer = values[0][0];
    println!(
        "\nBetween two hosts over {MEGABITS} Mbit/s each way, MB/s of payload, medians of {REPETITIONS} runs in \
         turn; iperf3 gets {peer:.1}:\n\n| bytes | svmio (ofi) | svmio / iperf3 |\n|--:|--:|--:|"
    );
    for (size, own) in sizes.iter().zip(&values[1]) {
        println!("| {size} | {own:.1} | {:.3} |", own / peer);
    }
    values[1].last().map_or(f64::NAN, |own| own / peer)
}

/// iperf3's server, on the second host.
struct Server(Child);

impl Server {
    fn start(hosts: &Hosts) -> Server {
        let mut command = hosts.command(1, "iperf3");
        command.args(["--server", "--forceflush"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
        let output = child.stdout.take().expect("the output is piped");
        let listens =
            BufReader::new(output).lines().map_while(Result::ok).any(|line| line.contains("listening"));
        assert!(listens, "iperf3 does not listen: is the package iperf3 installed?");
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already, or killed by this: both are what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// MB/s that arrive from the first host at the second.
fn iperf(hosts: &Hosts) -> f64 {
    let mut command: Command = hosts.command(0, "iperf3");
    command.args(["--json", "--time", "2", "--omit", "1", "--client", &hosts.address(1).to_string()]);
    let output = command.output().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{command:?}: {error}\n{}", String::from_utf8_lossy(&output.stdout)));
    let bits = result["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.unwrap_or_else(|| panic!("{command:?} says {result}")) / 8e6
}
