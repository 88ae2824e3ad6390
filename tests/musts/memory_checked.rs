//! Programs whose memory valgrind watches, as their authors do it: they run, and nothing that it finds is svmio's.

use std::fs;
use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program, is_full_run};

/// So long a job may take: valgrind does the work of a second in half a minute, and a busy machine adds to that.
const LIMIT: Duration = Duration::from_secs(300);

/// What valgrind says of each rank of a program with files and collectives, in XML: there each frame of a stack tells
/// which library it is in, while the text tells of libraries with line numbers the source's name alone. The threads take
/// turns: one that computes could keep the one whose heartbeats the others await.
fn reports(nodes: Nodes, program: &Program, ranks: u32, arguments: &[&str]) -> Vec<String> {
    let scratch = nodes.scratch();
    let reports = scratch.file("reports");
    fs::create_dir(&reports).expect("a directory can be made");
    let valgrind =
        ["valgrind", "--quiet", "--fair-sched=yes", "--num-callers=40", "--xml=yes"].map(String::from);
    let report = format!("--xml-file={}/%p", reports.display());
    let job = Job::new(&scratch, program, ranks).over(nodes).collectives("preload");
    let job = job.under(valgrind.into_iter().chain([report])).limit(LIMIT);
    arguments.iter().fold(job, |job, argument| job.argument(*argument)).succeed();
    let reports: Vec<String> = fs::read_dir(&reports)
        .expect("the directory is there")
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a report is text"))
        .collect();
    assert_eq!(reports.len(), ranks as usize, "a report of each rank");
    for report in &reports {
        assert!(report.trim_end().ends_with("</valgrindoutput>"), "a report has no end: {report}");
    }
    reports
}

/// The errors of a report in whose stacks svmio is. Leaks are none: valgrind's XML has them unasked, and what a process
/// keeps until its end is no fault.
fn own_errors(report: &str) -> Vec<&str> {
    let errors = report.split("<error>").skip(1).filter(|error| !error.contains("<kind>Leak_"));
    errors.filter(|error| objects(error).any(is_own)).collect()
}

/// The files of the programs and libraries in an error's stacks.
fn objects(error: &str) -> impl Iterator<Item = &str> {
    error.split("<obj>").skip(1).filter_map(|rest| rest.split("</obj>").next())
}

fn is_own(object: &str) -> bool {
    object.rsplit('/').next().is_some_and(|name| name.starts_with("libsvmio"))
}

fn is_clean(nodes: Nodes, mpi: Mpi) {
    let program = Program::c("checkpoints", mpi);
    for report in reports(nodes, &program, 2, &["svm:/checkpoint", "2"]) {
        let errors = own_errors(&report);
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}

/// On one node, and in full runs over two as well.
fn are_clean(mpi: Mpi) {
    is_clean(Nodes::One, mpi);
    if is_full_run() {
        is_clean(Nodes::Emulated(2), mpi);
    }
}

#[test]
fn mpich() {
    are_clean(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    are_clean(Mpi::DebianOpenMpi);
}

/// Without it, reports in which svmio could not be seen would pass for clean ones.
#[test]
fn a_fault_within_svmio_is_seen() {
    let program = Program::c("misused", Mpi::DebianMpich);
    let reports = reports(Nodes::One, &program, 1, &["svm:/misused"]);
    let errors = own_errors(&reports[0]);
    assert!(errors.iter().any(|error| error.contains("unaddressable")), "{}", reports[0]);
}
