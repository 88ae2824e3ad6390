//! Locks in segments that get their homes meanwhile, by writes beside the locks and under them: nobody is let in beside
//! who holds some of the same bytes from before, and each sees what the last one wrote.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use svmio_svm::{
    File, FileName, FileOffset, LockMode, NodeName, OpenOptions, Placement, SegmentIndex, SegmentSize,
};

use super::job::{Process, is_full};
use super::{Numbers, SEGMENT, job, lock, set_word, word};

const SEGMENTS: u64 = 48;
/// Of a segment; they are under locks, and what is behind them is not.
const WORDS: u64 = 4;
const APART: u64 = 4000;

/// What is known of a word: how many hold it for reading, or -1, and what the last writer left there.
#[derive(Default)]
struct Word {
    holders: AtomicI64,
    value: AtomicU64,
}

fn place(word: u64) -> u64 {
    word / WORDS * SEGMENT + word % WORDS * APART
}

fn under_locks(placement: &Placement, seed: u64) {
    let words: Vec<Word> = (0..SEGMENTS * WORDS).map(|_| Word::default()).collect();
    job(4, 8, |process| {
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        let options = options.placement(placement.clone());
        let file = process.open(&FileName::new("f").expect("it is a name"), &options).expect("it opens");
        if process.rank() == 0 {
            file.set_size(SEGMENTS * SEGMENT).expect("it can be set");
        }
        process.sync(&file).expect("all see it");
        for turn in 0..60 {
            one_turn(process, &file, &words, &mut Numbers(seed + u64::from(process.rank()) * 1000 + turn));
        }
        process.meet();
        let all = lock(&file, 0, SEGMENTS * SEGMENT, LockMode::Shared);
        for (number, known) in words.iter().enumerate() {
            assert_eq!(word(&file, place(number as u64)), known.value.load(SeqCst), "word {number}");
        }
        all.release().expect("it was held");
        process.meet();
        process.close(file).expect("it closes");
    });
}

fn one_turn(process: &Process<'_>, file: &File, words: &[Word], numbers: &mut Numbers) {
    // The first of these are all the same.
    (0..4).for_each(|_| _ = numbers.below(2));
    let count = words.len() as u64;
    if numbers.below(3) == 0 {
        // Nobody else's bytes, in a segment of which others may have locked something.
        let at = numbers.below(SEGMENTS) * SEGMENT + WORDS * APART + u64::from(process.rank()) * 1000;
        file.write_at(FileOffset(at), b"without a lock").expect("it can be written");
        if numbers.below(2) == 0 {
            file.flush().expect("it goes home");
        }
    }
    let first = numbers.below(count);
    // Now and then over several segments.
    let length = if numbers.below(4) == 0 { 1 + numbers.below(4 * WORDS) } else { 1 + numbers.below(2) };
    let end = (first + length).min(count);
    let (from, to) = (place(first), place(end - 1) + 8);
    let is_exclusive = numbers.below(2) == 0;
    let held = match is_exclusive {
        false => lock(file, from, to - from, LockMode::Shared),
        // As an access in atomic mode: what it does not write gets no home.
        true => {
            let written = |_: SegmentSize| vec![SegmentIndex((from / SEGMENT) as u32)];
            file.lock_to_write(FileOffset(from)..FileOffset(to), &written).expect("it can be had")
        }
    };
    let mine = &words[first as usize..end as usize];
    for (number, known) in mine.iter().enumerate() {
        let before = match is_exclusive {
            true => known.holders.swap(-1, SeqCst),
            false => known.holders.fetch_add(1, SeqCst),
        };
        let is_right = if is_exclusive { before == 0 } else { before >= 0 };
        assert!(
            is_right,
            "rank {}: word {number} behind {first} is held by others: {before}",
            process.rank()
        );
    }
    for (number, known) in (first..end).zip(mine) {
        assert_eq!(word(file, place(number)), known.value.load(SeqCst), "word {number}");
    }
    if is_exclusive {
        let value = mine[0].value.load(SeqCst) + 1;
        set_word(file, place(first), value);
        mine[0].value.store(value, SeqCst);
    }
    for known in mine {
        match is_exclusive {
            true => known.holders.store(0, SeqCst),
            false => _ = known.holders.fetch_sub(1, SeqCst),
        }
    }
    held.release().expect("it was held");
}

#[test]
fn nobody_is_let_in_beside_who_holds_the_same() {
    for seed in 0..if is_full() { 100 } else { 2 } {
        under_locks(&Placement::FirstTouch, seed);
    }
}

#[test]
fn nor_where_homes_hear_of_it_from_writers() {
    for seed in 0..if is_full() { 100 } else { 1 } {
        under_locks(&Placement::RoundRobin, seed);
        under_locks(&Placement::Node(NodeName::new("n2")), seed);
    }
}
