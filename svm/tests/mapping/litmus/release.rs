//! Release consistency: locks and barriers.

use svmio_svm::LockMode::{Exclusive, Shared};

use super::*;

/// All of them.
pub(in super::super) const PROGRAMS: [Program; 6] = [
    Program { name: "release-message", least: 2, run: message },
    Program { name: "release-buffering", least: 2, run: buffering },
    Program { name: "release-coherence", least: 2, run: coherence },
    Program { name: "release-writers", least: 2, run: writers },
    Program { name: "release-counting", least: 2, run: counting },
    Program { name: "release-naming", least: 2, run: naming },
];

#[test]
fn a_message_is_seen_with_its_flag() {
    in_threads(4, &PROGRAMS[..1]);
}

#[test]
fn of_two_that_store_and_look_under_a_lock_one_sees_the_other() {
    in_threads(2, &PROGRAMS[1..2]);
}

#[test]
fn who_has_seen_a_new_value_does_not_see_an_older_one_again() {
    in_threads(4, &PROGRAMS[2..3]);
}

#[test]
fn all_writers_of_a_page_win() {
    for ranks in [2, 8] {
        in_threads(ranks, &PROGRAMS[3..4]);
    }
}

#[test]
fn counting_under_locks_loses_nothing() {
    in_threads(8, &PROGRAMS[4..5]);
}

#[test]
fn a_lock_may_be_another_range_than_what_it_guards_by_a_flush_and_a_refresh() {
    in_threads(4, &PROGRAMS[5..]);
}

/// A word of a mapping.
fn word(mapping: &Mapping, at: u64) -> u64 {
    assert!(at.is_multiple_of(8) && at < mapping.len() as u64);
    // SAFETY: it lies in the mapping, and is aligned.
    unsafe { mapping.as_ptr().add(at as usize).cast::<u64>().read_volatile() }
}

fn set_word(mapping: &Mapping, at: u64, word: u64) {
    assert!(at.is_multiple_of(8) && at < mapping.len() as u64);
    // SAFETY: it lies in the mapping, and is aligned.
    unsafe { mapping.as_mut_ptr().add(at as usize).cast::<u64>().write_volatile(word) }
}

/// A range of the file that stands for a lock: nothing is stored there.
fn name_of_lock(number: u64) -> std::ops::Range<FileOffset> {
    let at = 32 * SEGMENT + number * PAGE;
    FileOffset(at)..FileOffset(at + 8)
}

/// Maps the file, whose first four segments are on four nodes, if there are as many.
fn mapped(rank: &Rank<'_>, file: &Arc<File>) -> Mapping {
    let mapping = map(file, 40 * SEGMENT, &MappingOptions::new().handlers(2));
    for segment in (0..4).filter(|segment| segment % rank.size == rank.rank) {
        let at = segment * SEGMENT;
        (at..at + SEGMENT).step_by(PAGE as usize).for_each(|at| store(&mapping, at, 0));
    }
    barrier(rank, &mapping);
    mapping
}

fn barrier(rank: &Rank<'_>, mapping: &Mapping) {
    mapping.barrier(&mut || rank.team.agree::<svmio_svm::Error>(Ok(()))).unwrap();
}

fn message(rank: &Rank<'_>, file: &Arc<File>) {
    // Data and flag in each other's pages, segments and nodes, for each pair of writer and reader in turn.
    const ROUNDS: u64 = 200;
    let mapping = mapped(rank, file);
    let both = FileOffset(0)..FileOffset(4 * SEGMENT);
    for round in 1..=rounds(ROUNDS) {
        let (writer, reader) = (round % rank.size, (round / rank.size + round % rank.size + 1) % rank.size);
        let (data, flag) = ((round * 7 % 4) * SEGMENT + 8, (round * 3 % 4) * SEGMENT + 2 * PAGE);
        if writer != reader && rank.rank == writer {
            let lock = mapping.lock(both.clone(), Exclusive).unwrap();
            set_word(&mapping, data, round);
            set_word(&mapping, flag, round);
            lock.release().unwrap();
        }
        if writer != reader && rank.rank == reader {
            loop {
                let lock = mapping.lock(both.clone(), Shared).unwrap();
                if word(&mapping, flag) == round {
                    assert_eq!(word(&mapping, data), round, "the flag was there");
                    break;
                }
                // However long the writer takes: a program that does not end is ended.
                lock.release().unwrap();
                std::thread::yield_now();
            }
        }
        if round % 4 == 3 {
            // The same addresses are used again.
            rank.meet();
        }
    }
    rank.meet();
}

fn buffering(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 100;
    let mapping = mapped(rank, file);
    for round in 1..=rounds(ROUNDS) {
        let at = |of: u64| 2 * SEGMENT + round % 64 * 16 + of * 8;
        if rank.rank < 2 {
            // Each stores into the other's segment.
            let (own, other) = ((1 - rank.rank) * SEGMENT + 24, rank.rank * SEGMENT + 24);
            let lock = mapping.lock(FileOffset(0)..FileOffset(3 * SEGMENT), Exclusive).unwrap();
            set_word(&mapping, own, round);
            set_word(&mapping, at(rank.rank), u64::from(word(&mapping, other) == round) + 2 * round);
            lock.release().unwrap();
        }
        barrier(rank, &mapping);
        let saw = [0, 1].map(|of| word(&mapping, at(of)) - 2 * round);
        assert_eq!(saw.iter().sum::<u64>(), 1, "round {round}: exactly the second sees the first: {saw:?}");
        barrier(rank, &mapping);
    }
}

fn coherence(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 200;
    let mapping = mapped(rank, file);
    let range = || FileOffset(SEGMENT)..FileOffset(SEGMENT + 16);
    let mut last = 0;
    for _ in 0..rounds(ROUNDS) {
        if rank.rank == 0 {
            let lock = mapping.lock(range(), Exclusive).unwrap();
            set_word(&mapping, SEGMENT, word(&mapping, SEGMENT) + 1);
            lock.release().unwrap();
        } else {
            let _lock = mapping.lock(range(), Shared).unwrap();
            let first = word(&mapping, SEGMENT);
            // Also where the page has gone and come again.
            let gone = svmio_svm::mapping::Advice::DoNotNeed;
            mapping.advise(FileOffset(SEGMENT)..FileOffset(SEGMENT + 8), gone).unwrap();
            let second = word(&mapping, SEGMENT);
            assert!(last <= first && first == second, "{last}, {first}, {second}");
            last = second;
        }
    }
    rank.meet();
}

fn writers(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 100;
    let mapping = mapped(rank, file);
    for round in 1..=rounds(ROUNDS) {
        let page = round % 4 * SEGMENT;
        let value = |at: u64| (at + round * 3) as u8;
        let own = (page + rank.rank..page + PAGE).step_by(rank.size as usize);
        own.for_each(|at| store(&mapping, at, value(at)));
        barrier(rank, &mapping);
        let wrong = (page..page + PAGE).find(|at| load(&mapping, *at) != value(*at));
        assert_eq!(wrong, None, "round {round}");
        barrier(rank, &mapping);
    }
}

fn counting(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 100;
    let mapping = mapped(rank, file);
    for round in 0..rounds(ROUNDS) {
        // Counters of one page have locks of their own: their holders store into one page at the same time.
        let number = (round + rank.rank) % 3;
        let at = round % 4 * SEGMENT + number * 8;
        let lock = mapping.lock(FileOffset(at)..FileOffset(at + 8), Exclusive).unwrap();
        set_word(&mapping, at, word(&mapping, at) + 1);
        lock.release().unwrap();
    }
    barrier(rank, &mapping);
    let words = (0..4).flat_map(|segment| (0..3).map(move |number| segment * SEGMENT + number * 8));
    assert_eq!(words.map(|at| word(&mapping, at)).sum::<u64>(), rank.size * rounds(ROUNDS));
    rank.meet();
}

fn naming(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 60;
    let mapping = mapped(rank, file);
    for round in 0..rounds(ROUNDS) {
        let lock = mapping.lock(name_of_lock(0), Exclusive).unwrap();
        mapping.refresh().unwrap();
        let at = round % 4 * SEGMENT + 64;
        set_word(&mapping, at, word(&mapping, at) + 1);
        mapping.flush().unwrap();
        lock.release().unwrap();
    }
    barrier(rank, &mapping);
    let all: u64 = (0..4).map(|segment| word(&mapping, segment * SEGMENT + 64)).sum();
    assert_eq!(all, rank.size * rounds(ROUNDS));
    rank.meet();
}
