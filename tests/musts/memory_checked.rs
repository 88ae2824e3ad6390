//! Programs whose memory valgrind watches, as their authors do it: they run, and nothing that it finds is svmio's.

use std::fs;

use svmio_tests::{Job, Mpi, Nodes, Program, is_full_run};

/// Runs a program's files and collectives under valgrind, on each rank. Its threads take turns: one that computes could
/// keep the one whose heartbeats the others await.
fn is_clean(nodes: Nodes, mpi: Mpi) {
    let scratch = nodes.scratch();
    let reports = scratch.file("reports");
    fs::create_dir(&reports).expect("a directory can be made");
    let valgrind = ["valgrind", "--quiet", "--fair-sched=yes", "--num-callers=40"].map(String::from);
    let report = format!("--log-file={}/%p", reports.display());
    Job::new(&scratch, &Program::c("checkpoints", mpi), 2)
        .over(nodes)
        .collectives("preload")
        .under(valgrind.into_iter().chain([report]))
        .argument("svm:/checkpoint")
        .argument("2")
        .succeed();
    let reports: Vec<String> = fs::read_dir(&reports)
        .expect("the directory is there")
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a report is text"))
        .collect();
    assert_eq!(reports.len(), 2, "a report of each rank");
    for report in reports {
        assert!(!report.contains("libsvmio"), "{report}");
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
