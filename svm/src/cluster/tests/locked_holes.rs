//! Segments that get homes while others have locked some of them at the master.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};

use super::job::{self, Process};
use super::{PAGE, SEGMENT, read, shared};
use crate::cluster::{NodeIndex, SharedFile};
use crate::locks::{Claim, Standing};
use crate::units::SegmentIndex;
use crate::{
    CacheSettings, File, FileName, FileOffset, LockMode, NodeName, OpenOptions, Placement, RangeLock,
    SegmentSize, Store,
};

/// Four nodes of a rank each, with a file of zeros that are nowhere yet.
fn job(placement: &Placement, body: impl Fn(&Process<'_>, &[Store], &File) + Sync) {
    let (_directory, stores) = job::stores(4);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run(&stores, &cache, |process| {
        let file = open(process, placement);
        if process.rank() == 0 {
            file.set_size(2 * SEGMENT).unwrap();
        }
        process.sync(&file).unwrap();
        body(process, &stores, &file);
        process.meet();
        process.close(file).unwrap();
    });
}

fn open(process: &Process<'_>, placement: &Placement) -> File {
    let size = SegmentSize::new(SEGMENT).unwrap();
    let options = OpenOptions::read_write().create(true).segment_size(Some(size));
    let options = options.placement(Some(placement.clone()));
    process.open(&FileName::new("f").unwrap(), &options).unwrap()
}

fn lock(file: &File, at: u64, mode: LockMode) -> RangeLock {
    file.lock(FileOffset(SEGMENT + at)..FileOffset(SEGMENT + at + 100), mode).unwrap()
}

/// What is held and waited for in the master's table.
fn claims(master: &SharedFile) -> Vec<Claim> {
    master.attachment().writable().unwrap().0.locks().unwrap().claims().unwrap()
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

/// Rank 2 has a lock from before the segment had a home, rank `writer` gives it one, and rank 3 wants a lock.
fn one_has_it(learns: Learns, writer: u32, placement: &Placement) {
    let case = format!("{learns:?}, written by {writer}, {placement:?}");
    let is_taken = AtomicBool::new(false);
    let homes = Mutex::new(Vec::new());
    job(placement, |process, stores, file| {
        let held = (process.rank() == 2).then(|| lock(file, 0, LockMode::Shared));
        process.meet();
        if process.rank() == writer {
            if learns == Learns::Told {
                *homes.lock().unwrap() = file.place(&[(SegmentIndex(1), NodeIndex(writer))], 1).unwrap();
            }
            file.write_at(FileOffset(SEGMENT + 5000), b"without a lock").unwrap();
            // The home hears of it.
            file.flush().unwrap();
        }
        process.meet();
        if learns == Learns::Told {
            file.note_homes(&homes.lock().unwrap(), 1).unwrap();
        }
        if learns == Learns::Syncing {
            process.sync(file).unwrap();
        }
        let again = (learns == Learns::Opening).then(|| open(process, placement));
        process.meet();
        match process.rank() {
            3 => {
                let held = lock(again.as_ref().unwrap_or(file), 0, LockMode::Exclusive);
                is_taken.store(true, SeqCst);
                file.write_at(FileOffset(SEGMENT), &[7; 100]).unwrap();
                held.release().unwrap();
            }
            2 => {
                let held = held.unwrap();
                let master = master(process, stores, file);
                let waits = |claim: &Claim| claim.standing == Standing::Waiting;
                while !claims(&master).iter().any(waits) && !is_taken.load(SeqCst) {
                    std::thread::yield_now();
                }
                assert!(!is_taken.load(SeqCst), "{case}: two have it");
                assert_eq!(read::<100>(file, SEGMENT), [0; 100], "{case}");
                held.release().unwrap();
                let later = lock(file, 0, LockMode::Exclusive);
                assert_eq!(read::<100>(file, SEGMENT), [7; 100], "{case}");
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

#[test]
fn who_holds_a_lock_from_before_the_segment_had_a_home_holds_it() {
    for learns in [Learns::Asking, Learns::Syncing, Learns::Opening, Learns::Told] {
        // That the writer is on another node than the master matters as little as which one that is.
        for writer in [0, 1] {
            one_has_it(learns, writer, &Placement::FirstTouch);
        }
    }
}

#[test]
fn who_locks_on_the_node_that_became_the_home_without_being_asked_does_not_have_it_either() {
    for writer in [0, 1] {
        one_has_it(Learns::Asking, writer, &Placement::Node(NodeName::new("n3")));
    }
}

/// The file as the master's node has it: all nodes of these jobs are in one process.
fn master(process: &Process<'_>, stores: &[Store], file: &File) -> Arc<SharedFile> {
    shared(process, &stores[0], file)
}

#[test]
fn who_locks_other_bytes_of_a_segment_without_a_home_waits_for_nobody() {
    let both = Barrier::new(2);
    job(&Placement::FirstTouch, |process, _, file| {
        let held = (process.rank() == 1).then(|| lock(file, 0, LockMode::Shared));
        process.meet();
        match process.rank() {
            1 => {
                // The same thread, too.
                let other = lock(file, 200, LockMode::Exclusive);
                file.write_at(FileOffset(SEGMENT + 200), &[1; 100]).unwrap();
                both.wait();
                other.release().unwrap();
                held.unwrap().release().unwrap();
            }
            2 => {
                let other = lock(file, 400, LockMode::Exclusive);
                file.write_at(FileOffset(SEGMENT + 400), &[2; 100]).unwrap();
                // While both are held.
                both.wait();
                other.release().unwrap();
            }
            _ => {}
        }
        process.meet();
        let all = lock(file, 200, LockMode::Shared);
        assert_eq!(read::<100>(file, SEGMENT + 200), [1; 100]);
        all.release().unwrap();
    });
}

#[test]
fn where_nobody_has_locked_a_segment_its_home_is_locked_alone() {
    job(&Placement::FirstTouch, |process, stores, file| {
        if process.rank() == 1 {
            file.write_at(FileOffset(SEGMENT), b"without a lock").unwrap();
            lock(file, SEGMENT, LockMode::Exclusive).release().unwrap();
            // More, with gaps between them, than are looked at one by one.
            let homes: Vec<_> = (2..42).map(|number| (SegmentIndex(2 * number), NodeIndex(1))).collect();
            assert_eq!(file.place(&homes, 1).unwrap(), homes);
        }
        process.sync(file).unwrap();
        if process.rank() == 2 {
            let held = lock(file, 0, LockMode::Exclusive);
            assert!(claims(&master(process, stores, file)).is_empty());
            held.release().unwrap();
        }
        process.meet();
    });
}
