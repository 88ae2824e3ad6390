//! Sequential consistency: loads and stores alone.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use svmio_svm::mapping::StrictMapping;

use super::*;

/// All of them.
pub(in super::super) const PROGRAMS: [Program; 8] = [
    Program { name: "strict-message", least: 2, run: message },
    Program { name: "strict-buffering", least: 2, run: buffering },
    Program { name: "strict-coherence", least: 2, run: coherence },
    Program { name: "strict-writers", least: 2, run: writers },
    Program { name: "strict-readers", least: 4, run: readers },
    Program { name: "strict-exclusion", least: 2, run: exclusion },
    Program { name: "strict-counting", least: 2, run: counting },
    Program { name: "strict-rows", least: 2, run: rows },
];

#[test]
fn all_of_it_in_threads() {
    in_threads(5, &PROGRAMS);
}

/// A word of a mapping.
fn word(mapping: &StrictMapping, at: u64) -> &AtomicU64 {
    assert!(at.is_multiple_of(8) && at < mapping.len() as u64);
    // SAFETY: it lies in the mapping, is aligned, and is used as an atomic by all.
    unsafe { AtomicU64::from_ptr(mapping.as_mut_ptr().add(at as usize).cast()) }
}

/// Maps the file, whose first four segments are on four nodes, if there are as many.
fn mapped(rank: &Rank<'_>, file: &Arc<File>) -> StrictMapping {
    let options = MappingOptions::new().handlers(2);
    let mapping = options.map_strictly(file, all(8 * SEGMENT)).expect("the file can be mapped");
    for segment in (0..4).filter(|segment| segment % rank.size == rank.rank) {
        word(&mapping, segment * SEGMENT).store(0, SeqCst);
    }
    rank.meet();
    mapping
}

/// One writes a value and then a flag, all others see the value if they see the flag.
fn message(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 300;
    let mapping = mapped(rank, file);
    let (data, flag) = (word(&mapping, 3 * SEGMENT + 8), word(&mapping, SEGMENT + 2 * PAGE));
    let near = word(&mapping, SEGMENT + 2 * PAGE + 512);
    if rank.rank == 0 {
        for round in 1..=rounds(ROUNDS) {
            data.store(round, SeqCst);
            near.store(round, SeqCst);
            flag.store(round, SeqCst);
            // The others get in between.
            std::thread::yield_now();
        }
    } else {
        let mut last = 0;
        while last < rounds(ROUNDS) {
            last = flag.load(SeqCst);
            let (far, near) = (data.load(SeqCst), near.load(SeqCst));
            assert!(far >= last && near >= last, "flag {last}, data {far}, {near}");
            std::thread::yield_now();
        }
    }
    rank.meet();
}

/// Two write, each then looks at what the other writes: not both see nothing. In two pages, and in one.
fn buffering(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 100;
    let mapping = mapped(rank, file);
    let mut saw = [0; 2];
    for round in 1..=rounds(ROUNDS) {
        let places = [[SEGMENT, 2 * SEGMENT], [3 * SEGMENT, 3 * SEGMENT + 64]][round as usize % 2];
        if rank.rank < 2 {
            let (own, other) = (rank.rank as usize, 1 - rank.rank as usize);
            if round % 3 == 0 {
                // With a copy of what it looks at.
                word(&mapping, places[other]).load(SeqCst);
            }
            word(&mapping, places[own]).store(round, SeqCst);
            let saw = u64::from(word(&mapping, places[other]).load(SeqCst) == round);
            word(&mapping, PAGE + rank.rank * 8).store(saw, SeqCst);
        }
        rank.meet();
        let both = [0, 1].map(|of| word(&mapping, PAGE + of * 8).load(SeqCst));
        assert!(both[0] + both[1] >= 1, "round {round}: neither saw the other");
        saw = [saw[0] + both[0], saw[1] + both[1]];
        rank.meet();
    }
}

/// Nobody who has seen a value sees an older one; of two that are stored by different ranks all see the same come last.
fn coherence(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 300;
    let mapping = mapped(rank, file);
    let value = word(&mapping, 2 * SEGMENT + 24);
    if rank.rank == 0 {
        for round in 1..=rounds(ROUNDS) {
            value.store(round, SeqCst);
            std::thread::yield_now();
        }
    } else {
        let mut last = 0;
        while last < rounds(ROUNDS) {
            let [first, second] = [value.load(SeqCst), value.load(SeqCst)];
            assert!(last <= first && first <= second, "{last}, {first}, {second}");
            last = second;
            std::thread::yield_now();
        }
    }
    rank.meet();
    value.store(1 << 40 | rank.rank, SeqCst);
    rank.meet();
    let seen = value.load(SeqCst) - (1 << 40);
    assert_eq!(rank.team.maxima([seen as i64, -(seen as i64)]).unwrap(), [seen as i64, -(seen as i64)]);
}

/// All store into one page, each into bytes of its own.
fn writers(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 40;
    let mapping = mapped(rank, file);
    for round in 1..=rounds(ROUNDS) {
        let page = round % 4 * SEGMENT + 3 * PAGE;
        let value = |at: u64| (at + round * 3) as u8;
        for at in (page + rank.rank..page + PAGE).step_by(rank.size as usize) {
            // SAFETY: it lies in the mapping, and the byte is this rank's.
            unsafe { mapping.as_mut_ptr().add(at as usize).write_volatile(value(at)) };
        }
        rank.meet();
        // SAFETY: it lies in the mapping, and nobody stores there before all have looked.
        let found = |at: u64| unsafe { mapping.as_ptr().add(at as usize).read_volatile() };
        assert_eq!((page..page + PAGE).find(|at| found(*at) != value(*at)), None, "round {round}");
        rank.meet();
    }
}

/// Two write different words, two look at both in different orders: they agree which came first.
fn readers(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 60;
    let mapping = mapped(rank, file);
    let words = [word(&mapping, 32), word(&mapping, 2 * SEGMENT + 32)];
    let seen = |reader: u64, which: u64| word(&mapping, SEGMENT + reader * 16 + which * 8);
    for round in 1..=rounds(ROUNDS) {
        match rank.rank {
            writer @ (0 | 1) => words[writer as usize].store(round, SeqCst),
            reader @ (2 | 3) => {
                let first = reader as usize - 2;
                let one = words[first].load(SeqCst) == round;
                let other = words[1 - first].load(SeqCst) == round;
                seen(reader - 2, 0).store(one.into(), SeqCst);
                seen(reader - 2, 1).store(other.into(), SeqCst);
            }
            _ => {}
        }
        rank.meet();
        let saw = [[0, 0], [0, 1], [1, 0], [1, 1]].map(|[reader, which]| seen(reader, which).load(SeqCst));
        assert_ne!(saw, [1, 0, 1, 0], "round {round}: each saw the other's come later");
        rank.meet();
    }
}

/// The algorithm of Peterson, which needs what sequential consistency promises, keeps two from counting at once.
fn exclusion(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 60;
    let mapping = mapped(rank, file);
    let wants = [word(&mapping, 0), word(&mapping, SEGMENT)];
    let (turn, count) = (word(&mapping, 2 * SEGMENT), word(&mapping, 3 * SEGMENT));
    if rank.rank < 2 {
        let (own, other) = (rank.rank as usize, 1 - rank.rank as usize);
        for _ in 0..rounds(ROUNDS) {
            wants[own].store(1, SeqCst);
            turn.store(other as u64, SeqCst);
            while wants[other].load(SeqCst) == 1 && turn.load(SeqCst) == other as u64 {
                std::thread::yield_now();
            }
            let before = count.load(SeqCst);
            std::thread::yield_now();
            count.store(before + 1, SeqCst);
            wants[own].store(0, SeqCst);
        }
    }
    rank.meet();
    assert_eq!(count.load(SeqCst), 2 * rounds(ROUNDS));
    rank.meet();
}

/// All add to one word, of which each sees itself grow, and to one each in the same page.
fn counting(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 100;
    let mapping = mapped(rank, file);
    let (all, own) = (word(&mapping, SEGMENT + 8), word(&mapping, SEGMENT + 64 + rank.rank * 8));
    let mut last = None;
    for _ in 0..rounds(ROUNDS) {
        let before = all.fetch_add(1, SeqCst);
        own.store(own.load(SeqCst) + 1, SeqCst);
        assert!(last.is_none_or(|last| last < before), "{last:?}, {before}");
        last = Some(before);
        std::thread::yield_now();
    }
    rank.meet();
    assert_eq!([all.load(SeqCst), own.load(SeqCst)], [rank.size * rounds(ROUNDS), rounds(ROUNDS)]);
    rank.meet();
}

/// One writes a round's number into a row of pages, from the first to the last; all others look from the last to the
/// first, so that more is fetched ahead of them: nobody who has seen a number sees an older one after that.
fn rows(rank: &Rank<'_>, file: &Arc<File>) {
    const ROUNDS: u64 = 20;
    const PAGES: u64 = 14;
    let mapping = mapped(rank, file);
    let words: Vec<_> = (1..=PAGES).map(|page| word(&mapping, SEGMENT + page * PAGE + 8)).collect();
    if rank.rank == 0 {
        for round in 1..=rounds(ROUNDS) {
            words.iter().for_each(|word| word.store(round, SeqCst));
            // All look at what nobody stores into meanwhile, too.
            rank.meet();
            rank.meet();
        }
    } else {
        let mut last = 0;
        for round in 1..=rounds(ROUNDS) {
            for word in words.iter().rev() {
                let found = word.load(SeqCst);
                assert!(last <= found && found <= round, "{last}, then {found} in round {round}");
                last = found;
            }
            rank.meet();
            assert!(words.iter().rev().all(|word| word.load(SeqCst) == round), "round {round}");
            rank.meet();
            last = round;
        }
    }
    rank.meet();
}
