//! What `SVMIO_STATS=1` tells of the collectives that svmio did for a program.

/// All that svmio does.
pub const EVERY: [&str; 17] = [
    "barrier",
    "bcast",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "exscan",
];

/// How many calls of a collective rank 0 made that svmio did, and how many reached it in all, as the job's `output` tells.
///
/// # Panics
/// Where it does not tell.
#[must_use]
pub fn counted(output: &str, collective: &str) -> (u64, u64) {
    let line = output.lines().find_map(|line| line.split_once("collectives done by svmio, of all: "));
    let (_, counts) = line.unwrap_or_else(|| panic!("svmio tells nothing of collectives: {output}"));
    let mut all = counts.split(", ").filter_map(|count| count.split_once(' '));
    let (_, numbers) = all.find(|(name, _)| *name == collective).unwrap_or((collective, "0/0"));
    let numbers =
        numbers.split_once('/').and_then(|(ours, all)| Some((ours.parse().ok()?, all.parse().ok()?)));
    numbers.unwrap_or_else(|| panic!("{collective} in {output}"))
}
