//! The storage of a checkpoint that is removed goes to the next one, and to nobody behind the job's end.

use std::fs;
use std::path::{Path, PathBuf};

use svmio_tests::{Installation, Job, Mpi, Nodes, Program, Scratch, processes};

const RANKS: u32 = 4;

fn checkpoints(mpi: Mpi) {
    let program = Program::c("checkpoints", mpi);
    for (nodes, may_keep) in [(Nodes::One, "1G"), (Nodes::Emulated(2), "1G"), (Nodes::One, "0")] {
        let scratch = nodes.scratch();
        let job = Job::new(&scratch, &program, RANKS).over(nodes).argument("svm:/checkpoint").argument("6");
        let finished = job.variable("SVMIO_SEGMENT_SIZE", "1M").variable("SVMIO_SPARE", may_keep).succeed();
        let directories = spare_directories(scratch.path());
        assert_eq!(directories.is_empty(), may_keep == "0", "{mpi}: {directories:?}\n{finished}");
        let left: Vec<PathBuf> = directories.iter().flat_map(|directory| entries(directory)).collect();
        assert!(left.is_empty(), "{mpi}: {left:?} are there still\n{finished}");
    }
}

/// All ranks are killed: who opens the store next removes what they have kept. That is no more than `most` segments of a
/// mebibyte, if they may keep so much.
fn killed(mpi: Mpi, may_keep: &str, most: usize) {
    let program = Program::c("checkpoints", mpi);
    let scratch = Scratch::new();
    let ready = scratch.file("ready");
    let job = Job::new(&scratch, &program, RANKS).argument("svm:/checkpoint").argument("3").argument(&ready);
    // In the environment of each rank.
    let (mark, value) = ("SVMIO_TESTS_CHECKPOINTS", ready.to_str().expect("the path is text"));
    let job = job.variable("SVMIO_SEGMENT_SIZE", "1M").variable("SVMIO_SPARE", may_keep);
    let mut job = job.variable(mark, value).start();
    job.until("the last checkpoint", || ready.exists().then_some(()));
    let kept = || spare_directories(scratch.path()).iter().flat_map(|directory| entries(directory)).count();
    assert!((1..=most).contains(&kept()), "{mpi}: {} segments are kept of {may_keep}", kept());
    let listed = Installation::get().ask(&scratch, &["ls"]);
    assert!(listed.status.success(), "svmio ls: {listed:?}");
    assert!(kept() > 0, "{mpi}: somebody else has removed it");
    processes::kill_marked(mark, value);
    drop(job);
    let listed = Installation::get().ask(&scratch, &["ls"]);
    assert!(listed.status.success(), "svmio ls: {listed:?}");
    assert_eq!(kept(), 0, "{mpi}");
    Installation::get().verify(&scratch);
}

/// Where the stores below a directory have their spares.
fn spare_directories(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in entries(below).into_iter().filter(|entry| entry.is_dir()) {
        match entry.file_name().is_some_and(|name| name == "spare") {
            true => found.push(entry),
            false => found.extend(spare_directories(&entry)),
        }
    }
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    read.map(|entry| entry.expect("a directory can be read").path()).collect()
}

#[test]
fn mpich() {
    checkpoints(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    checkpoints(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_killed() {
    // A checkpoint takes twelve and a part of one: the next one has had those of the one before it.
    killed(Mpi::DebianMpich, "1G", 13);
    killed(Mpi::DebianMpich, "5M", 5);
}

#[test]
fn openmpi_killed() {
    killed(Mpi::DebianOpenMpi, "1G", 13);
    killed(Mpi::DebianOpenMpi, "5M", 5);
}
