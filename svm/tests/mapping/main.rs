//! The file as memory, over nodes that are threads of this process.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

#[path = "../job/mod.rs"]
mod job;
#[path = "../limit/mod.rs"]
mod limit;

mod ahead;
mod entry;
mod eviction;
mod failures;
mod full_store;
mod litmus;
mod looking;
mod memory;
mod model;
mod network;
mod processes;
mod strict;
mod strict_model;
mod together;

use std::sync::Arc;

use job::Process;
use svmio_svm::mapping::{Mapping, MappingOptions};
use svmio_svm::{CacheSettings, File, FileName, FileOffset, OpenOptions, SegmentSize, Store};

/// The smallest segment.
const SEGMENT: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// A cache that never keeps a test from making its own point.
fn cache() -> CacheSettings {
    CacheSettings { page: PAGE, capacity: 1024 * PAGE }
}

/// One rank on each node.
fn on_nodes(stores: &[Store], body: impl Fn(&Process<'_>) + Sync) {
    job::run(stores, &cache(), body);
}

fn small_segments() -> OpenOptions {
    OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN))
}

fn open(process: &Process<'_>, options: &OpenOptions) -> Arc<File> {
    let name = FileName::new("mapped").expect("it is a name");
    Arc::new(process.open(&name, options).expect("the file opens on all nodes"))
}

/// A file whose first segment is on the node of rank 1, which has filled it with 5.
fn filled_by_the_second(process: &Process<'_>) -> Arc<File> {
    let file = open(process, &small_segments());
    if process.rank() == 1 {
        file.write_at(FileOffset(0), &[5; SEGMENT as usize]).expect("it can be written");
    }
    process.sync(&file).expect("all sync");
    file
}

/// The first `bytes` bytes of a file.
fn map(file: &Arc<File>, bytes: u64, options: &MappingOptions) -> Mapping {
    options.map(file, all(bytes)).expect("the file can be mapped")
}

fn all(bytes: u64) -> std::ops::Range<FileOffset> {
    FileOffset(0)..FileOffset(bytes)
}

/// A byte of a mapping.
fn load(mapping: &Mapping, at: u64) -> u8 {
    assert!(at < mapping.len() as u64);
    // SAFETY: it lies in the mapping.
    unsafe { mapping.as_ptr().add(at as usize).read_volatile() }
}

fn store(mapping: &Mapping, at: u64, byte: u8) {
    assert!(at < mapping.len() as u64);
    // SAFETY: it lies in the mapping.
    unsafe { mapping.as_mut_ptr().add(at as usize).write_volatile(byte) }
}

/// A meeting of the ranks.
fn meeting(process: &Process<'_>) -> impl FnMut() -> svmio_svm::Result<()> {
    || process.team.agree(Ok(()))
}
