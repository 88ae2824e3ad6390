//! svmio's messages over a network of a given rate, beside iperf3.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use svmio_tests::{Hosts, Rate};

use crate::aims::Extent;
use crate::figures::Record;
use crate::interleaved::{CHECKED, REPETITIONS, medians_of_lists, most_of_lists};
use crate::messages::{Pattern, svmio};

const MEGABITS: u32 = 1000;
const SIZES: [u64; 4] = [64 << 10, 1 << 20, 4 << 20, 16 << 20];

/// Two hosts with a network of that rate between them.
pub struct Wire {
    hosts: Hosts,
}

impl Wire {
    /// Made for this, and removed when it is dropped. For streams.
    ///
    /// # Panics
    /// Where it cannot be made: only root may.
    pub fn new() -> Wire {
        Wire::of(Rate::Megabits(MEGABITS))
    }

    /// The same for single messages with pauses between them, which go at that rate, too.
    ///
    /// # Panics
    /// As for [`new`](Self::new).
    pub fn even() -> Wire {
        Wire::of(Rate::EvenMegabits(MEGABITS))
    }

    fn of(rate: Rate) -> Wire {
        let hosts = Hosts::new(2);
        (0..hosts.count()).for_each(|host| hosts.set_rate(host, rate));
        Wire { hosts }
    }

    /// Options with which a benchmark of the tool runs between the hosts.
    pub fn options(&self) -> Vec<String> {
        let words = |host| {
            let prefix = self.hosts.prefix(host);
            prefix.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<String>>().join(" ")
        };
        // The hosts have a network for themselves: any port is free.
        let master = format!("{}:7000", self.hosts.address(0));
        let named = [("--fabric", "ofi".to_owned()), ("--prefix0", words(0)), ("--prefix1", words(1))];
        let named = named.into_iter().chain([("--master", master)]);
        named.flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

impl Default for Wire {
    fn default() -> Self {
        Self::new()
    }
}

/// From how many bytes on a message is long enough for the whole rate.
const LONG: u64 = 1 << 20;

/// Measures both between two hosts, and prints the table. Returns svmio's bandwidth, as a share of iperf3's: the least
/// of all sizes from 1 MiB on.
///
/// # Panics
/// Where one of them fails, or something is missing.
pub fn compare(extent: Extent, record: &mut Record) -> f64 {
    let wire = Wire::new();
    let sizes: &[u64] = if extent == Extent::Full { &SIZES } else { &SIZES[3..] };
    let server = Server::start(&wire.hosts, 1);
    let options = [&["--repeat".to_owned(), "1".to_owned()][..], &wire.options()].concat();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let run = |side: usize| match side {
        0 => vec![iperf(&wire.hosts, 0, 1)],
        _ => {
            let seconds = svmio(Pattern::Bandwidth, sizes, &options);
            sizes.iter().zip(seconds).map(|(size, seconds)| *size as f64 / 1e6 / seconds).collect()
        }
    };
    let (values, summary) = match extent {
        Extent::Full => (medians_of_lists(2, run), format!("medians of {REPETITIONS}")),
        Extent::Check => (most_of_lists(2, run), format!("the most of {CHECKED}")),
    };
    drop(server);
    let peer = values[0][0];
    record.tell(format_args!(
        "\nBetween two hosts over {MEGABITS} Mbit/s each way, MB/s of payload, {summary} runs in turn; iperf3 gets \
         {peer:.1}:\n\n| bytes | svmio (ofi) | svmio / iperf3 |\n|--:|--:|--:|"
    ));
    for (size, own) in sizes.iter().zip(&values[1]) {
        record.tell(format_args!("| {size} | {own:.1} | {:.3} |", own / peer));
        record
            .add(json!({ "what": "1 Gbit/s", "bytes": size, "unit": "MB/s", "svmio": own, "iperf3": peer }));
    }
    least_of_long(sizes, &values[1]) / peer
}

/// The least of the values of long messages; NaN where there are none.
fn least_of_long(sizes: &[u64], values: &[f64]) -> f64 {
    let long = sizes.iter().zip(values).filter(|(size, _)| **size >= LONG).map(|(_, value)| *value);
    long.reduce(f64::min).unwrap_or(f64::NAN)
}

/// iperf3's server.
pub(crate) struct Server(Child);

impl Server {
    /// Starts it on a host.
    pub(crate) fn start(hosts: &Hosts, host: usize) -> Server {
        let mut command = hosts.command(host, "iperf3");
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

/// MB/s that arrive from a host at another one, which has a [`Server`].
pub(crate) fn iperf(hosts: &Hosts, from: usize, to: usize) -> f64 {
    let mut command: Command = hosts.command(from, "iperf3");
    command.args(["--json", "--time", "2", "--omit", "1", "--client", &hosts.address(to).to_string()]);
    let output = command.output().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{command:?}: {error}\n{}", String::from_utf8_lossy(&output.stdout)));
    let bits = result["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.unwrap_or_else(|| panic!("{command:?} says {result}")) / 8e6
}

#[cfg(test)]
mod tests {
    use super::least_of_long;

    #[test]
    fn the_slowest_of_long_messages_counts() {
        let sizes = [64 << 10, 1 << 20, 4 << 20, 16 << 20];
        assert_eq!(least_of_long(&sizes, &[50.0, 118.0, 90.0, 117.0]), 90.0);
        assert!(least_of_long(&sizes[..1], &[50.0]).is_nan());
    }
}
