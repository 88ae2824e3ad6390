//! Contenders of several nodes: each gets a lock when those have had it who came before him.

use std::sync::Mutex;

use super::job::{self, Process};
use super::{PAGE, SEGMENT, shared};
use crate::locks::{Claim, Standing};
use crate::{
    CacheSettings, File, FileName, FileOffset, LockMode, OpenOptions, RangeLock, SegmentSize, Store,
};

/// Three nodes of two ranks each, rank r on node r % 3, with a file whose only segment lies on the first one.
fn job(body: impl Fn(&Process<'_>, &[Store], &File) + Sync) {
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run(stores.iter().cycle().take(6), &cache, |process| {
        let size = SegmentSize::new(SEGMENT).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[0; 1000]).unwrap();
        }
        process.sync(&file).unwrap();
        body(process, &stores, &file);
        process.meet();
        process.close(file).unwrap();
    });
}

fn lock(file: &File, mode: LockMode) -> RangeLock {
    file.lock(FileOffset(100)..FileOffset(200), mode).unwrap()
}

/// Returns when `count` wait, by what `claims` tells.
fn await_waiting(count: usize, claims: impl Fn() -> Vec<Claim>) {
    let waits = |claim: &Claim| claim.standing == Standing::Waiting;
    while claims().into_iter().filter(waits).count() < count {
        std::thread::yield_now();
    }
}

#[test]
fn who_waits_at_a_home_is_served_in_the_order_of_coming_whatever_his_node() {
    use LockMode::{Exclusive, Shared};
    // No two readers in a row, of whom nobody knows which one is the first to say that he is in.
    let order = [(4, Exclusive), (2, Shared), (3, Exclusive), (5, Shared), (1, Exclusive)];
    let served = Mutex::new(Vec::new());
    job(|process, stores, file| {
        let home = shared(process, &stores[0], file);
        let claims = || home.attachment().writable().unwrap().0.locks().unwrap().claims().unwrap();
        // A reader holds it, so that one who overtook the waiting writer would get through.
        let held = (process.rank() == 0).then(|| lock(file, Shared));
        process.meet();
        if let Some(turn) = order.iter().position(|(rank, _)| *rank == process.rank()) {
            await_waiting(turn, claims);
            let own = lock(file, order[turn].1);
            served.lock().unwrap().push(order[turn]);
            own.release().unwrap();
        }
        if let Some(held) = held {
            await_waiting(order.len(), claims);
            assert_eq!(*served.lock().unwrap(), []);
            held.release().unwrap();
        }
        process.meet();
        assert_eq!(*served.lock().unwrap(), order);
    });
}
