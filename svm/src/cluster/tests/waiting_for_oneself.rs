//! Threads that ask for what they hold themselves.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use super::{PAGE, job, open, shared};
use crate::{CacheSettings, FileName, FileOffset, LockMode};

#[test]
fn who_holds_a_lock_that_was_not_kept_after_all_is_told_that_he_would_wait_for_himself() {
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    let stage = AtomicU32::new(0);
    let wait_for = |wanted| {
        while stage.load(SeqCst) < wanted {
            std::thread::yield_now();
        }
    };
    // Rank 2's node is the file's home.
    job::run(&stores, &cache, |process| {
        let file = open(process, &FileName::new("f").unwrap());
        let lock = |range: Range<u64>| {
            file.lock(FileOffset(range.start)..FileOffset(range.end), LockMode::Exclusive)
        };
        match process.rank() {
            0 => {
                wait_for(3);
                lock(0..100).unwrap().release().unwrap();
            }
            1 => {
                // From the second time on it would be kept.
                lock(0..100).unwrap().release().unwrap();
                stage.store(1, SeqCst);
                wait_for(2);
                let held = lock(0..100).unwrap();
                let error = job::watched(Duration::from_secs(60), &"a thread that waits for itself", || {
                    lock(50..150).map(|_| ()).unwrap_err()
                });
                assert!(error.to_string().contains("would never end"), "{error}");
                held.release().unwrap();
                lock(50..150).unwrap().release().unwrap();
            }
            2 => {
                let shared = shared(process, &stores[2], &file);
                let claims = || shared.attachment().writable().unwrap().0.locks().unwrap().claims().unwrap();
                wait_for(1);
                let first = lock(0..100).unwrap();
                // Rank 1 waits for a lock to keep, and for the sake of rank 0 behind it does not keep it.
                for asked in [2, 3] {
                    stage.store(asked, SeqCst);
                    while claims().len() < asked as usize {
                        std::thread::yield_now();
                    }
                }
                first.release().unwrap();
            }
            _ => {}
        }
        process.meet();
    });
}
