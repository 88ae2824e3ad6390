//! Random programs of several ranks, against plain memory and the rules of release consistency.
//!
//! A program is a row of rounds with barriers between. In each, every rank stores into bytes of its own, by its mapping
//! or by `write_at`, looks at bytes that nobody stores into, by its mapping or by `read_at`, and now and then syncs,
//! advises or fetches. Counters are added to under locks all the while, by whatever face.
//!
//! Some programs run each time, with `SVMIO_FULL=1` some hundred; `SVMIO_MODEL_PROGRAMS` says how many.

use proptest::prelude::*;
use svmio_svm::LockMode::Exclusive;
use svmio_svm::mapping::Advice;

use super::*;

const SEGMENTS: u64 = 24;
const BYTES: u64 = SEGMENTS * SEGMENT;
/// Behind the other bytes.
const COUNTERS: u64 = 8;

/// Numbers that follow from a seed, the same on all ranks.
struct Chance(u64);

impl Chance {
    fn of(seed: u64, more: u64) -> Chance {
        Chance(seed ^ more.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ word >> 31) % end
    }
}

/// Bytes of which one rank has the use in a round, or all to look at.
#[derive(Clone, Copy)]
struct Chunk {
    start: u64,
    end: u64,
    writer: Option<u64>,
    by_file: bool,
}

fn chunks(chance: &mut Chance, ranks: u64) -> Vec<Chunk> {
    let (mut chunks, mut start) = (Vec::new(), chance.below(9000));
    while start < BYTES {
        let longest = [20, 5000, 40_000][chance.below(3) as usize];
        let end = (start + 1 + chance.below(longest)).min(BYTES);
        let writer = Some(chance.below(ranks * 2)).filter(|writer| *writer < ranks);
        chunks.push(Chunk { start, end, writer, by_file: chance.below(4) == 0 });
        // Neighbours at times, within one word.
        start = end + if chance.below(2) == 0 { 0 } else { chance.below(60_000) };
    }
    chunks
}

fn bytes_of(chunk: Chunk, seed: u64, round: u64) -> Vec<u8> {
    let mut chance = Chance::of(seed, round << 32 | chunk.start);
    // Some bytes stay as they are.
    (chunk.start..chunk.end).map(|_| chance.below(5) as u8).collect()
}

struct Rank<'p> {
    process: &'p Process<'p>,
    file: Arc<File>,
    mapping: Mapping,
    memory: Vec<u8>,
    chance: Chance,
    added: u64,
}

impl Rank<'_> {
    fn put(&mut self, chunk: Chunk, bytes: &[u8]) {
        if chunk.by_file {
            self.file.write_at(FileOffset(chunk.start), bytes).unwrap();
            return;
        }
        let to = self.mapping.as_mut_ptr().wrapping_add(chunk.start as usize);
        // SAFETY: the chunk lies in the mapping, and is this rank's in this round.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    fn check(&mut self, start: u64, end: u64, expected: &[u8], what: &str) {
        let mut found = vec![0; (end - start) as usize];
        let by_file = what != "own" && self.chance.below(3) == 0;
        if by_file {
            let read = self.file.read_at(FileOffset(start), &mut found).unwrap();
            assert_eq!(read, found.len());
        } else {
            let from = self.mapping.as_ptr().wrapping_add(start as usize);
            // SAFETY: it lies in the mapping, and nobody stores there in this round.
            unsafe { std::ptr::copy_nonoverlapping(from, found.as_mut_ptr(), found.len()) };
        }
        let wrong = found.iter().zip(expected).position(|(found, expected)| found != expected);
        let rank = self.process.rank();
        assert_eq!(wrong.map(|at| start + at as u64), None, "rank {rank}, by file: {by_file}, {what}");
    }

    fn count(&mut self) {
        let at = BYTES + self.chance.below(COUNTERS) * 8;
        let range = FileOffset(at)..FileOffset(at + 8);
        if self.chance.below(2) == 0 {
            let lock = self.file.lock(range, Exclusive).unwrap();
            let mut word = [0; 8];
            self.file.read_at(FileOffset(at), &mut word).unwrap();
            self.file.write_at(FileOffset(at), &(u64::from_le_bytes(word) + 1).to_le_bytes()).unwrap();
            lock.release().unwrap();
        } else {
            let lock = self.mapping.lock(range, Exclusive).unwrap();
            let word = self.mapping.as_mut_ptr().wrapping_add(at as usize).cast::<u64>();
            // SAFETY: it lies in the mapping, aligned, and is locked.
            unsafe { word.write(word.read() + 1) };
            lock.release().unwrap();
        }
        self.added += 1;
    }

    fn disturb(&mut self) {
        let start = self.chance.below(BYTES);
        let end = start + 1 + self.chance.below(BYTES - start);
        let range = FileOffset(start)..FileOffset(end);
        match self.chance.below(10) {
            0 => self.mapping.sync(range).unwrap(),
            1 => self.mapping.flush().unwrap(),
            2 => self.mapping.refresh().unwrap(),
            3 => self.mapping.advise(range, Advice::DoNotNeed).unwrap(),
            4 => self.mapping.advise(range, Advice::WillNeed).unwrap(),
            5 => self.mapping.fetch(range).unwrap().wait().unwrap(),
            6 => {
                self.mapping.advise(range, [Advice::Random, Advice::Sequential][start as usize % 2]).unwrap()
            }
            7 => self.file.flush().unwrap(),
            _ => self.count(),
        }
    }

    fn round(&mut self, seed: u64, round: u64, ranks: u64) {
        let all = chunks(&mut Chance::of(seed, round), ranks);
        let rank = u64::from(self.process.rank());
        let mut open: Vec<_> = all.iter().filter(|chunk| chunk.writer.is_none_or(|of| of == rank)).collect();
        while !open.is_empty() {
            let at = self.chance.below(open.len() as u64) as usize;
            let chunk = *open.swap_remove(at);
            if chunk.writer.is_some() {
                let bytes = bytes_of(chunk, seed, round);
                self.put(chunk, &bytes);
                if !chunk.by_file {
                    self.check(chunk.start, chunk.end, &bytes, "own");
                }
            } else {
                let expected = self.memory[chunk.start as usize..chunk.end as usize].to_vec();
                self.check(chunk.start, chunk.end, &expected, "untouched");
            }
            if self.chance.below(6) == 0 {
                self.disturb();
            }
        }
        for chunk in all.into_iter().filter(|chunk| chunk.writer.is_some()) {
            let bytes = bytes_of(chunk, seed, round);
            self.memory[chunk.start as usize..chunk.end as usize].copy_from_slice(&bytes);
        }
        self.mapping.barrier(&mut meeting(self.process)).unwrap();
        if round % 3 == 2 {
            let expected = self.memory.clone();
            self.check(0, BYTES, &expected, "after the barrier");
            // Nobody stores before all have looked.
            self.process.meet();
        }
    }
}

fn execute(seed: u64, ranks: u64, rounds: u64) {
    let (_directory, stores) = job::stores(4);
    let added = std::sync::atomic::AtomicU64::new(0);
    job::run((0..ranks as usize).map(|rank| &stores[rank % 4]), &cache(), |process| {
        let file = open(process, &small_segments());
        let options = MappingOptions::new().limit(1 << 20).handlers(1 + seed as usize % 4);
        let options =
            options.on_loss(|lost| eprintln!("bytes from {} on are lost: {}", lost.range.start, lost.error));
        let mapping = map(&file, BYTES + COUNTERS * 8, &options);
        let chance = Chance::of(seed, 1 << 40 | u64::from(process.rank()));
        let mut rank = Rank { process, file, mapping, memory: vec![0; BYTES as usize], chance, added: 0 };
        for round in 0..rounds {
            rank.round(seed, round, ranks);
        }
        added.fetch_add(rank.added, std::sync::atomic::Ordering::Relaxed);
        rank.mapping.barrier(&mut meeting(process)).unwrap();
        let word = |at: u64| {
            let word = rank.mapping.as_ptr().wrapping_add(at as usize).cast::<u64>();
            // SAFETY: it lies in the mapping, aligned, and nobody stores there any more.
            unsafe { word.read() }
        };
        let sum: u64 = (0..COUNTERS).map(|number| word(BYTES + number * 8)).sum();
        assert_eq!(sum, added.load(std::sync::atomic::Ordering::Relaxed), "what was counted");
        process.meet();
    });
}

#[test]
fn programs_find_the_memory_that_release_consistency_promises() {
    let few = if job::is_full() { 400 } else { 6 };
    let given = std::env::var("SVMIO_MODEL_PROGRAMS").ok();
    let cases = given.map_or(few, |given| given.parse().expect("SVMIO_MODEL_PROGRAMS is a number"));
    let seeds = (any::<u64>(), 1u64..=7, 1u64..=9);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |((seed, ranks, rounds) in seeds)| execute(seed, ranks, rounds));
}
