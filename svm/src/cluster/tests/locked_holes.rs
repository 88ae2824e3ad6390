//! Segments that get homes while others have locked some of them at the master.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

use super::job::{self, Process};
use super::{PAGE, SEGMENT, read, shared};
use crate::cluster::{NodeIndex, SharedFile};
use crate::units::SegmentIndex;
use crate::{
    CacheSettings, File, FileName, FileOffset, LockMode, OpenOptions, RangeLock, SegmentSize, Store,
};

/// Four nodes of a rank each, with a file of zeros that are nowhere yet.
fn job(body: impl Fn(&Process<'_>, &[Store], &File) + Sync) {
    let (_directory, stores) = job::stores(4);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run(&stores, &cache, |process| {
        let file = open(process);
        if process.rank() == 0 {
            file.set_size(2 * SEGMENT).unwrap();
        }
        process.sync(&file).unwrap();
        body(process, &stores, &file);
        process.meet();
        process.close(file).unwrap();
    });
}

fn open(process: &Process<'_>) -> File {
    let size = SegmentSize::new(SEGMENT).unwrap();
    let options = OpenOptions::read_write().create(true).segment_size(Some(size));
    process.open(&FileName::new("f").unwrap(), &options).unwrap()
}

fn lock(file: &File, at: u64, mode: LockMode) -> RangeLock {
    file.lock(FileOffset(at)..FileOffset(at + 100), mode).unwrap()
}

/// How many locks stand in the master's table, held or waited for.
fn claims(master: &SharedFile) -> usize {
    master.attachment().writable().unwrap().0.locks().unwrap().claims().unwrap().len()
}

/// How who locks learns of the home that another one's write gave to the segment.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Learns {
    /// As he asks the master for one himself.
    Asking,
    /// In a sync.
    Syncing,
    /// As the file is opened once more.
    Opening,
    /// From another process, as in a collective write.
    Told,
}

#[test]
fn who_holds_a_lock_from_before_the_segment_had_a_home_holds_it() {
    for learns in [Learns::Asking, Learns::Syncing, Learns::Opening, Learns::Told] {
        // That the writer is on another node than the master matters as little as which one that is.
        for writer in [0, 1] {
            let is_taken = AtomicBool::new(false);
            let homes = std::sync::Mutex::new(Vec::new());
            job(|process, stores, file| {
                let held = (process.rank() == 2).then(|| lock(file, 0, LockMode::Shared));
                process.meet();
                if process.rank() == writer {
                    if learns == Learns::Told {
                        let home = NodeIndex(writer);
                        *homes.lock().unwrap() = file.place(&[(SegmentIndex(0), home)]).unwrap();
                    }
                    file.write_at(FileOffset(5000), b"without a lock").unwrap();
                }
                process.meet();
                let again = match learns {
                    Learns::Asking => None,
                    Learns::Told => {
                        file.note_homes(&homes.lock().unwrap()).unwrap();
                        None
                    }
                    Learns::Syncing => {
                        process.sync(file).unwrap();
                        None
                    }
                    Learns::Opening => Some(open(process)),
                };
                process.meet();
                match process.rank() {
                    3 => {
                        let held = lock(again.as_ref().unwrap_or(file), 0, LockMode::Exclusive);
                        is_taken.store(true, SeqCst);
                        file.write_at(FileOffset(0), &[7; 100]).unwrap();
                        held.release().unwrap();
                    }
                    2 => {
                        let held = held.unwrap();
                        let master = master(process, stores, file);
                        while claims(&master) < 2 && !is_taken.load(SeqCst) {
                            std::thread::yield_now();
                        }
                        assert!(!is_taken.load(SeqCst), "{learns:?}, written by {writer}: two have it");
                        assert_eq!(read::<100>(file, 0), [0; 100]);
                        held.release().unwrap();
                        let later = lock(file, 0, LockMode::Exclusive);
                        assert_eq!(read::<100>(file, 0), [7; 100], "{learns:?}, written by {writer}");
                        later.release().unwrap();
                    }
                    _ => {}
                }
                process.meet();
                if let Some(again) = again {
                    process.close(again).unwrap();
                }
            });
        }
    }
}

/// The file as the master's node has it: all nodes of these jobs are in one process.
fn master(process: &Process<'_>, stores: &[Store], file: &File) -> Arc<SharedFile> {
    shared(process, &stores[0], file)
}

#[test]
fn who_locks_other_bytes_of_a_segment_without_a_home_waits_for_nobody() {
    let both = Barrier::new(2);
    job(|process, _, file| {
        let held = (process.rank() == 1).then(|| lock(file, 0, LockMode::Shared));
        process.meet();
        match process.rank() {
            1 => {
                // The same thread, too.
                let other = lock(file, 200, LockMode::Exclusive);
                file.write_at(FileOffset(200), &[1; 100]).unwrap();
                both.wait();
                other.release().unwrap();
                held.unwrap().release().unwrap();
            }
            2 => {
                let other = lock(file, 400, LockMode::Exclusive);
                file.write_at(FileOffset(400), &[2; 100]).unwrap();
                // While both are held.
                both.wait();
                other.release().unwrap();
            }
            _ => {}
        }
        process.meet();
        let all = lock(file, 200, LockMode::Shared);
        assert_eq!(read::<100>(file, 200), [1; 100]);
        all.release().unwrap();
    });
}

#[test]
fn where_nobody_has_locked_a_segment_its_home_is_locked_alone() {
    job(|process, stores, file| {
        if process.rank() == 1 {
            file.write_at(FileOffset(0), b"without a lock").unwrap();
            lock(file, SEGMENT, LockMode::Exclusive).release().unwrap();
        }
        process.sync(file).unwrap();
        if process.rank() == 2 {
            let held = lock(file, 0, LockMode::Exclusive);
            assert_eq!(claims(&master(process, stores, file)), 0);
            held.release().unwrap();
        }
        process.meet();
    });
}
