//! Processes that are found gone before they are declared lost.

use std::time::Duration;

use svmio_transport::Rank;

use super::job;
use super::{PAGE, open, read};
use crate::{CacheSettings, FileName, FileOffset, LockMode};

/// How long all others wait to declare it: long enough for whoever asks it meanwhile to find it gone.
const LATE: Duration = Duration::from_millis(100);

const KEEPER: u32 = 1;
/// Where the file lies.
const HOME: u32 = 2;

#[test]
fn a_lock_goes_on_that_was_kept_by_a_node_that_is_found_gone_before_it_is_declared_lost() {
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run(&stores, &cache, |process| {
        let file = open(process, &FileName::new("f").unwrap());
        let lock = || file.lock(FileOffset(0)..FileOffset(8), LockMode::Exclusive);
        if process.rank() == KEEPER {
            // From the second time on it is kept. Its home has asked this process nothing so far.
            (0..2).for_each(|_| lock().unwrap().release().unwrap());
            process.cluster.context().fabric.close();
        }
        process.meet();
        match process.rank() {
            KEEPER => std::mem::forget(file),
            HOME => std::thread::scope(|scope| {
                scope.spawn(|| {
                    process.cluster.context().fabric.back_end().sleep(LATE);
                    process.job.declare_lost(Rank(KEEPER), "the test says so");
                });
                let held = lock().expect("who kept it is gone");
                assert_eq!(read(&file, 0), [1]);
                held.release().unwrap();
            }),
            _ => {}
        }
        process.meet();
    });
}
