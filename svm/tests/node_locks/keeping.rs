//! Locks that a node keeps: what they save, and that what was written under them is found.

use svmio_svm::{FileOffset, LockMode};

use super::{SEGMENT, add, exclusive, job, lock, open, requests, set_word, with_file, word};

#[test]
fn a_range_that_a_node_locks_again_and_again_costs_it_no_messages() {
    with_file(2, 4, |process, file| {
        if process.rank() == 1 {
            for _ in 0..2 {
                let held = exclusive(file, 100, 50);
                add(file, 100);
                held.release().unwrap();
            }
            let before = requests(process);
            for turn in 0..100 {
                let held = exclusive(file, 100 + turn % 2, 40);
                add(file, 108);
                held.release().unwrap();
            }
            assert_eq!(requests(process), before, "{}", process.cluster.statistics());
        }
        process.meet();
        if process.rank() == 3 {
            // Of the same node.
            let before = requests(process);
            for mode in [LockMode::Exclusive, LockMode::Shared] {
                let held = lock(file, 100, 50, mode);
                assert_eq!((word(file, 100), word(file, 108)), (2, 100));
                held.release().unwrap();
            }
            assert_eq!(requests(process), before, "{}", process.cluster.statistics());
        }
        process.meet();
        if process.rank() == 2 {
            // Of the home.
            let held = lock(file, 108, 8, LockMode::Shared);
            assert_eq!(word(file, 108), 100);
            held.release().unwrap();
        }
    });
}

#[test]
fn reading_under_kept_locks_costs_no_messages_and_is_done_together() {
    with_file(2, 4, |process, file| {
        let is_reader = process.rank() % 2 == 1;
        if process.rank() == 1 {
            for _ in 0..2 {
                lock(file, 0, 1000, LockMode::Shared).release().unwrap();
            }
        }
        process.meet();
        let before = requests(process);
        let held = is_reader.then(|| lock(file, 10, 100, LockMode::Shared));
        // Both have it, or this never ends.
        process.meet();
        held.into_iter().for_each(|held| held.release().unwrap());
        assert_eq!(requests(process), before, "{}", process.cluster.statistics());
        process.meet();
        if process.rank() == 0 {
            let held = exclusive(file, 50, 8);
            set_word(file, 50, 7);
            held.release().unwrap();
        }
        process.meet();
        if is_reader {
            let held = lock(file, 10, 100, LockMode::Shared);
            assert_eq!(word(file, 50), 7);
            held.release().unwrap();
        }
    });
}

#[test]
fn what_is_asked_back_each_time_is_kept_less_and_less() {
    with_file(3, 3, |process, file| {
        let before = process.cluster.statistics();
        for turn in 0..40 {
            for rank in 1..=2 {
                if process.rank() == rank {
                    // Twice in a row, which is enough at first.
                    for _ in 0..2 {
                        let held = exclusive(file, 0, 8);
                        add(file, 0);
                        held.release().unwrap();
                    }
                }
                process.meet();
            }
            if turn == 0 {
                let after = process.cluster.statistics();
                let asked_back = after.requests() - before.requests();
                assert!(asked_back == 1 || process.rank() != 0, "kept at first: {before}, then {after}");
                // Nobody asks for more before it has been looked at.
                process.meet();
            }
        }
        if process.rank() == 0 {
            let asked_back = process.cluster.statistics().requests["giveback"];
            assert!(asked_back <= 4, "{asked_back} times");
            assert_eq!(word(file, 0), 160);
        }
    });
}

#[test]
fn what_was_written_under_a_kept_lock_outlives_all_handles_of_the_node() {
    job(2, 2, |process| {
        let file = open(process);
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
fn sizes_grown_by_others_are_seen_under_a_kept_lock() {
    with_file(2, 2, |process, file| {
        let end = 2 * SEGMENT;
        let locked = end - 100;
        if process.rank() == 0 {
            // Beyond the end, in a segment of the other node's; and kept there.
            for _ in 0..3 {
                let held = lock(file, locked, 300, LockMode::Shared);
                let mut bytes = [9; 300];
                assert_eq!(file.read_at(FileOffset(locked), &mut bytes).unwrap(), 100);
                held.release().unwrap();
            }
        }
        process.meet();
        if process.rank() == 1 {
            let held = exclusive(file, end + 1000, 10);
            file.write_at(FileOffset(end + 1000), &[1; 10]).unwrap();
            held.release().unwrap();
        }
        process.meet();
        if process.rank() == 0 {
            let held = lock(file, locked, 300, LockMode::Shared);
            let mut bytes = [9; 300];
            assert_eq!(file.read_at(FileOffset(locked), &mut bytes).unwrap(), 300);
            assert_eq!(bytes, [0; 300]);
            held.release().unwrap();
        }
    });
}

#[test]
fn a_lock_that_only_other_nodes_than_the_master_have_to_do_with_costs_it_nothing() {
    with_file(3, 3, |process, file| {
        if process.rank() == 1 {
            for turn in 0..3 {
                // Another range each time, of node 2, which this node therefore does not keep.
                let at = 2 * SEGMENT + turn * 100;
                let before = process.cluster.statistics().requests;
                let held = exclusive(file, at, 8);
                add(file, at);
                held.release().unwrap();
                let after = process.cluster.statistics().requests;
                assert_eq!(after.get("refresh"), before.get("refresh"), "{after:?}");
            }
        }
    });
}

#[test]
fn what_was_written_under_a_kept_lock_is_found_without_a_lock_after_a_flush() {
    with_file(2, 4, |process, file| {
        if process.rank() == 1 {
            for _ in 0..5 {
                let held = exclusive(file, 0, 8);
                add(file, 0);
                held.release().unwrap();
            }
        }
        process.meet();
        if process.rank() == 3 {
            // Whoever of the node does it.
            file.flush().unwrap();
        }
        process.meet();
        if process.rank() == 0 {
            file.refresh().unwrap();
            assert_eq!(word(file, 0), 5);
        }
        process.meet();
    });
}
