//! One run of `programs/files`, on one host each, and what it tells.

use std::fs;
use std::time::Duration;

use svmio_tests::{Files, Job, Mpi, Nodes, Program, Stock};

use super::bed::{Bed, HOSTS, Keeper};
use crate::told::Told;

/// So long a run may take: the slowest way through the narrowest link.
const LIMIT: Duration = Duration::from_secs(300);

/// Has the program, which has told all by then, not wait for ever in its end.
const MAY_HANG_AT_END: &str = "BENCHMARK_MAY_HANG_AT_END";

/// One of the program's benchmarks.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Its name.
    pub what: &'a str,
    /// What follows the file's name.
    pub arguments: &'a [&'a str],
    /// What the ranks find in their environment.
    pub variables: &'a [(&'a str, &'a str)],
}

impl<'a> Call<'a> {
    /// With the environment as it is.
    pub fn new(what: &'a str, arguments: &'a [&'a str]) -> Self {
        Call { what, arguments, variables: &[] }
    }
}

/// The driver by which the MPI reaches files of other keepers: ROMIO's, which all that is measured goes well through.
pub fn driver(mpi: Mpi) -> &'static Stock {
    &Stock::of(mpi)[0]
}

/// Runs it on a file of that keeper's, which is gone afterwards.
///
/// # Panics
/// Where it fails, or where svmio gives back something else than was written.
pub fn run(bed: &Bed, program: &Program, keeper: Keeper, call: Call<'_>) -> Told {
    let Call { what, arguments, variables } = call;
    let nodes = Nodes::Hosts(bed.hosts());
    let scratch = nodes.scratch();
    let directory = bed.directory(keeper);
    let stock = driver(program.mpi);
    let (name, files) = match keeper {
        Keeper::Svmio => ("svm:/nodes".to_owned(), Files::Svmio),
        _ => (format!("{}{}", stock.prefix, directory.join("nodes").display()), Files::Stock),
    };
    let mut job = Job::new(&scratch, program, HOSTS).files(files).over(nodes).limit(LIMIT);
    job = job.argument(what).argument(name);
    for argument in arguments {
        job = job.argument(*argument);
    }
    for (name, value) in variables {
        job = job.variable(name, value);
    }
    if let (Files::Stock, Some(component)) = (files, stock.component) {
        job = job.variable("OMPI_MCA_io", component);
    }
    let output = finished(program, job);
    if keeper == Keeper::Svmio {
        nodes.demand_stores(&scratch);
        for store in nodes.stores(&scratch) {
            // It is in a host's memory: not below the scratch directory, which goes by itself.
            fs::remove_dir_all(&store).unwrap_or_else(|error| panic!("{}: {error}", store.display()));
        }
    } else {
        super::bed::on_host(bed.hosts(), 0, "rm -f \"$1\"", &[&directory.join("nodes").to_string_lossy()]);
    }
    let title = format!("{what} {} ({}, {})", arguments.join(" "), program.mpi, keeper.name());
    let measured = Told::parse(title, &output);
    if keeper == Keeper::Svmio { right(measured) } else { measured }
}

/// What was told where nothing is wrong.
fn right(measured: Told) -> Told {
    let wrong = measured.wrong();
    assert!(wrong == 0.0, "{}: {wrong} words are not what was written", measured.title());
    measured
}

/// Runs one that needs no file: MPI's messages alone.
///
/// # Panics
/// Where it fails, or something else arrives than was sent.
pub fn run_messages(bed: &Bed, program: &Program, count: u64) -> Told {
    let nodes = Nodes::Hosts(bed.hosts());
    let scratch = nodes.scratch();
    let job = Job::new(&scratch, program, HOSTS).files(Files::Stock).over(nodes).limit(LIMIT);
    let output = finished(program, job.argument("messages").argument("-").argument(count.to_string()));
    right(Told::parse(format!("messages ({})", program.mpi), &output))
}

/// Runs a job to its end and returns what it wrote. Debian's MPICH, over several hosts, may fail, or hang, when all is
/// done.
fn finished(program: &Program, job: Job<'_>) -> String {
    let may_fail = program.mpi == Mpi::DebianMpich;
    // Open MPI counts the ranks of each host, and not that all hosts have the same processors.
    let mut job = job.variable("OMPI_MCA_mpi_yield_when_idle", "1");
    if may_fail {
        job = job.variable(MAY_HANG_AT_END, "1");
    }
    let finished = job.run();
    let is_done = finished.output.lines().any(|line| line.starts_with("done "));
    let is_good = finished.status.success() || may_fail;
    assert!(is_done && is_good, "{}", finished.account());
    finished.output
}
