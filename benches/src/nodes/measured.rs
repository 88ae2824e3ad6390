//! One run of `programs/nodes`, on one host each, and what it tells.

use std::fs;
use std::path::Path;
use std::time::Duration;

use svmio_tests::{Files, Job, Mpi, Nodes, Program, Stock};

use super::bed::{Bed, HOSTS, Keeper};

/// So long a run may take: the slowest way through the narrowest link.
const LIMIT: Duration = Duration::from_secs(300);

/// What a run told: names and numbers.
#[derive(Debug)]
pub struct Measured {
    numbers: Vec<(String, f64)>,
    title: String,
}

impl Measured {
    /// The number of that name.
    ///
    /// # Panics
    /// Where there is none.
    pub fn get(&self, name: &str) -> f64 {
        self.all(name).next().unwrap_or_else(|| panic!("{}: no {name} in {:?}", self.title, self.numbers))
    }

    /// All numbers of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = f64> + 'a {
        self.numbers.iter().filter(move |(found, _)| found == name).map(|(_, number)| *number)
    }
}

/// The benchmarks' program.
pub fn program(mpi: Mpi) -> Program {
    Program::c_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/nodes"), mpi)
}

/// Runs one of the program's benchmarks on a file of that keeper's, which is gone afterwards.
///
/// # Panics
/// Where it fails, or where svmio gives back something else than was written.
pub fn run(bed: &Bed, program: &Program, keeper: Keeper, what: &str, arguments: &[&str]) -> Measured {
    let nodes = Nodes::Hosts(bed.hosts());
    let scratch = nodes.scratch();
    let directory = bed.directory(keeper);
    // Best of the MPI's own drivers.
    let stock = &Stock::of(program.mpi)[0];
    let (name, files) = match keeper {
        Keeper::Svmio => ("svm:/nodes".to_owned(), Files::Svmio),
        _ => (format!("{}{}", stock.prefix, directory.join("nodes").display()), Files::Stock),
    };
    let mut job = Job::new(&scratch, program, HOSTS).files(files).over(nodes).limit(LIMIT);
    job = job.argument(what).argument(name);
    for argument in arguments {
        job = job.argument(*argument);
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
    let measured = Measured { numbers: output.lines().filter_map(parsed).collect(), title };
    if keeper == Keeper::Svmio {
        let wrong: f64 = measured.all("wrong").sum();
        assert!(wrong == 0.0, "{}: {wrong} words are not what was written", measured.title);
    }
    measured
}

/// Runs one that needs no file: MPI's messages alone.
///
/// # Panics
/// Where it fails.
pub fn run_messages(bed: &Bed, program: &Program, count: u64) -> Measured {
    let nodes = Nodes::Hosts(bed.hosts());
    let scratch = nodes.scratch();
    let job = Job::new(&scratch, program, HOSTS).files(Files::Stock).over(nodes).limit(LIMIT);
    let output = finished(program, job.argument("messages").argument("-").argument(count.to_string()));
    let title = format!("messages ({})", program.mpi);
    Measured { numbers: output.lines().filter_map(parsed).collect(), title }
}

/// Runs a job to its end and returns what it wrote. Debian's MPICH, over several hosts, may fail when all is done.
fn finished(program: &Program, job: Job<'_>) -> String {
    // Open MPI counts the ranks of each host, and not that all hosts have the same processors.
    let finished = job.variable("OMPI_MCA_mpi_yield_when_idle", "1").run();
    let is_done = finished.output.lines().any(|line| line.starts_with("done "));
    let is_good = finished.status.success() || program.mpi == Mpi::DebianMpich;
    assert!(is_done && is_good, "{}", finished.account());
    finished.output
}

fn parsed(line: &str) -> Option<(String, f64)> {
    let (name, number) = line.trim().split_once(' ')?;
    Some((name.to_owned(), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Measured, parsed};

    #[test]
    fn what_is_no_number_of_a_name_is_not_taken_for_one() {
        assert_eq!(parsed("write 0.5"), Some(("write".to_owned(), 0.5)));
        assert_eq!(parsed("a warning of the MPI"), None);
        let numbers = vec![("with".to_owned(), 1.0), ("without".to_owned(), 2.0), ("with".to_owned(), 3.0)];
        let measured = Measured { numbers, title: String::new() };
        assert_eq!(measured.all("with").collect::<Vec<_>>(), [1.0, 3.0]);
        assert_eq!(measured.get("without"), 2.0);
    }
}
