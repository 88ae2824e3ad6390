//! Locks that a node kept and that went with its leader, while a process of the node was using them.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use svmio_transport::Rank;

use super::job::{self, Process};
use super::{PAGE, SEGMENT, read, shared};
use crate::{CacheSettings, File, FileName, FileOffset, LockMode, OpenOptions, RangeLock, SegmentSize};

/// Of the second node: its leader, and two more.
const LEADER: Rank = Rank(1);
const USER: u32 = 3;
const NEXT: u32 = 5;

fn lock(file: &File, range: std::ops::Range<u64>) -> RangeLock {
    file.lock(FileOffset(range.start)..FileOffset(range.end), LockMode::Exclusive).unwrap()
}

fn set(file: &File, value: u8) {
    file.write_at(FileOffset(0), &[value]).unwrap();
}

fn wait_until(has_come_about: impl Fn() -> bool) {
    while !has_come_about() {
        std::thread::yield_now();
    }
}

/// Runs two nodes of three ranks each, rank r on node r % 2, with a file of zeros that lies on the first one. A process
/// of the second node uses a lock that the node keeps when its leader is lost. Its neighbour wants `range`, which has
/// the locked bytes in it, before that, or after it.
fn lose_leader(range: std::ops::Range<u64>, is_after: bool) {
    let (_directory, stores) = job::stores(2);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    let (is_wanted, is_written) = (AtomicBool::new(false), AtomicBool::new(false));
    job::run(stores.iter().cycle().take(6), &cache, |process: &Process<'_>| {
        let size = SegmentSize::new(SEGMENT).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[0; 1000]).unwrap();
        }
        process.sync(&file).unwrap();
        match process.rank() {
            USER => {
                // From the second time on it is kept.
                lock(&file, 0..8).release().unwrap();
                lock(&file, 0..8).release().unwrap();
                let held = lock(&file, 0..8);
                set(&file, 1);
                let shared = shared(process, &stores[1], &file);
                let state = shared.attachment().writable().unwrap().0;
                let is_waited_for_by = |number| state.kept_locks().unwrap().waiting() == number;
                // The agent that is to give the lock back if somebody asked before, and the neighbour.
                let all = if is_after { 1 } else { 2 };
                if !is_after {
                    is_wanted.store(true, SeqCst);
                    wait_until(|| is_waited_for_by(1));
                }
                let heard = process.job.memberships.iter().filter(|known| known.rank() != LEADER);
                heard.for_each(|known| known.declare_lost(LEADER, "the test says so"));
                is_wanted.store(true, SeqCst);
                wait_until(|| is_waited_for_by(all) || is_written.load(SeqCst));
                let error = held.release().unwrap_err();
                assert!(error.to_string().contains("n1"), "{error}");
            }
            NEXT => {
                wait_until(|| is_wanted.load(SeqCst));
                let held = lock(&file, range.clone());
                set(&file, 2);
                is_written.store(true, SeqCst);
                // The other one has given up what it wrote, if it did not before.
                process.meet();
                assert_eq!(read(&file, 0), [2]);
                held.release().unwrap();
            }
            _ => {}
        }
        if process.rank() != NEXT {
            process.meet();
        }
        process.meet();
        if process.rank() == 0 {
            let held = lock(&file, 0..8);
            assert_eq!(read(&file, 0), [2]);
            held.release().unwrap();
        }
        process.meet();
    });
}

#[test]
fn who_gets_from_its_home_what_a_neighbour_uses_still_writes_after_he_has_given_up_what_he_wrote() {
    lose_leader(0..8, true);
}

#[test]
fn also_who_asked_for_more_than_the_node_kept_before_it_lost_its_leader() {
    lose_leader(0..100, false);
}

#[test]
fn what_another_home_has_granted_since_stays() {
    /// Of the second node, beside its leader.
    const OTHER: u32 = 4;
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    // Three nodes of two ranks each, with a file whose first segment lies on the first one, and whose second one on the
    // third.
    job::run(stores.iter().cycle().take(6), &cache, |process: &Process<'_>| {
        let size = SegmentSize::new(SEGMENT).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
        if let rank @ (0 | 2) = process.rank() {
            file.write_at(FileOffset(u64::from(rank) / 2 * SEGMENT), &[0; 1000]).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == OTHER {
            (0..3).for_each(|_| lock(&file, 0..2 * SEGMENT).release().unwrap());
        }
        process.meet();
        if process.rank() == 2 {
            // The first node's part stays with the second one.
            lock(&file, SEGMENT..SEGMENT + 8).release().unwrap();
        }
        process.meet();
        if process.rank() == OTHER {
            let held = lock(&file, SEGMENT..SEGMENT + 8);
            file.write_at(FileOffset(SEGMENT), &[2]).unwrap();
            let heard = process.job.memberships.iter().filter(|known| known.rank() != LEADER);
            heard.for_each(|known| known.declare_lost(LEADER, "the test says so"));
            held.release().unwrap();
        }
        process.meet();
        if process.rank() == 2 {
            let held = lock(&file, SEGMENT..SEGMENT + 8);
            assert_eq!(read(&file, SEGMENT), [2]);
            held.release().unwrap();
        }
        process.meet();
    });
}
