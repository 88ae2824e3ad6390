//! More threads of a node than have room in its table of those who use the locks that it keeps.

use super::job::{self, Process};
use super::{PAGE, SEGMENT, shared};
use crate::error::Error;
use crate::locks::{LockError, LockTable};
use crate::{CacheSettings, File, FileName, FileOffset, LockMode, OpenOptions, RangeLock, SegmentSize};

/// Three nodes of a rank each, with a file whose first segment lies on the second one, and whose second one on the
/// third. The first node keeps locks of both homes.
fn with_kept(body: impl Fn(&Process<'_>, &File, &dyn Fn() -> (usize, u32)) + Sync) {
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run(&stores, &cache, |process| {
        let size = SegmentSize::new(SEGMENT).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
        if let Some(segment) = u64::from(process.rank()).checked_sub(1) {
            file.write_at(FileOffset(segment * SEGMENT), &[0; 1000]).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 0 {
            // From the second time on they are kept.
            for _ in 0..2 {
                lock(&file, 0, 2 * SEGMENT).release().unwrap();
            }
            let shared = shared(process, &stores[0], &file);
            let crowd = || shared.attachment().writable().unwrap().0.kept_locks().unwrap().crowd();
            body(process, &file, &crowd);
        }
        process.meet();
        process.close(file).unwrap();
    });
}

fn lock(file: &File, start: u64, end: u64) -> RangeLock {
    file.lock(FileOffset(start)..FileOffset(end), LockMode::Exclusive).unwrap()
}

fn await_that(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

#[test]
fn who_finds_no_room_for_the_lock_of_a_second_home_gets_it_from_the_homes() {
    with_kept(|_, file, crowd| {
        let held = lock(file, 0, 10);
        assert_eq!(crowd(), (1, 0), "it is kept");
        std::thread::scope(|scope| {
            for _ in 0..LockTable::CAPACITY {
                // Each of the first home's lock first, for which there is no room on the last one's arrival.
                scope.spawn(|| lock(file, 5, SEGMENT + 10).release().unwrap());
            }
            // Somebody waits for room: the agent, which is to give the lock of the first home back.
            await_that(|| crowd() == (LockTable::CAPACITY, 1));
            held.release().unwrap();
        });
        assert_eq!(crowd(), (0, 0));
    });
}

#[test]
fn who_uses_a_kept_lock_and_wants_another_one_for_which_there_is_no_room_is_told() {
    with_kept(|_, file, crowd| {
        let held = lock(file, 0, 10);
        std::thread::scope(|scope| {
            for _ in 1..LockTable::CAPACITY {
                scope.spawn(|| lock(file, 5, 20).release().unwrap());
            }
            await_that(|| crowd() == (LockTable::CAPACITY, 0));
            let more = file.lock(FileOffset(SEGMENT)..FileOffset(SEGMENT + 10), LockMode::Exclusive);
            let error = more.err().unwrap();
            let Error::Lock { source: LockError::NoRoom { requested, .. }, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(requested, SEGMENT..SEGMENT + 10);
            held.release().unwrap();
        });
        lock(file, SEGMENT, SEGMENT + 10).release().unwrap();
    });
}
