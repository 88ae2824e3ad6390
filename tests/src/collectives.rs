//! What jobs tell of the collectives that svmio did for them: by `SVMIO_STATS=1`, and when one of them is lost; and
//! what they do under each adapter.

use std::time::Duration;

use crate::is_full_run;
use crate::job::Job;
use crate::mpi::Mpi;
use crate::nodes::Nodes;
use crate::program::Program;
use crate::scratch::Scratch;

/// All that svmio does; see [`nonblocking`], too.
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

/// With how many ranks random collectives are done: in a short run only with the fewest and the most.
pub fn numbers_of_ranks() -> impl Iterator<Item = u32> {
    (2..=5).filter(|ranks| is_full_run() || [2, 5].contains(ranks))
}

/// Short ones that do not block are MPI's otherwise.
pub const ALL_BEGUN: (&str, &str) = ("SVMIO_COLLECTIVES_NONBLOCKING", "all");

/// Those of them that do not block.
#[must_use]
pub fn nonblocking() -> [String; 17] {
    EVERY.map(|collective| format!("i{collective}"))
}

/// How many calls of a collective rank 0 made that svmio did, and how many reached it in all, as the job's `output`
/// tells.
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

/// A rank goes without a word, and is named to all others, by an error and in time. `with` says of the job by which
/// adapter they hear of it, and gives "begun" as an argument where it is from a collective that does not block.
///
/// # Panics
/// Where they are not told, or something else.
pub fn those_left_hear_of_a_loss(mpi: Mpi, nodes: Nodes, ranks: u32, with: impl FnOnce(Job<'_>) -> Job<'_>) {
    let program = Program::c("collectives_lost", mpi);
    let scratch = nodes.scratch();
    // The launcher is to let the others tell.
    let keep = if mpi.is_mpich() { "-disable-auto-cleanup" } else { "--enable-recovery" };
    let mut job = with(Job::new(&scratch, &program, ranks).over(nodes).options(&[keep])).start();
    for rank in (0..ranks).filter(|&rank| rank != 1) {
        let file = scratch.file(&format!("told-{rank}"));
        let told = job.until("a rank was told", || std::fs::read_to_string(&file).ok());
        let is_right =
            |line: &str| line.contains("allreduce by svmio failed") && line.contains("rank 1 on node");
        assert!(told.lines().count() == 2 && told.lines().all(is_right), "{told}");
    }
}

/// An attribute of `MPI_COMM_SELF` goes once, at the end of MPI, though svmio does collectives by an adapter, and keeps
/// a file.
///
/// # Panics
/// Where it goes more often, or svmio does nothing.
pub fn attributes_go_once(mpi: Mpi, adapter: &'static str) {
    let program = Program::c("own_attributes", mpi);
    let scratch = Scratch::new();
    let job = Job::new(&scratch, &program, 2).collectives(adapter).variable("SVMIO_STATS", "1");
    let output = job.argument("svm:/attributes").succeed();
    assert_eq!(output.matches("the attribute went 1 times").count(), 2, "{output}");
    for collective in ["allreduce", "bcast"] {
        assert!(counted(&output, collective).0 > 0, "{collective}: {output}");
    }
}

/// Ranks meet in a collective when an attribute of `MPI_COMM_SELF` goes, though they have set it before and after their
/// first one.
///
/// # Panics
/// Where they do not.
pub fn all_meet_at_the_end_of_mpi(mpi: Mpi, adapter: &'static str) {
    let program = Program::c("collectives_at_end", mpi);
    for ranks in [2, 3] {
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, ranks).collectives(adapter).variable("SVMIO_STATS", "1");
        let output = job.limit(Duration::from_secs(60)).succeed();
        assert!(output.contains("all met at the end"), "{output}");
        assert_eq!(counted(&output, "allreduce").0, 1, "{output}");
    }
}

/// A collective in the course of the freeing of its communicator leaves nothing behind that a later one with the same
/// handle is taken by, whenever it is that a communicator has a group.
///
/// # Panics
/// Where a later one has not its own.
pub fn while_a_communicator_is_freed(mpi: Mpi, adapter: &'static str) {
    let program = Program::c("collectives_while_freed", mpi);
    for after in ["0", "1", "512"] {
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, 4).collectives(adapter).variable("SVMIO_STATS", "1");
        let job = job.variable("SVMIO_COLLECTIVES_AFTER", after).limit(Duration::from_secs(60));
        let output = job.succeed();
        assert!(output.contains("each had its own"), "after {after}: {output}");
        assert!(counted(&output, "bcast").0 > 0, "after {after}: {output}");
    }
}
