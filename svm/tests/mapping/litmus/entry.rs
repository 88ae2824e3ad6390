//! Entry consistency: guards of what is bound.

use svmio_svm::mapping::Bound;

use super::*;

/// All of them.
pub(in super::super) const PROGRAMS: [Program; 4] = [
    Program { name: "entry-message", least: 2, run: message },
    Program { name: "entry-buffering", least: 2, run: buffering },
    Program { name: "entry-coherence", least: 2, run: coherence },
    Program { name: "entry-writers", least: 2, run: writers },
];

#[test]
fn all_of_it_in_threads() {
    in_threads(5, &PROGRAMS);
}

fn bound(file: &Arc<File>, at: u64, count: usize) -> Bound<u64> {
    Bound::new(file, FileOffset(at), count).expect("it can be bound")
}

fn message(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 100;
    // Data and flag under one lock, in pages of their own beside it under two: the data's guard comes before the
    // flag's.
    let both = bound(file, SEGMENT - 16, 4);
    let (data, flag) = (bound(file, 2 * SEGMENT + 8, 1), bound(file, 3 * SEGMENT + 24, 1));
    for round in 1..=rounds(ROUNDS) {
        if rank.rank == round % rank.size {
            let mut guard = both.exclusive().unwrap();
            (guard[0], guard[3]) = (round, round);
            guard.release().unwrap();
            data.exclusive().unwrap()[0] = round;
            flag.exclusive().unwrap()[0] = round;
        } else {
            while flag.shared().unwrap()[0] < round {
                std::thread::yield_now();
            }
            assert!(data.shared().unwrap()[0] >= round, "the flag was there");
            let guard = both.shared().unwrap();
            assert!(guard[0] == guard[3] && guard[0] >= round, "{:?}", &guard[..]);
        }
    }
    rank.meet();
}

fn buffering(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 100;
    // Who enters second sees what the first one left.
    let (stored, saw) = (bound(file, 40, 2), bound(file, SEGMENT, 2));
    for round in 1..=rounds(ROUNDS) {
        if rank.rank < 2 {
            let (own, other) = (rank.rank as usize, 1 - rank.rank as usize);
            let mut guard = stored.exclusive().unwrap();
            guard[own] = round;
            saw.exclusive().unwrap()[own] = u64::from(guard[other] == round);
            guard.release().unwrap();
        }
        rank.meet();
        assert_eq!(saw.shared().unwrap().iter().sum::<u64>(), 1, "round {round}");
        rank.meet();
    }
}

fn coherence(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 200;
    let value = bound(file, 8, 1);
    let mut last = 0;
    for round in 0..rounds(ROUNDS) {
        if rank.rank == 0 {
            value.exclusive().unwrap()[0] += 1;
        } else {
            let guard = value.shared().unwrap();
            assert!(guard[0] >= last, "{} after {last}", guard[0]);
            last = guard[0];
        }
        if round % 50 == 49 {
            rank.meet();
            assert_eq!(value.shared().unwrap()[0], round + 1);
            rank.meet();
        }
    }
}

fn writers(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 100;
    // Values of all ranks in one page, each bound on its own, and one of all together.
    let all = bound(file, PAGE, rank.size as usize);
    let own = bound(file, PAGE + 8 * rank.rank, 1);
    for round in 1..=rounds(ROUNDS) {
        own.exclusive().unwrap()[0] += round;
        if round % 5 == rank.rank % 5 {
            all.exclusive().unwrap().iter_mut().for_each(|value| *value += 1);
        }
    }
    rank.meet();
    let added: u64 = (0..rank.size)
        .map(|of| (1..=rounds(ROUNDS)).filter(|round| round % 5 == of % 5).count() as u64)
        .sum();
    let expected = rounds(ROUNDS) * (rounds(ROUNDS) + 1) / 2 + added;
    assert!(all.shared().unwrap().iter().all(|value| *value == expected), "{expected}");
    rank.meet();
}
