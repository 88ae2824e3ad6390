//! Releases of locks that a node keeps, where something else fails: what others of the node wrote under them stays.

use svmio_transport::Rank;

use super::job::{self, Process};
use super::{PAGE, SEGMENT, read};
use crate::error::Result;
use crate::{CacheSettings, File, FileName, FileOffset, LockMode, OpenOptions, RangeLock, SegmentSize};

/// Three nodes of a rank each, with a file whose first segment lies on the first one, and whose second one on the
/// third.
fn job(body: impl Fn(&Process<'_>, &File) + Sync) {
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run(&stores, &cache, |process| {
        let size = SegmentSize::new(SEGMENT).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
        if process.rank() != 1 {
            let segment = u64::from(process.rank()) / 2;
            file.write_at(FileOffset(segment * SEGMENT), &[0; 2 * PAGE as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        body(process, &file);
        process.meet();
    });
}

fn lock(file: &File, at: u64, length: u64) -> RangeLock {
    file.lock(FileOffset(at)..FileOffset(at + length), LockMode::Exclusive).unwrap()
}

/// Adds one to a byte under a lock on `length` bytes from there on.
fn add(file: &File, at: u64, length: u64) -> Result<()> {
    let held = lock(file, at, length);
    let [value] = read(file, at);
    file.write_at(FileOffset(at), &[value + 1]).unwrap();
    held.release()
}

/// From the second time on the lock is kept, and what is written under it stays in the cache.
fn add_thrice(file: &File, at: u64, length: u64) {
    (0..3).for_each(|_| add(file, at, length).unwrap());
}

/// Writes to the third node's segment without its agent's help, and does not tell it.
fn write_straight(process: &Process<'_>, file: &File) {
    let straight = || process.cluster.statistics().straight.writes;
    let before = straight();
    process.cluster.set_long_write(Some(1));
    file.write_at(FileOffset(SEGMENT), &[2; PAGE as usize]).unwrap();
    process.cluster.set_long_write(None);
    assert_eq!(straight() - before, 1);
}

fn lose(process: &Process<'_>, lost: u32) {
    process.meet();
    if process.rank() == 1 {
        process.job.declare_lost(Rank(lost), "the test says so");
    }
    process.meet();
}

/// What the byte at `at` is to whoever of another node has it locked.
fn find(file: &File, at: u64, expected: u8) {
    let held = lock(file, at, 1);
    assert_eq!(read(file, at), [expected]);
    held.release().unwrap();
}

#[test]
fn a_release_needs_no_home_that_has_nothing_of_the_range() {
    job(|process, file| {
        if process.rank() == 1 {
            add_thrice(file, 0, 8);
            write_straight(process, file);
        }
        lose(process, 2);
        if process.rank() == 1 {
            add(file, 0, 8).unwrap();
        }
        process.meet();
        if process.rank() == 0 {
            find(file, 0, 4);
        }
    });
}

#[test]
fn a_release_needs_no_master_where_the_file_is_known_to_go_on_behind_the_range() {
    job(|process, file| {
        if process.rank() == 1 {
            add_thrice(file, SEGMENT, 8);
            // The file is longer by that, of which only this node knows.
            file.write_at(FileOffset(SEGMENT + 5 * PAGE), &[1]).unwrap();
        }
        lose(process, 0);
        if process.rank() == 1 {
            add(file, SEGMENT, 8).unwrap();
        }
        process.meet();
        if process.rank() == 2 {
            find(file, SEGMENT, 4);
        }
    });
}

#[test]
fn a_release_that_cannot_tell_a_home_leaves_what_was_written_at_another_one() {
    job(|process, file| {
        let mut held = None;
        if process.rank() == 1 {
            add_thrice(file, 0, 2 * SEGMENT);
            held = Some(lock(file, 0, 2 * SEGMENT));
            write_straight(process, file);
        }
        lose(process, 2);
        if let Some(held) = held {
            let error = held.release().unwrap_err();
            assert!(error.to_string().contains("n2"), "{error}");
        }
        process.meet();
        if process.rank() == 0 {
            find(file, 0, 3);
        }
    });
}
