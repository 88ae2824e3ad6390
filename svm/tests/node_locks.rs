//! Locks on files that several nodes share, kept by nodes and given back, by processes that are threads here.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use svmio_svm::{
    CacheSettings, Cluster, File, FileName, FileOffset, LockMode, NodeIndex, OpenOptions, RangeLock,
    SegmentSize, Store,
};
use svmio_transport::{Fabric, Membership, Rank, settings::Settings, shm};

const SEGMENT: u64 = 1 << 16;

/// A rank of a job.
struct Process {
    cluster: Arc<Cluster>,
    barrier: Arc<Barrier>,
    /// What one rank tells the others.
    told: Arc<Mutex<Vec<u8>>>,
    /// What each rank knows of the others.
    memberships: Arc<Vec<Arc<Membership>>>,
}

impl Process {
    fn rank(&self) -> u32 {
        self.cluster.rank().0
    }

    fn meet(&self) {
        self.barrier.wait();
    }

    /// A file of a segment per node, node n's being the n-th, full of zeros.
    fn open(&self) -> File {
        let name = FileName::new("f").unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        let nodes: Vec<_> = (0..self.cluster.nodes().len() as u32).map(NodeIndex).collect();
        if self.rank() == 0 {
            *self.told.lock().unwrap() = self.cluster.open(&name, &options, &nodes).unwrap().to_bytes();
        }
        self.meet();
        let introduction = svmio_svm::Introduction::from_bytes(&self.told.lock().unwrap().clone()).unwrap();
        let file = self.cluster.attach(&introduction, &options).unwrap();
        if self.rank() < nodes.len() as u32 {
            let segment = u64::from(self.rank()) * SEGMENT;
            file.write_at(FileOffset(segment), &[0; SEGMENT as usize]).unwrap();
            file.flush().unwrap();
        }
        self.meet();
        file.refresh().unwrap();
        self.meet();
        file
    }

    fn requests(&self) -> u64 {
        self.cluster.statistics().requests()
    }

    /// Has all ranks take `lost` for lost.
    fn lose(&self, lost: u32) {
        for membership in self.memberships.iter().filter(|membership| membership.rank() != Rank(lost)) {
            membership.declare_lost(Rank(lost), "the test says so");
        }
    }
}

/// Runs `body` as each rank of a job, rank r on node `r % nodes`.
fn job(nodes: u32, ranks: u32, body: impl Fn(&Process) + Sync) {
    let directory = tempfile::tempdir().unwrap();
    let store = |number: u32| {
        let name = svmio_svm::NodeName::new(format!("n{number}"));
        Store::open_for(&directory.path().join(format!("n{number}")), &name).unwrap()
    };
    let stores: Vec<_> = (0..nodes).map(store).collect();
    let names: Vec<_> = (0..ranks).map(|rank| format!("n{}", rank % nodes)).collect();
    let secret = svmio_transport::JobSecret::random().unwrap();
    let prepared: Vec<_> =
        (0..ranks).map(|_| shm::prepare(&Settings::default().shm, &secret).unwrap()).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address()).collect();
    let memberships: Vec<_> =
        (0..ranks).map(|rank| Arc::new(Membership::new(Rank(rank), names.clone()))).collect();
    let fabrics = prepared.into_iter().zip(&memberships).map(|(prepared, membership)| {
        Fabric::new(prepared.join(Arc::clone(membership), addresses.clone()).unwrap())
    });
    let fabrics: Vec<_> = fabrics.collect();
    let memberships = Arc::new(memberships);
    let (barrier, told) = (Arc::new(Barrier::new(ranks as usize)), Arc::default());
    std::thread::scope(|scope| {
        for (fabric, rank) in fabrics.into_iter().zip(0..) {
            let store = stores[rank % stores.len()].clone();
            let (barrier, told, body) = (Arc::clone(&barrier), Arc::clone(&told), &body);
            let memberships = Arc::clone(&memberships);
            scope.spawn(move || {
                let cluster = Cluster::join(fabric, store, &CacheSettings::default()).unwrap();
                let process = Process { cluster, barrier, told, memberships };
                body(&process);
                process.meet();
                process.cluster.leave();
            });
        }
    });
}

fn lock(file: &File, at: u64, length: u64, mode: LockMode) -> RangeLock {
    file.lock(FileOffset(at)..FileOffset(at + length), mode).unwrap()
}

fn exclusive(file: &File, at: u64, length: u64) -> RangeLock {
    lock(file, at, length, LockMode::Exclusive)
}

fn word(file: &File, at: u64) -> u64 {
    let mut bytes = [0; 8];
    assert_eq!(file.read_at(FileOffset(at), &mut bytes).unwrap(), 8);
    u64::from_le_bytes(bytes)
}

fn set_word(file: &File, at: u64, value: u64) {
    file.write_at(FileOffset(at), &value.to_le_bytes()).unwrap();
}

fn add(file: &File, at: u64) -> u64 {
    let value = word(file, at) + 1;
    set_word(file, at, value);
    value
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn a_range_that_a_node_locks_again_and_again_costs_it_no_messages() {
    job(2, 4, |process| {
        let file = process.open();
        if process.rank() == 1 {
            for _ in 0..2 {
                let held = exclusive(&file, 100, 50);
                add(&file, 100);
                held.release().unwrap();
            }
            let before = process.requests();
            for turn in 0..100 {
                let held = exclusive(&file, 100 + turn % 2, 40);
                add(&file, 108);
                held.release().unwrap();
            }
            assert_eq!(process.requests(), before, "{}", process.cluster.statistics());
        }
        process.meet();
        if process.rank() == 3 {
            // Of the same node.
            let before = process.requests();
            for mode in [LockMode::Exclusive, LockMode::Shared] {
                let held = lock(&file, 100, 50, mode);
                assert_eq!((word(&file, 100), word(&file, 108)), (2, 100));
                held.release().unwrap();
            }
            assert_eq!(process.requests(), before, "{}", process.cluster.statistics());
        }
        process.meet();
        if process.rank() == 2 {
            // Of the home.
            let held = lock(&file, 108, 8, LockMode::Shared);
            assert_eq!(word(&file, 108), 100);
            held.release().unwrap();
        }
    });
}

#[test]
fn reading_under_kept_locks_costs_no_messages_and_is_done_together() {
    job(2, 4, |process| {
        let file = process.open();
        let is_reader = process.rank() % 2 == 1;
        if process.rank() == 1 {
            for _ in 0..2 {
                lock(&file, 0, 1000, LockMode::Shared).release().unwrap();
            }
        }
        process.meet();
        let before = process.requests();
        let held = is_reader.then(|| lock(&file, 10, 100, LockMode::Shared));
        // Both have it, or this never ends.
        process.meet();
        held.into_iter().for_each(|held| held.release().unwrap());
        assert_eq!(process.requests(), before, "{}", process.cluster.statistics());
        process.meet();
        if process.rank() == 0 {
            let held = exclusive(&file, 50, 8);
            set_word(&file, 50, 7);
            held.release().unwrap();
        }
        process.meet();
        if is_reader {
            let held = lock(&file, 10, 100, LockMode::Shared);
            assert_eq!(word(&file, 50), 7);
            held.release().unwrap();
        }
    });
}

#[test]
fn random_ranges_by_eight_ranks_show_each_what_the_last_one_wrote() {
    const WORDS: u64 = 32;
    let model: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    // Four segments, eight words in each, a page's worth apart.
    let place = |word: u64| (word / 8) * SEGMENT + (word % 8) * 4000 + 16;
    job(4, 8, |process| {
        let file = process.open();
        let mut numbers = Numbers(u64::from(process.rank()) + 1);
        let mut usual = (0, 1);
        for turn in 0..150 {
            // One stays with a range for a while, so that it is kept.
            if turn % 10 == 0 {
                let first = numbers.below(WORDS);
                usual = (first, (first + 1 + numbers.below(10)).min(WORDS));
            }
            let (first, end) = if numbers.below(4) > 0 { usual } else { (usual.0, usual.0 + 1) };
            let mode = if numbers.below(3) > 0 { LockMode::Exclusive } else { LockMode::Shared };
            let (from, to) = (place(first), place(end - 1) + 8);
            let held = lock(&file, from, to - from, mode);
            for at in first..end {
                let expected = model[at as usize].load(SeqCst);
                assert_eq!(word(&file, place(at)), expected, "rank {} turn {turn}", process.rank());
                if mode == LockMode::Exclusive {
                    set_word(&file, place(at), expected + 1);
                    model[at as usize].store(expected + 1, SeqCst);
                }
            }
            held.release().unwrap();
        }
        process.meet();
        let _all = lock(&file, 0, 4 * SEGMENT, LockMode::Shared);
        for at in 0..WORDS {
            assert_eq!(word(&file, place(at)), model[at as usize].load(SeqCst));
        }
    });
}

#[test]
fn a_range_goes_to_and_fro_between_nodes() {
    job(3, 3, |process| {
        let file = process.open();
        let own = u64::from(process.rank());
        if own > 0 {
            let mut done = 0;
            while done < 60 {
                let held = exclusive(&file, 0, 8);
                if word(&file, 0) % 2 == own - 1 {
                    done = add(&file, 0);
                }
                held.release().unwrap();
            }
        }
        process.meet();
        let held = lock(&file, 0, 8, LockMode::Shared);
        assert!((60..=61).contains(&word(&file, 0)), "{}", word(&file, 0));
        held.release().unwrap();
    });
}

#[test]
fn nobody_is_kept_waiting_by_a_node_that_keeps_a_range_busy() {
    let is_over = AtomicBool::new(false);
    let waiting = AtomicU64::new(0);
    job(3, 6, |process| {
        let file = process.open();
        match process.rank() {
            1 | 4 => {
                while !is_over.load(SeqCst) {
                    let held = exclusive(&file, 0, 8);
                    add(&file, 0);
                    held.release().unwrap();
                }
            }
            // The home's own, and a third node's.
            0 | 2 => {
                for _ in 0..20 {
                    let start = Instant::now();
                    let held = exclusive(&file, 0, 8);
                    add(&file, 0);
                    held.release().unwrap();
                    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
                }
                if waiting.fetch_add(1, SeqCst) == 1 {
                    is_over.store(true, SeqCst);
                }
            }
            _ => {}
        }
        process.meet();
    });
}

#[test]
fn what_is_asked_back_each_time_is_kept_less_and_less() {
    job(3, 3, |process| {
        let file = process.open();
        let before = process.requests();
        for turn in 0..40 {
            for rank in 1..=2 {
                if process.rank() == rank {
                    // Twice in a row, which is enough at first.
                    for _ in 0..2 {
                        let held = exclusive(&file, 0, 8);
                        add(&file, 0);
                        held.release().unwrap();
                    }
                }
                process.meet();
            }
            assert!(turn > 0 || process.rank() != 0 || process.requests() - before == 1, "kept at first");
        }
        if process.rank() == 0 {
            let asked_back = process.cluster.statistics().requests["give back"];
            assert!(asked_back <= 4, "{asked_back} times");
            assert_eq!(word(&file, 0), 160);
        }
    });
}

#[test]
fn what_was_written_under_a_kept_lock_outlives_all_handles_of_the_node() {
    job(2, 2, |process| {
        let file = process.open();
        if process.rank() == 1 {
            for _ in 0..5 {
                let held = exclusive(&file, 0, 8);
                add(&file, 0);
                held.release().unwrap();
            }
            drop(file);
            process.meet();
        } else {
            process.meet();
            let held = exclusive(&file, 0, 8);
            assert_eq!(word(&file, 0), 5);
            held.release().unwrap();
        }
    });
}

#[test]
fn a_lost_rank_s_lock_is_free_and_its_node_s_kept_ones_stay() {
    let is_stopped = AtomicBool::new(false);
    job(3, 6, |process| {
        let file = process.open();
        if process.rank() == 4 {
            // One that is kept; and one that was asked for once, so not kept.
            for _ in 0..3 {
                let held = exclusive(&file, 1000, 8);
                add(&file, 1000);
                held.release().unwrap();
            }
            std::mem::forget(exclusive(&file, 0, 8));
        }
        process.meet();
        if process.rank() == 0 {
            process.lose(4);
            is_stopped.store(true, SeqCst);
        }
        process.meet();
        if process.rank() == 2 {
            exclusive(&file, 0, 8).release().unwrap();
        }
        process.meet();
        if process.rank() == 1 {
            let before = process.requests();
            let held = exclusive(&file, 1000, 8);
            assert_eq!(add(&file, 1000), 4);
            held.release().unwrap();
            assert_eq!(process.requests(), before, "its node still keeps it");
        }
        process.meet();
        if process.rank() == 2 {
            let held = exclusive(&file, 1000, 8);
            assert_eq!(word(&file, 1000), 4);
            held.release().unwrap();
        }
    });
    assert!(is_stopped.into_inner());
}

#[test]
fn a_lost_node_keeps_nothing() {
    job(3, 3, |process| {
        let file = process.open();
        if process.rank() == 1 {
            for turn in 1..=3 {
                let held = exclusive(&file, 0, 8);
                set_word(&file, 0, turn);
                held.release().unwrap();
            }
            file.flush().unwrap();
        }
        process.meet();
        if process.rank() == 0 {
            process.lose(1);
        }
        process.meet();
        for turn in [0, 2] {
            if process.rank() == turn {
                let held = exclusive(&file, 0, 8);
                assert_eq!(word(&file, 0), 3);
                held.release().unwrap();
            }
            process.meet();
        }
    });
}

#[test]
fn who_would_wait_for_himself_is_told() {
    job(2, 2, |process| {
        let file = process.open();
        if process.rank() == 1 {
            for _ in 0..2 {
                exclusive(&file, 0, 100).release().unwrap();
            }
            // A kept one, and one that is not.
            for at in [0, 5000] {
                let held = exclusive(&file, at, 100);
                for (from, to) in [(at + 10, at + 20), (at + 50, at + 150)] {
                    let error =
                        file.lock(FileOffset(from)..FileOffset(to), LockMode::Exclusive).err().unwrap();
                    assert!(error.to_string().contains("would never end"), "{error}");
                }
                held.release().unwrap();
            }
        }
    });
}

#[test]
fn what_does_not_reach_its_home_is_an_error_of_the_release() {
    job(2, 2, |process| {
        let file = process.open();
        if process.rank() == 1 {
            let held = exclusive(&file, 0, 8);
            set_word(&file, 0, 1);
            process.memberships[1].declare_lost(Rank(0), "the test says so");
            let error = held.release().unwrap_err();
            assert!(error.to_string().contains("n0"), "{error}");
        }
        process.meet();
    });
}

#[test]
fn sizes_grown_by_others_are_seen_under_a_kept_lock() {
    job(2, 2, |process| {
        let file = process.open();
        let end = 2 * SEGMENT;
        let locked = end - 100;
        if process.rank() == 0 {
            // Beyond the end, in a segment of the other node's; and kept there.
            for _ in 0..3 {
                let held = lock(&file, locked, 300, LockMode::Shared);
                let mut bytes = [9; 300];
                assert_eq!(file.read_at(FileOffset(locked), &mut bytes).unwrap(), 100);
                held.release().unwrap();
            }
        }
        process.meet();
        if process.rank() == 1 {
            let held = exclusive(&file, end + 1000, 10);
            file.write_at(FileOffset(end + 1000), &[1; 10]).unwrap();
            held.release().unwrap();
        }
        process.meet();
        if process.rank() == 0 {
            let held = lock(&file, locked, 300, LockMode::Shared);
            let mut bytes = [9; 300];
            assert_eq!(file.read_at(FileOffset(locked), &mut bytes).unwrap(), 300);
            assert_eq!(bytes, [0; 300]);
            held.release().unwrap();
        }
    });
}
