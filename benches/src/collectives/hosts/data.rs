//! Collectives over hosts, by each algorithm between nodes and by the one that costs least as far as svmio can tell.

use std::time::Instant;

use serde_json::{Value, json};
use svmio_collectives::executor::network::{Choices, MessageCosts};
use svmio_collectives::executor::{Elementwise, Fabrics, GroupSettings, NetworkSettings, TwoLevelGroup};
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Rank, SegmentId};

use super::member::Plan;
use super::{Bed, HOSTS, MEGABITS, PER_HOST, RANKS};
use crate::aims::Aim;
use crate::interleaved::median;
use crate::phase::Phase;

/// What costs least as far as svmio can tell.
const CHEAPEST: &str = "auto";

/// The functions, and their algorithms by the names that [`Choices::choose`] knows.
const FUNCTIONS: [(&str, &[&str]); 5] = [
    ("bcast", &["binomial", "pipelined", "scatter-allgather"]),
    ("reduce", &["binomial", "rabenseifner"]),
    ("allreduce", &["recursive-doubling", "rabenseifner", "ring"]),
    ("allgather", &["bruck", "ring"]),
    ("alltoall", &["bruck", "pairwise"]),
];

/// Bytes that a member gives; of alltoall, to each.
const LENGTHS: [usize; 4] = [8, 1 << 10, 16 << 10, 256 << 10];

/// What one run measures.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Run {
    /// What messages between hosts cost, in nanoseconds: each, each byte of a short one, and each further one.
    costs: [f64; 3],
    /// Seconds of each call: by function, length and algorithm, of which the first is what costs least.
    seconds: Vec<Vec<Vec<f64>>>,
}

/// Measures each of them so many times in each of so many runs.
///
/// # Panics
/// Where something fails.
pub fn compare(runs: usize, count: u32) -> Outcome {
    let bed = Bed::new();
    let phase = Phase::now();
    let run = |_| {
        let told = bed.svmio(&Plan::Data { count });
        serde_json::from_str(&told).expect("the first member writes what it has measured")
    };
    Outcome { runs: (0..runs).map(run).collect(), phase }
}

/// What a member measures, all of whom call this.
///
/// # Panics
/// Where something fails.
pub(super) fn measured(fabrics: &Fabrics, space: u32, count: u32) -> Run {
    let members: Vec<Rank> = fabrics.job().membership().ranks().collect();
    let port = Port::silent(0).expect("there are some");
    let messages = NetworkSettings::messages(MessageSettings::default());
    let messenger = Messenger::open(fabrics.job(), port, &messages);
    let messenger = messenger.unwrap_or_else(|error| panic!("opening a messenger: {error}")).into();
    let mut known: Option<MessageCosts> = None;
    let mut numbers = (0..).step_by(4);
    let mut group_by = |choices: Choices| {
        let id = SegmentId::new(space, numbers.next().expect("there is no last one"));
        let between = NetworkSettings { choices, ..NetworkSettings::default() };
        let joined =
            TwoLevelGroup::join(fabrics, &messenger, &members, id, GroupSettings::default(), between);
        let mut group = joined.unwrap_or_else(|error| panic!("joining a group: {error}"));
        known = group.learn_costs(known).unwrap_or_else(|error| panic!("learning costs: {error}"));
        group
    };
    let mut seconds = Vec::new();
    for (function, algorithms) in FUNCTIONS {
        let mut groups = Vec::new();
        for algorithm in std::iter::once(&CHEAPEST).chain(algorithms) {
            let mut choices = Choices::default();
            choices.choose(function, algorithm).unwrap_or_else(|problem| panic!("{function}: {problem}"));
            groups.push(group_by(choices));
        }
        let of_length = |length| groups_in_turn(&mut groups, function, length, count);
        seconds.push(LENGTHS.map(of_length).to_vec());
    }
    let costs = known.map_or([f64::NAN; 3], |costs| [costs.latency, costs.per_short_byte, costs.per_byte]);
    Run { costs, seconds }
}

/// Seconds of a call by each of the groups, which take turns: the median of so many.
fn groups_in_turn(groups: &mut [TwoLevelGroup], function: &str, length: usize, count: u32) -> Vec<f64> {
    let mut times = vec![Vec::new(); groups.len()];
    for turn in 0..=count as usize {
        for place in 0..groups.len() {
            // Another one first each time: what a call leaves a link to carry yet is the next one's burden.
            let which = (turn + place) % groups.len();
            let time = call(&mut groups[which], function, length, turn);
            // The first ones connect.
            if turn > 0 {
                times[which].push(time);
            }
        }
    }
    times.into_iter().map(median).collect()
}

/// Seconds from when all have come until all are done. What has come is compared with what was given in this turn.
fn call(group: &mut TwoLevelGroup, function: &str, length: usize, turn: usize) -> f64 {
    let (size, member) = (group.size(), group.member());
    let sum = Elementwise::commutative(u64::wrapping_add);
    let mut own = given(member, 0, turn, length);
    let each: Vec<u8> = (0..size).flat_map(|taker| given(member, taker, turn, length)).collect();
    let mut all = vec![0; length * size];
    let mut run = || -> Result<f64, svmio_collectives::executor::Error> {
        group.barrier()?;
        let begun = Instant::now();
        match function {
            "bcast" => group.bcast(0, &mut own)?,
            "reduce" => group.reduce(0, &mut own, &sum)?,
            "allreduce" => group.allreduce(&mut own, &sum)?,
            "allgather" => group.allgather(&own, &mut all)?,
            _ => group.alltoall(&each, &mut all)?,
        }
        group.barrier()?;
        Ok(begun.elapsed().as_secs_f64())
    };
    let seconds = run().unwrap_or_else(|error| panic!("{function} of {length} bytes: {error}"));
    let of_all = |taker| (0..size).flat_map(move |giver| given(giver, taker, turn, length)).collect();
    let (come, expected): (&[u8], Vec<u8>) = match function {
        "bcast" => (&own, given(0, 0, turn, length)),
        // Only the root has it.
        "reduce" if member > 0 => return seconds,
        "reduce" | "allreduce" => (&own, summed((0..size).map(|giver| given(giver, 0, turn, length)))),
        "allgather" => (&all, of_all(0)),
        _ => (&all, of_all(member)),
    };
    assert!(
        come == expected,
        "{function} of {length} bytes: member {member} has something else than was given"
    );
    seconds
}

/// What a member gives to another one, or to all: other words for each of them, each turn and each place.
fn given(giver: usize, taker: usize, turn: usize, length: usize) -> Vec<u8> {
    let first = [giver, taker, turn].iter().fold(1_u64, |sum, number| sum * 1009 + *number as u64);
    let words = (0..length as u64 / 8).map(|at| (first << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_ne_bytes).collect()
}

/// The sums of the words of as many bytes each.
fn summed(all: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    const WORD: usize = size_of::<u64>();
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("whole words"));
    let add = |one: Vec<u8>, other: Vec<u8>| {
        let both = one.chunks_exact(WORD).zip(other.chunks_exact(WORD));
        both.flat_map(|(one, other)| word(one).wrapping_add(word(other)).to_ne_bytes()).collect()
    };
    all.reduce(add).unwrap_or_default()
}

/// All that was measured.
#[derive(Debug)]
pub struct Outcome {
    runs: Vec<Run>,
    phase: Phase,
}

impl Outcome {
    /// Seconds of each algorithm, the median of all runs.
    fn medians(&self, function: usize, length: usize) -> Vec<f64> {
        let of = |algorithm| {
            median(self.runs.iter().map(|run| run.seconds[function][length][algorithm]).collect())
        };
        (0..=FUNCTIONS[function].1.len()).map(of).collect()
    }

    /// The time of what svmio takes over that of the best algorithm.
    fn ratio(&self, function: usize, length: usize) -> f64 {
        let medians = self.medians(function, length);
        medians[0] / medians[1..].iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn costs(&self) -> [f64; 3] {
        [0, 1, 2].map(|part| median(self.runs.iter().map(|run| run.costs[part]).collect()))
    }

    /// What is to be shown.
    #[must_use]
    pub fn aims(&self) -> Vec<Aim> {
        let each = (0..FUNCTIONS.len()).flat_map(|function| (0..LENGTHS.len()).map(move |at| (function, at)));
        each.map(|(function, at)| {
            let what = format!("{} of {} bytes, over the best algorithm", FUNCTIONS[function].0, LENGTHS[at]);
            Aim::at_most(what, self.ratio(function, at), 1.15, 2.0)
        })
        .collect()
    }

    /// The tables, in Markdown; times in microseconds.
    #[must_use]
    pub fn markdown(&self) -> String {
        let [latency, short, per_byte] = self.costs();
        let mut text = format!(
            "{RANKS} ranks, {PER_HOST} on each of {HOSTS} hosts with links of {MEGABITS} Mbit/s; µs of a call and the \
             barrier behind it; {}. A message between hosts costs {:.0} µs, {short:.1} ns for each of its first 16384 bytes and {per_byte:.1} ns for each further one.\n",
            self.phase,
            latency / 1e3
        );
        for (function, (name, algorithms)) in FUNCTIONS.iter().enumerate() {
            let rule = "--:|".repeat(algorithms.len() + 2);
            text += &format!(
                "\n| {name}, bytes | {} | {CHEAPEST} | over the best |\n|--:|{rule}\n",
                algorithms.join(" | ")
            );
            for (at, length) in LENGTHS.iter().enumerate() {
                let medians = self.medians(function, at);
                let columns =
                    medians[1..].iter().chain(&medians[..1]).map(|time| format!("{:.0}", time * 1e6));
                let columns = columns.collect::<Vec<_>>().join(" | ");
                text += &format!("| {length} | {columns} | {:.2} |\n", self.ratio(function, at));
            }
        }
        text
    }

    /// Every single run.
    #[must_use]
    pub fn json(&self) -> Value {
        let functions: Vec<Value> = FUNCTIONS
            .iter()
            .map(|(name, algorithms)| {
                let algorithms = [&[CHEAPEST], *algorithms].concat();
                json!({ "name": name, "algorithms": algorithms })
            })
            .collect();
        json!({ "functions": functions, "bytes": LENGTHS, "runs": self.runs })
    }
}

#[cfg(test)]
mod tests {
    use super::{given, summed};

    #[test]
    fn everybody_gives_something_else_each_time_and_sums_are_those_of_words() {
        let all =
            [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)].map(|(one, to, turn)| given(one, to, turn, 16));
        for (at, one) in all.iter().enumerate() {
            assert!(one.len() == 16 && one[..8] != one[8..] && !all[..at].contains(one));
        }
        let words = [1_u64, u64::MAX, 3].map(|word| word.to_ne_bytes().to_vec());
        assert_eq!(summed(words.into_iter()), 3_u64.to_ne_bytes());
    }
}
