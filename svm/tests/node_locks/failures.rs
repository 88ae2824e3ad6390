//! Holders and homes that are lost, and requests that cannot be granted.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use svmio_svm::{CacheSettings, FileOffset, LockMode};
use svmio_transport::Rank;

use super::{add, exclusive, job, open, requests, set_word, stores, with_file, word};

#[test]
fn a_lost_rank_s_lock_is_free_and_its_node_s_kept_ones_stay() {
    let is_stopped = AtomicBool::new(false);
    job(3, 6, |process| {
        let file = open(process);
        if process.rank() == 4 {
            // One that is kept; and one that was asked for once, so not kept.
            for _ in 0..3 {
                let held = exclusive(&file, 1000, 8);
                add(&file, 1000);
                held.release().unwrap();
            }
            std::mem::forget(exclusive(&file, 0, 8));
            set_word(&file, 0, 1);
        }
        process.meet();
        if process.rank() == 0 {
            process.job.declare_lost(Rank(4), "the test says so");
            is_stopped.store(true, SeqCst);
        }
        process.meet();
        if process.rank() == 2 {
            let held = exclusive(&file, 0, 8);
            set_word(&file, 0, 10);
            held.release().unwrap();
        }
        process.meet();
        if process.rank() == 1 {
            // What the lost one of its node wrote there is older.
            let held = exclusive(&file, 0, 8);
            assert_eq!(word(&file, 0), 10);
            held.release().unwrap();
            file.flush().unwrap();
            let before = requests(process);
            let held = exclusive(&file, 1000, 8);
            assert_eq!(add(&file, 1000), 4);
            held.release().unwrap();
            assert_eq!(requests(process), before, "its node still keeps it");
        }
        process.meet();
        if process.rank() == 2 {
            for (at, expected) in [(0, 10), (1000, 4)] {
                let held = exclusive(&file, at, 8);
                assert_eq!(word(&file, at), expected);
                held.release().unwrap();
            }
        }
    });
    assert!(is_stopped.into_inner());
}

#[test]
fn a_lost_node_keeps_nothing() {
    job(3, 3, |process| {
        let file = open(process);
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
            process.job.declare_lost(Rank(1), "the test says so");
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

/// How the loss of the leader of a node of two finds the other one, which has a lock that the node keeps, and has
/// written under it.
#[derive(PartialEq)]
enum Found {
    /// It has released the lock, and hears of the loss with the others.
    Released,
    /// It hears of the loss after others have written; it locks once more before.
    LockedAgain,
    /// It hears of the loss with the others while it has the lock.
    Holding,
}

#[allow(clippy::unwrap_used, reason = "it is the body of tests")]
fn lose_leader(found: &Found) {
    job(3, 6, |process| {
        let file = open(process);
        let mut held = None;
        if process.rank() == 4 {
            for turn in 1..=3 {
                held.take().map_or(Ok(()), |held: svmio_svm::RangeLock| held.release()).unwrap();
                held = Some(exclusive(&file, 0, 8));
                set_word(&file, 0, turn);
            }
            if *found != Found::Holding {
                held.take().unwrap().release().unwrap();
            }
        }
        process.meet();
        let leader = Rank(1);
        if process.rank() == 0 {
            let memberships = process.job.memberships.iter();
            let is_told = |rank: Rank| rank != leader && (rank != Rank(4) || *found != Found::LockedAgain);
            memberships
                .filter(|known| is_told(known.rank()))
                .for_each(|known| known.declare_lost(leader, "the test says so"));
        }
        process.meet();
        if process.rank() == 5 {
            let held = exclusive(&file, 0, 8);
            assert_eq!(word(&file, 0), 1, "what came home before the lock was kept");
            set_word(&file, 0, 70);
            held.release().unwrap();
        }
        process.meet();
        if process.rank() == 4 {
            match found {
                Found::Released => {}
                Found::LockedAgain => {
                    let held = exclusive(&file, 0, 8);
                    add(&file, 0);
                    process.job.memberships[4].declare_lost(leader, "the test says so");
                    let error = held.release().unwrap_err();
                    assert!(error.to_string().contains("n1"), "{error}");
                }
                Found::Holding => {
                    let error = held.take().unwrap().release().unwrap_err();
                    assert!(error.to_string().contains("n1"), "{error}");
                }
            }
            // It goes on, and asks the home each time.
            for turn in 71..75 {
                let before = requests(process);
                let held = exclusive(&file, 0, 8);
                assert!(requests(process) > before);
                assert_eq!(add(&file, 0), turn);
                held.release().unwrap();
            }
            let flushed = file.flush();
            assert_eq!(flushed.is_err(), *found == Found::Released, "told once: {flushed:?}");
            file.flush().unwrap();
        }
        process.meet();
        if process.rank() == 5 {
            let held = exclusive(&file, 0, 8);
            assert_eq!(word(&file, 0), 74);
            held.release().unwrap();
        }
        process.meet();
    });
}

#[test]
fn who_has_lost_his_node_s_leader_finds_what_others_wrote_where_the_node_kept_a_lock() {
    lose_leader(&Found::Released);
}

#[test]
fn who_hears_too_late_of_the_loss_of_his_node_s_leader_is_told_by_the_release() {
    lose_leader(&Found::LockedAgain);
}

#[test]
fn who_has_a_kept_lock_when_his_node_s_leader_is_lost_is_told_by_the_release() {
    lose_leader(&Found::Holding);
}

#[test]
fn what_was_written_under_a_lock_that_went_with_the_leader_does_not_come_home_by_a_flush() {
    job(3, 6, |process| {
        let file = open(process);
        if process.rank() == 4 {
            for turn in 1..=3 {
                let held = exclusive(&file, 0, 8);
                set_word(&file, 0, turn);
                held.release().unwrap();
            }
        }
        process.meet();
        if process.rank() == 0 {
            process.job.declare_lost(Rank(1), "the test says so");
        }
        process.meet();
        if process.rank() == 5 {
            let held = exclusive(&file, 0, 8);
            set_word(&file, 0, 70);
            held.release().unwrap();
        }
        process.meet();
        if process.rank() == 4 {
            let error = file.flush().unwrap_err();
            assert!(matches!(error, svmio_svm::Error::WritesLost { .. }), "{error}");
        }
        process.meet();
        if process.rank() == 5 {
            let held = exclusive(&file, 0, 8);
            assert_eq!(word(&file, 0), 70);
            held.release().unwrap();
        }
        process.meet();
    });
}

#[test]
fn all_of_a_node_that_are_lost_at_once_leave_their_locks() {
    for round in 0..20 {
        let (_directory, stores) = stores(2);
        super::job::run([&stores[0], &stores[1], &stores[1]], &CacheSettings::default(), |process| {
            let file = open(process);
            if process.rank() > 0 {
                // Asked for once, so not kept.
                std::mem::forget(exclusive(&file, u64::from(process.rank()) * 100, 8));
            }
            process.meet();
            if process.rank() == 0 {
                let lost = if round % 2 == 0 { [1, 2] } else { [2, 1] };
                for rank in lost {
                    process.job.memberships[0].declare_lost(Rank(rank), "the test says so");
                }
                for at in [100, 200] {
                    exclusive(&file, at, 8).release().unwrap();
                }
            }
            // Those whom it takes for lost need nothing of it.
            if process.rank() > 0 {
                std::mem::forget(file);
            }
        });
    }
}

#[test]
fn who_would_wait_for_himself_is_told() {
    with_file(2, 2, |process, file| {
        if process.rank() == 1 {
            for _ in 0..2 {
                exclusive(file, 0, 100).release().unwrap();
            }
            // A kept one, and one that is not.
            for at in [0, 5000] {
                let held = exclusive(file, at, 100);
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
        let file = open(process);
        if process.rank() == 1 {
            let held = exclusive(&file, 0, 8);
            set_word(&file, 0, 1);
            process.job.memberships[1].declare_lost(Rank(0), "the test says so");
            let error = held.release().unwrap_err();
            assert!(error.to_string().contains("n0"), "{error}");
        }
        process.meet();
    });
}

#[test]
fn a_process_that_waits_for_more_locks_than_makes_sense_is_told_and_the_others_get_theirs() {
    const WAITERS: usize = 520;
    with_file(3, 3, |process, file| {
        let held = (process.rank() == 0).then(|| exclusive(file, 0, 8));
        process.meet();
        if process.rank() == 1 {
            let (refused, all) = (AtomicUsize::new(0), Barrier::new(2));
            std::thread::scope(|scope| {
                for _ in 0..WAITERS {
                    scope.spawn(|| match file.lock(FileOffset(0)..FileOffset(8), LockMode::Exclusive) {
                        Ok(lock) => lock.release().unwrap(),
                        Err(error) => {
                            assert!(
                                error.to_string().contains("rank 1 waits for 512 locks already"),
                                "{error}"
                            );
                            // The last one that has to be refused: the others all wait.
                            if refused.fetch_add(1, SeqCst) + 1 == WAITERS - 512 {
                                all.wait();
                            }
                        }
                    });
                }
                all.wait();
                process.meet();
            });
            assert_eq!(refused.into_inner(), WAITERS - 512);
        } else {
            process.meet();
            if let Some(held) = held {
                held.release().unwrap();
            } else {
                exclusive(file, 0, 8).release().unwrap();
            }
        }
    });
}
