//! Many who want the same ranges: each sees what the last one wrote, and nobody waits for ever.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use svmio_svm::LockMode;

use super::{Numbers, SEGMENT, add, exclusive, lock, set_word, with_file, word};

#[test]
fn random_ranges_by_eight_ranks_show_each_what_the_last_one_wrote() {
    const WORDS: u64 = 32;
    let model: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    // Four segments, eight words in each, a page's worth apart.
    let place = |word: u64| (word / 8) * SEGMENT + (word % 8) * 4000 + 16;
    with_file(4, 8, |process, file| {
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
            let held = lock(file, from, to - from, mode);
            for at in first..end {
                let expected = model[at as usize].load(SeqCst);
                assert_eq!(word(file, place(at)), expected, "rank {} turn {turn}", process.rank());
                if mode == LockMode::Exclusive {
                    set_word(file, place(at), expected + 1);
                    model[at as usize].store(expected + 1, SeqCst);
                }
            }
            held.release().unwrap();
        }
        process.meet();
        let _all = lock(file, 0, 4 * SEGMENT, LockMode::Shared);
        for at in 0..WORDS {
            assert_eq!(word(file, place(at)), model[at as usize].load(SeqCst));
        }
    });
}

#[test]
fn a_range_goes_to_and_fro_between_nodes() {
    with_file(3, 3, |process, file| {
        let own = u64::from(process.rank());
        if own > 0 {
            let mut done = 0;
            while done < 60 {
                let held = exclusive(file, 0, 8);
                if word(file, 0) % 2 == own - 1 {
                    done = add(file, 0);
                }
                held.release().unwrap();
            }
        }
        process.meet();
        let held = lock(file, 0, 8, LockMode::Shared);
        assert!((60..=61).contains(&word(file, 0)), "{}", word(file, 0));
        held.release().unwrap();
    });
}

#[test]
fn nobody_is_kept_waiting_by_a_node_that_keeps_a_range_busy() {
    let is_over = AtomicBool::new(false);
    let waiting = AtomicU64::new(0);
    with_file(3, 6, |process, file| {
        match process.rank() {
            1 | 4 => {
                while !is_over.load(SeqCst) {
                    let held = exclusive(file, 0, 8);
                    add(file, 0);
                    held.release().unwrap();
                }
            }
            // The home's own, and a third node's.
            0 | 2 => {
                for _ in 0..20 {
                    let start = Instant::now();
                    let held = exclusive(file, 0, 8);
                    add(file, 0);
                    held.release().unwrap();
                    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
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
