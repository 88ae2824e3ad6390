//! What release consistency promises, by the smallest programs that could find it broken, thousands of times.

use svmio_svm::LockMode::{Exclusive, Shared};

use super::*;

/// How many rounds: more where there is time.
fn rounds(few: u64) -> u64 {
    if std::env::var_os("SVMIO_FULL").is_some() { few * 20 } else { few }
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

/// Runs a program on four nodes, whose segments, each on another node, are the first four.
fn four_nodes(ranks: usize, body: impl Fn(&Process<'_>, &Mapping) + Sync) {
    let (_directory, stores) = job::stores(4);
    job::run((0..ranks).map(|rank| &stores[rank % 4]), &cache(), |process| {
        let file = open(process, &small_segments());
        let mapping = map(&file, 40 * SEGMENT, &MappingOptions::new().handlers(2));
        if process.rank() < 4 {
            let at = u64::from(process.rank()) * SEGMENT;
            (at..at + SEGMENT).step_by(PAGE as usize).for_each(|at| store(&mapping, at, 0));
        }
        mapping.barrier(&mut meeting(process)).unwrap();
        body(process, &mapping);
        process.meet();
        mapping.unmap().unwrap();
        process.meet();
    });
}

#[test]
fn a_message_is_seen_with_its_flag() {
    // Data and flag in each other's pages, segments and nodes, for each pair of writer and reader in turn.
    const ROUNDS: u64 = 1000;
    four_nodes(4, |process, mapping| {
        let rank = u64::from(process.rank());
        let both = FileOffset(0)..FileOffset(4 * SEGMENT);
        for round in 1..=rounds(ROUNDS) {
            let (writer, reader) = (round % 4, (round / 4 + round % 4 + 1) % 4);
            let (data, flag) = ((round * 7 % 4) * SEGMENT + 8, (round * 3 % 4) * SEGMENT + 2 * PAGE);
            if writer != reader && rank == writer {
                let lock = mapping.lock(both.clone(), Exclusive).unwrap();
                set_word(mapping, data, round);
                set_word(mapping, flag, round);
                lock.release().unwrap();
            }
            if writer != reader && rank == reader {
                let mut tries = 0;
                loop {
                    let _lock = mapping.lock(both.clone(), Shared).unwrap();
                    if word(mapping, flag) == round {
                        assert_eq!(word(mapping, data), round, "the flag was there");
                        break;
                    }
                    tries += 1;
                    assert!(tries < 100_000, "round {round}");
                }
            }
            if round % 4 == 3 {
                // The same addresses are used again.
                process.meet();
            }
        }
    });
}

#[test]
fn of_two_that_store_and_look_under_a_lock_one_sees_the_other() {
    const ROUNDS: u64 = 300;
    four_nodes(2, |process, mapping| {
        let rank = u64::from(process.rank());
        let seen = |round: u64| (2 * SEGMENT + round % 64 * 16 + rank * 8, round);
        for round in 1..=rounds(ROUNDS) {
            // Each stores into the other's segment.
            let (own, other) = ((1 - rank) * SEGMENT + 24, rank * SEGMENT + 24);
            let both = FileOffset(0)..FileOffset(3 * SEGMENT);
            let lock = mapping.lock(both, Exclusive).unwrap();
            set_word(mapping, own, round);
            let (at, round) = seen(round);
            set_word(mapping, at, u64::from(word(mapping, other) == round) + 2 * round);
            lock.release().unwrap();
            mapping.barrier(&mut meeting(process)).unwrap();
            let saw: Vec<_> = [0, 1].map(|of| word(mapping, at - rank * 8 + of * 8) - 2 * round).into();
            assert_eq!(
                saw.iter().sum::<u64>(),
                1,
                "round {round}: exactly the second sees the first: {saw:?}"
            );
            mapping.barrier(&mut meeting(process)).unwrap();
        }
    });
}

#[test]
fn who_has_seen_a_new_value_does_not_see_an_older_one_again() {
    const ROUNDS: u64 = 500;
    four_nodes(4, |process, mapping| {
        let rank = u64::from(process.rank());
        let range = || FileOffset(SEGMENT)..FileOffset(SEGMENT + 16);
        let mut last = 0;
        for _ in 0..rounds(ROUNDS) {
            if rank == 0 {
                let lock = mapping.lock(range(), Exclusive).unwrap();
                set_word(mapping, SEGMENT, word(mapping, SEGMENT) + 1);
                lock.release().unwrap();
            } else {
                let _lock = mapping.lock(range(), Shared).unwrap();
                let first = word(mapping, SEGMENT);
                // Also where the page has gone and come again.
                mapping
                    .advise(
                        FileOffset(SEGMENT)..FileOffset(SEGMENT + 8),
                        svmio_svm::mapping::Advice::DoNotNeed,
                    )
                    .unwrap();
                let second = word(mapping, SEGMENT);
                assert!(last <= first && first == second, "{last}, {first}, {second}");
                last = second;
            }
        }
    });
}

#[test]
fn all_writers_of_a_page_win() {
    const ROUNDS: u64 = 100;
    for ranks in [2, 8] {
        four_nodes(ranks, |process, mapping| {
            let (rank, ranks) = (u64::from(process.rank()), ranks as u64);
            for round in 1..=rounds(ROUNDS) {
                let page = round % 4 * SEGMENT;
                let value = |at: u64| (at + round * 3) as u8;
                (page + rank..page + PAGE)
                    .step_by(ranks as usize)
                    .for_each(|at| store(mapping, at, value(at)));
                mapping.barrier(&mut meeting(process)).unwrap();
                let wrong = (page..page + PAGE).find(|at| load(mapping, *at) != value(*at));
                assert_eq!(wrong, None, "round {round}");
                mapping.barrier(&mut meeting(process)).unwrap();
            }
        });
    }
}

#[test]
fn counting_under_locks_loses_nothing() {
    const ROUNDS: u64 = 150;
    four_nodes(8, |process, mapping| {
        for round in 0..rounds(ROUNDS) {
            // Counters of one page have locks of their own: their holders store into one page at the same time.
            let number = (round + u64::from(process.rank())) % 3;
            let at = round % 4 * SEGMENT + number * 8;
            let lock = mapping.lock(FileOffset(at)..FileOffset(at + 8), Exclusive).unwrap();
            set_word(mapping, at, word(mapping, at) + 1);
            lock.release().unwrap();
        }
        mapping.barrier(&mut meeting(process)).unwrap();
        let words = (0..4).flat_map(|segment| (0..3).map(move |number| segment * SEGMENT + number * 8));
        assert_eq!(words.map(|at| word(mapping, at)).sum::<u64>(), 8 * rounds(ROUNDS));
    });
}

#[test]
fn a_lock_may_be_another_range_than_what_it_guards_by_a_flush_and_a_refresh() {
    const ROUNDS: u64 = 60;
    four_nodes(4, |process, mapping| {
        for round in 0..rounds(ROUNDS) {
            let lock = mapping.lock(name_of_lock(0), Exclusive).unwrap();
            mapping.refresh().unwrap();
            let at = round % 4 * SEGMENT + 64;
            set_word(mapping, at, word(mapping, at) + 1);
            mapping.flush().unwrap();
            lock.release().unwrap();
        }
        mapping.barrier(&mut meeting(process)).unwrap();
        let all: u64 = (0..4).map(|segment| word(mapping, segment * SEGMENT + 64)).sum();
        assert_eq!(all, 4 * rounds(ROUNDS));
    });
}
