//! A host that is cut off in the midst of a job: calls that need it end with an error that names it, in bounded time,
//! and the others go on; once it is back, the next job finds all that was synced.

use std::path::Path;
use std::time::{Duration, Instant};

use svmio_tests::report::Line;
use svmio_tests::{Hosts, Job, Mpi, Nodes, Program, Reports, Running};

const HOSTS: u32 = 4;
/// How long a process may be silent before the others take it for lost. Shorter, and a busy machine may keep one silent
/// for so long that is not lost.
const TIMEOUT: Duration = Duration::from_secs(4);
/// What a busy machine may take longer.
const SLACK: Duration = Duration::from_secs(15);
/// Fifty calls that need a host that is known to be lost do not wait: not even four of them do.
const AT_ONCE: Duration = SLACK;
/// How long a job may take at all.
const LIMIT: Duration = Duration::from_secs(120);

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
        let mut job = job.variable("SVMIO_CACHE_PAGE", "16K").limit(LIMIT).start();
        wait_for_all(&mut job, HOSTS, reports.path(), "busy");
        let cut_at = Instant::now();
        hosts.cut(cut);
        wait_for_all(&mut job, HOSTS, reports.path(), "through");
        let took = cut_at.elapsed();
        // The launcher does not hear of ranks that end on the host that is cut off.
        drop(job);
        hosts.restore(cut);
        check_reports(case, &reports);
        assert!(took < bound(true) + SLACK, "{mpi}, {case:?}: {took:?} from the cut to the end");

        let next = Job::new(&scratch, &program, 2 * HOSTS).over(nodes).beginning_with(cut);
        let next = next.argument("look").argument(&name).argument(HOSTS.to_string());
        let output = next.limit(LIMIT).succeed();
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

fn wait_for_all(job: &mut Running, ranks: u32, directory: &Path, what: &str) {
    for rank in 0..ranks {
        let file = directory.join(format!("{what}-{rank}"));
        job.until(&format!("rank {rank} is {what}"), || file.exists().then_some(()));
    }
}

fn check_reports(case: Case, reports: &Reports) {
    let lost = case.cut as u32;
    for (rank, lines) in (0..).zip(reports.read(HOSTS)) {
        let told = told(&format!("{case:?}"), rank, &lines);
        println!("{told}");
        let is_cut_off = rank == lost;
        let mut lines = lines.iter();
        let mut next = || lines.next().unwrap_or_else(|| panic!("the report is too short: {told}"));
        let names = |message: &str| names_who_is_lost(message, is_cut_off, lost);

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

fn told(case: &str, rank: u32, lines: &[Line]) -> String {
    let mut told = format!("{case}, rank {rank} reports");
    for line in lines {
        told.push_str(&format!("\n    {}: {} {}", line.what, line.result, line.message));
    }
    told
}

fn milliseconds(line: &Line) -> Duration {
    assert_eq!(line.what, "after ms");
    Duration::from_millis(line.result.parse().expect("a number"))
}

/// Whether a message names a host that is lost to those of the host `lost`, or to the others.
fn names_who_is_lost(message: &str, is_cut_off: bool, lost: u32) -> bool {
    match is_cut_off {
        // It has lost all others.
        true => (0..HOSTS).any(|other| other != lost && message.contains(&format!("svm{other}"))),
        false => message.contains(&format!("svm{lost}")),
    }
}

/// Calls of all ranks, which agree in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Together {
    /// What is under way at the cut, or follows it.
    calls: &'static str,
    cut: usize,
    ranks: u32,
    /// Whether the next job looks what is there.
    looks_after: bool,
}

const ALL_WRITE: Together = Together { calls: "write_all", cut: 3, ranks: HOSTS, looks_after: true };
/// With ranks that are not the first ones of their hosts.
const ALL_READ: Together = Together { calls: "read_all", ranks: 2 * HOSTS, looks_after: false, ..ALL_WRITE };
/// Writes that stayed in the cache when nobody knew of the cut yet are told of as lost.
const SHORT_WRITES: Together = Together { calls: "short", cut: 0, looks_after: false, ..ALL_WRITE };
const CLOSE: Together = Together { calls: "close", ..ALL_WRITE };

fn cut_off_together(mpi: Mpi, cases: &[Together]) {
    let hosts = Hosts::new(HOSTS as usize);
    let nodes = Nodes::Hosts(&hosts);
    let program = Program::c("nodes_cut", mpi);
    let scratch = nodes.scratch();
    for &case in cases {
        let Together { calls, cut, ranks, looks_after } = case;
        let began = Instant::now();
        let (name, reports) = (format!("svm:/cut/{calls}"), Reports::new(&scratch, calls));
        let job = Job::new(&scratch, &program, ranks).over(nodes).argument("together").argument(calls);
        let job = job.argument(&name).argument(reports.path()).argument(HOSTS.to_string());
        let job = job.argument(cut.to_string()).variable("SVMIO_CACHE_PAGE", "16K");
        let job = job.variable("SVMIO_WATCHDOG_TIMEOUT", format!("{}s", TIMEOUT.as_secs()));
        let mut job = job.limit(LIMIT).start();
        wait_for_all(&mut job, ranks, reports.path(), "busy");
        let cut_at = Instant::now();
        hosts.cut(cut);
        std::fs::write(reports.path().join("cut"), "").expect("the directory can be written to");
        wait_for_all(&mut job, ranks, reports.path(), "through");
        let took = cut_at.elapsed();
        drop(job);
        hosts.restore(cut);
        check_reports_together(case, &reports);
        assert!(took < bound(true) + SLACK, "{mpi}, {case:?}: {took:?} from the cut to the end");

        if looks_after {
            let next = Job::new(&scratch, &program, 2 * HOSTS).over(nodes).beginning_with(cut);
            let next = next.argument("look").argument(&name).argument(ranks.to_string());
            let next = next.argument(last_synced(case, reports.path()).to_string());
            let output = next.limit(LIMIT).succeed();
            assert!(output.contains("all is there"), "{case:?}: {output}");
        }
        println!("{mpi}, {case:?}: through {took:?} after the cut; all took {:?}", began.elapsed());
    }
    nodes.demand_stores(&scratch);
}

/// The last round of writes that a rank has synced: it is there then, whatever rank it was. -1 where there was none.
fn last_synced(case: Together, directory: &Path) -> i64 {
    if case.calls != "write_all" {
        return -1;
    }
    let of = |rank| {
        let file = directory.join(format!("synced-{rank}"));
        let told = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        told.parse().unwrap_or_else(|_| panic!("{}: {told}", file.display()))
    };
    let last = (0..case.ranks).map(of).max().expect("there are ranks");
    // They were busy when the host was cut off.
    assert!(last > 0, "{case:?}: nothing was synced");
    last
}

/// The first call that fails does so in time, all that follow at once, and each error names a host that is lost.
fn check_reports_together(case: Together, reports: &Reports) {
    for (rank, lines) in (0..).zip(reports.read(case.ranks)) {
        let told = told(&format!("{case:?}"), rank, &lines);
        println!("{told}");
        let is_cut_off = rank % HOSTS == case.cut as u32;
        let mut lines = lines.iter().peekable();
        let mut calls = 0;
        while let Some(line) = lines.next() {
            let mut next = || lines.next().unwrap_or_else(|| panic!("the report is too short: {told}"));
            if line.what == "reading of another" {
                let (_, right) = (next(), next());
                assert_eq!((line.result.as_str(), right.result.as_str()), ("MPI_SUCCESS", "1"), "{told}");
                continue;
            }
            assert_eq!(line.result, "MPI_ERR_IO", "{told}");
            assert!(names_who_is_lost(&line.message, is_cut_off, case.cut as u32), "{told}");
            // In the first one it may be what a rank asked of another node that failed, and not what all agree upon.
            assert!(line.what == "first error" || line.message.contains("/cut/"), "no file is named: {told}");
            // One who is cut off may not know yet that all others are lost; a close is under way for some time when the
            // host is cut off; of the others each is fifty, and would take so much longer if they waited.
            let limit = bound(is_cut_off || case.calls == "close");
            assert!(milliseconds(next()) < limit, "{}: {told}", line.what);
            calls += 1;
        }
        let all = match case.calls {
            "close" => 1,
            "short" => 3,
            _ => 5,
        };
        assert_eq!(calls, all, "{told}");
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

#[test]
fn mpich_during_accesses_of_all() {
    cut_off_together(Mpi::DebianMpich, &[ALL_WRITE, ALL_READ]);
}

#[test]
fn mpich_before_sync_and_during_close() {
    cut_off_together(Mpi::DebianMpich, &[SHORT_WRITES, CLOSE]);
}

#[test]
fn openmpi_during_accesses_of_all() {
    cut_off_together(Mpi::DebianOpenMpi, &[ALL_WRITE, ALL_READ]);
}

#[test]
fn openmpi_before_sync_and_during_close() {
    cut_off_together(Mpi::DebianOpenMpi, &[SHORT_WRITES, CLOSE]);
}
