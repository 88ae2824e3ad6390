//! A host that is cut off in the midst of a job: calls that need it end with an error that names it, in bounded time, and
//! the others go on; once it is back, the next job finds all that was synced.

use std::path::Path;
use std::time::{Duration, Instant};

use svmio_tests::{Hosts, Job, Mpi, Nodes, Program, Reports, Running};

const HOSTS: u32 = 4;
/// How long a process may be silent before the others take it for lost.
const TIMEOUT: Duration = Duration::from_secs(2);
/// What a busy machine may take longer.
const SLACK: Duration = Duration::from_secs(3);
/// Fifty calls that need a host that is known to be lost do not wait.
const AT_ONCE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    access: &'static str,
    mode: &'static str,
    cut: usize,
}

const READS: Case = Case { access: "read", mode: "nonatomic", cut: 3 };
const LOCKED_READS: Case = Case { mode: "atomic", ..READS };
const WRITES: Case = Case { access: "write", ..READS };
const LOCKED_WRITES: Case = Case { mode: "atomic", ..WRITES };
/// Rank 0 leads the job, and on its host the file's names and tables are true. In atomic mode every access asks for
/// these, so nothing could be done then without it.
const OF_THE_MASTER: [Case; 2] = [Case { cut: 0, ..READS }, Case { cut: 0, ..WRITES }];

fn cut_off(mpi: Mpi, cases: &[Case]) {
    let hosts = Hosts::new(HOSTS as usize);
    let nodes = Nodes::Hosts(&hosts);
    let program = Program::c("nodes_cut", mpi);
    let scratch = nodes.scratch();
    for &case in cases {
        let Case { access, mode, cut } = case;
        let (began, title) = (Instant::now(), format!("{access}-{mode}-{cut}"));
        let (name, reports) = (format!("svm:/cut/{title}"), Reports::new(&scratch, &title));
        let job = Job::new(&scratch, &program, HOSTS).over(nodes).argument(access).argument(&name);
        let job = job.argument(mode).argument(reports.path()).argument(cut.to_string());
        let job = job.variable("SVMIO_WATCHDOG_TIMEOUT", format!("{}s", TIMEOUT.as_secs()));
        // Less than what all read, so that reads are in want of the other nodes.
        let job = if (access, mode) == (READS.access, READS.mode) {
            job.variable("SVMIO_CACHE_CAPACITY", "512K")
        } else {
            job
        };
        let mut job = job.variable("SVMIO_CACHE_PAGE", "16K").limit(Duration::from_secs(60)).start();
        wait_for_all(&mut job, reports.path(), "busy");
        let cut_at = Instant::now();
        hosts.cut(cut);
        wait_for_all(&mut job, reports.path(), "through");
        let took = cut_at.elapsed();
        // The launcher does not hear of ranks that end on the host that is cut off.
        drop(job);
        hosts.restore(cut);
        check_reports(case, &reports);
        assert!(took < bound(true) + SLACK, "{mpi}, {case:?}: {took:?} from the cut to the end");

        let next = Job::new(&scratch, &program, 2 * HOSTS).over(nodes).beginning_with(cut);
        let next = next.argument("look").argument(&name).argument(HOSTS.to_string());
        let output = next.limit(Duration::from_secs(60)).succeed();
        assert!(output.contains("all is there"), "{case:?}: {output}");
        println!("{mpi}, {case:?}: through {took:?} after the cut; all took {:?}", began.elapsed());
    }
    nodes.demand_stores(&scratch);
}

/// How long a call may take that needs a host that is lost. One who is cut off turns to one of the others after the
/// other for news, and waits for each.
fn bound(is_cut_off: bool) -> Duration {
    TIMEOUT * if is_cut_off { HOSTS - 1 } else { 1 } + SLACK
}

fn wait_for_all(job: &mut Running, directory: &Path, what: &str) {
    for rank in 0..HOSTS {
        let file = directory.join(format!("{what}-{rank}"));
        job.until(&format!("rank {rank} is {what}"), || file.exists().then_some(()));
    }
}

fn check_reports(case: Case, reports: &Reports) {
    let lost = case.cut as u32;
    for (rank, lines) in (0..).zip(reports.read(HOSTS)) {
        let mut told = format!("{case:?}, rank {rank} reports");
        for line in &lines {
            told.push_str(&format!("\n    {}: {} {}", line.what, line.result, line.message));
        }
        println!("{told}");
        let is_cut_off = rank == lost;
        let milliseconds = |line: &svmio_tests::report::Line| {
            assert_eq!(line.what, "after ms", "{told}");
            Duration::from_millis(line.result.parse().expect("a number"))
        };
        let mut lines = lines.iter();
        let mut next = || lines.next().unwrap_or_else(|| panic!("the report is too short: {told}"));
        let names = |message: &str| match is_cut_off {
            // It has lost all others.
            true => (0..HOSTS).any(|other| other != lost && message.contains(&format!("svm{other}"))),
            false => message.contains(&format!("svm{lost}")),
        };

        let first = next();
        assert!(first.what == "first error" && first.result != "MPI_SUCCESS", "{told}");
        assert!(names(&first.message), "the error names nobody that is lost: {told}");
        let of = next();
        assert!(is_cut_off || of.result == lost.to_string(), "a host that is there was not served: {told}");
        assert!(milliseconds(next()) < bound(is_cut_off), "{told}");
        let again = next();
        assert!(again.result != "MPI_SUCCESS" && names(&again.message), "{told}");
        assert!(milliseconds(next()) < AT_ONCE, "{told}");
        if !is_cut_off {
            for other in (1..HOSTS).map(|step| (lost + step) % HOSTS) {
                let (read, of, right) = (next(), next(), next());
                assert_eq!(of.result, other.to_string(), "{told}");
                assert_eq!((read.result.as_str(), right.result.as_str()), ("MPI_SUCCESS", "1"), "{told}");
            }
        }
    }
}

#[test]
fn mpich_during_reads() {
    cut_off(Mpi::DebianMpich, &[READS, LOCKED_READS]);
}

#[test]
fn mpich_during_writes() {
    cut_off(Mpi::DebianMpich, &[WRITES, LOCKED_WRITES]);
}

#[test]
fn mpich_master() {
    cut_off(Mpi::DebianMpich, &OF_THE_MASTER);
}

#[test]
fn openmpi_during_reads() {
    cut_off(Mpi::DebianOpenMpi, &[READS, LOCKED_READS]);
}

#[test]
fn openmpi_during_writes() {
    cut_off(Mpi::DebianOpenMpi, &[WRITES, LOCKED_WRITES]);
}

#[test]
fn openmpi_master() {
    cut_off(Mpi::DebianOpenMpi, &OF_THE_MASTER);
}
