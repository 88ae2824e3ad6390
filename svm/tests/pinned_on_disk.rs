//! Segments on a disk where the fabric pins what is exported: what an adapter writes there past the page tables, the
//! file system does not bring to the disk.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

mod job;
mod mounts;

use job::{Process, Way};
use mounts::with_store_on_disk;
use svmio_svm::{CacheSettings, FileName, FileOffset, OpenOptions, SegmentSize};

const SEGMENT: u64 = 1 << 20;
const LONG: usize = 256 << 10;

/// Rank 0 writes to the disk's segments, and finds it there; returns whether that has gone straight.
fn goes_straight(process: &Process<'_>, round: u8) -> bool {
    let size = SegmentSize::new(SEGMENT).unwrap();
    let options = OpenOptions::read_write().create(true).segment_size(Some(size));
    let file = process.open(&FileName::new(format!("f{round}")).unwrap(), &options).unwrap();
    if process.rank() == 1 {
        file.write_at(FileOffset(0), &[9; SEGMENT as usize]).unwrap();
    }
    process.sync(&file).unwrap();
    process.cluster.set_long_write(Some(1));
    let before = process.cluster.statistics().straight.writes;
    if process.rank() == 0 {
        file.write_at(FileOffset(0), &[round; LONG]).unwrap();
    }
    process.sync(&file).unwrap();
    if process.rank() == 1 {
        let mut bytes = [0; LONG];
        assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), LONG);
        assert!(bytes == [round; LONG]);
    }
    process.close(file).unwrap();
    process.cluster.statistics().straight.writes > before
}

#[test]
fn what_is_written_to_a_disk_comes_by_message_where_it_would_go_past_the_file_system() {
    with_store_on_disk(64 << 20, 4096, |on_disk| {
        let (_directory, in_memory) = job::stores(1);
        let stores = [&in_memory[0], on_disk];
        let cache = CacheSettings::default();
        job::run(stores, &cache, |process| {
            assert_eq!(goes_straight(process, 1), process.rank() == 0, "through the page tables");
        });
        job::run_pinning(Way::of_tests(), u64::MAX, stores, &cache, |process| {
            assert!(!goes_straight(process, 2), "past the file system");
        });
    });
}

#[test]
fn what_is_written_to_memory_goes_straight() {
    let (_directory, stores) = job::stores(2);
    job::run_pinning(Way::of_tests(), u64::MAX, &stores, &CacheSettings::default(), |process| {
        assert_eq!(goes_straight(process, 1), process.rank() == 0);
    });
}
