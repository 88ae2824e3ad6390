//! Locks on files that several nodes share, kept by nodes and given back.

mod contention;
mod failures;
mod full_home;
mod homeless;
#[path = "../job/mod.rs"]
mod job;
mod keeping;
mod leaderless;
#[path = "../limit/mod.rs"]
mod limit;
mod processes;

use job::{Process, stores};
use svmio_svm::{CacheSettings, File, FileName, FileOffset, LockMode, OpenOptions, RangeLock, SegmentSize};

const SEGMENT: u64 = 1 << 16;

/// Runs `body` as each rank of a job, rank r on node `r % nodes`.
fn job(nodes: usize, ranks: usize, body: impl Fn(&Process<'_>) + Sync) {
    let (_directory, stores) = stores(nodes);
    job::run(stores.iter().cycle().take(ranks), &CacheSettings::default(), body);
}

/// The same with a file that all have open.
fn with_file(nodes: usize, ranks: usize, body: impl Fn(&Process<'_>, &File) + Sync) {
    job(nodes, ranks, |process| {
        let file = open(process);
        body(process, &file);
        process.meet();
        process.close(file).expect("the file closes");
    });
}

/// A file of a segment per node, node n's being the n-th, full of zeros.
fn open(process: &Process<'_>) -> File {
    let name = FileName::new("f").expect("it is a name");
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
    let file = process.open(&name, &options).expect("the file opens");
    let rank = process.rank() as usize;
    if rank < process.cluster.nodes().len() {
        let own = FileOffset(rank as u64 * SEGMENT);
        file.write_at(own, &[0; SEGMENT as usize]).expect("it can be written");
    }
    process.sync(&file).expect("all see it");
    file
}

/// How many messages this rank has sent to agents.
fn requests(process: &Process<'_>) -> u64 {
    process.cluster.statistics().requests()
}

fn lock(file: &File, at: u64, length: u64, mode: LockMode) -> RangeLock {
    file.lock(FileOffset(at)..FileOffset(at + length), mode).expect("it can be had")
}

fn exclusive(file: &File, at: u64, length: u64) -> RangeLock {
    lock(file, at, length, LockMode::Exclusive)
}

fn word(file: &File, at: u64) -> u64 {
    let mut bytes = [0; 8];
    assert_eq!(file.read_at(FileOffset(at), &mut bytes).expect("it can be read"), 8);
    u64::from_le_bytes(bytes)
}

fn set_word(file: &File, at: u64, value: u64) {
    file.write_at(FileOffset(at), &value.to_le_bytes()).expect("it can be written");
}

fn add(file: &File, at: u64) -> u64 {
    let value = word(file, at) + 1;
    set_word(file, at, value);
    value
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}
