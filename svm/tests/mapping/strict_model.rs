//! Random programs on strict mappings, against an oracle that knows nothing of pages: what each operation found, and
//! when it was under way.
//!
//! Each word only ever gets values that nobody else gives it, by exchanges, which tell what was there before: so the
//! values of a word have an order that all exchanges together tell. An operation that began after another one of the
//! same word had ended must not find an older value than that one found or left. If that holds for each word, all
//! operations are as if each was done at one moment while it was under way (Herlihy, Wing, *Linearizability: A
//! Correctness Condition for Concurrent Objects*, 1990), which is more than sequential consistency.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use proptest::prelude::*;
use svmio_svm::mapping::StrictMapping;

use super::*;

const BYTES: u64 = 40 * SEGMENT;
/// Some in one page, some alone, each of the first segments on another node.
const WORDS: [u64; 9] = [
    0,
    8,
    PAGE - 8,
    SEGMENT,
    SEGMENT + 2048,
    2 * SEGMENT - 8,
    2 * SEGMENT,
    3 * SEGMENT + 40,
    3 * SEGMENT + 48,
];

/// What was done to a word, and the time before and after.
#[derive(Debug, Clone, Copy)]
struct Operation {
    word: usize,
    begun: u64,
    ended: u64,
    found: u64,
    /// What it left there, if it was an exchange.
    left: Option<u64>,
}

struct Thread<'m> {
    mapping: &'m StrictMapping,
    clock: &'m AtomicU64,
    number: u64,
    chance: u64,
    done: Vec<Operation>,
}

impl Thread<'_> {
    fn below(&mut self, end: u64) -> u64 {
        self.chance =
            self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % end
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        // SAFETY: it lies in the mapping, is aligned, and is used as an atomic by all.
        unsafe { AtomicU64::from_ptr(self.mapping.as_mut_ptr().add(at as usize).cast()) }
    }

    fn step(&mut self) {
        match self.below(41) {
            // Others have to go for these.
            0..4 => {
                let at = self.below(BYTES / PAGE) * PAGE + 1024;
                self.word(at).store(1, SeqCst);
            }
            4 => self.mapping.flush().unwrap(),
            5 => self.mapping.refresh().unwrap(),
            6..10 => std::thread::yield_now(),
            // A row of loads, ahead of which more is fetched.
            40 => {
                let first = self.below(BYTES / PAGE - 8);
                for page in first..first + 8 {
                    std::hint::black_box(self.word(page * PAGE + 1024).load(SeqCst));
                }
            }
            kind => {
                let which = self.below(WORDS.len() as u64) as usize;
                let value = (self.number << 32) | (self.done.len() as u64 + 1);
                let begun = self.clock.fetch_add(1, SeqCst);
                let word = self.word(WORDS[which]);
                let (found, left) = match kind {
                    10..25 => (word.load(SeqCst), None),
                    _ => (word.swap(value, SeqCst), Some(value)),
                };
                let ended = self.clock.fetch_add(1, SeqCst);
                self.done.push(Operation { word: which, begun, ended, found, left });
            }
        }
    }
}

/// Of which number each value of a word is, by what the exchanges found.
fn order(operations: &[Operation]) -> HashMap<u64, usize> {
    let exchanges = operations.iter().filter_map(|operation| Some((operation.found, operation.left?)));
    let mut next = HashMap::new();
    for (found, left) in exchanges {
        assert_eq!(next.insert(found, left), None, "two exchanges found the same value: one was lost");
    }
    let (mut order, mut value) = (HashMap::from([(0, 0)]), 0);
    while let Some(after) = next.remove(&value) {
        order.insert(after, order.len());
        value = after;
    }
    assert!(next.is_empty(), "values that nobody has overwritten, and that are not the last: {next:?}");
    order
}

fn check(mut operations: Vec<Operation>) {
    let order = order(&operations);
    operations.sort_by_key(|operation| operation.begun);
    let mut by_end = operations.clone();
    by_end.sort_by_key(|operation| operation.ended);
    let mut ended = by_end.into_iter().peekable();
    let mut newest = 0;
    for operation in operations {
        while let Some(before) = ended.next_if(|before| before.ended < operation.begun) {
            newest = newest.max(order[&before.left.unwrap_or(before.found)]);
        }
        let found = order.get(&operation.found);
        assert!(
            found.is_some_and(|found| *found >= newest),
            "{operation:?} found what was older than {newest}"
        );
    }
}

fn execute(seed: u64, ranks: usize, steps: usize) {
    let (_directory, stores) = job::stores(4);
    let (clock, done) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    job::run((0..ranks).map(|rank| &stores[rank % 4]), &cache(), |process| {
        let (file, rank) = (open(process, &small_segments()), u64::from(process.rank()));
        let options = MappingOptions::new().limit(1 << 20).handlers(1 + seed as usize % 4);
        let mapping = options.map_strictly(&file, all(BYTES)).unwrap();
        std::thread::scope(|scope| {
            for number in [rank * 2 + 1, rank * 2 + 2] {
                let (mapping, clock, done) = (&mapping, &clock, &done);
                let chance = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                scope.spawn(move || {
                    let mut thread = Thread { mapping, clock, number, chance, done: Vec::new() };
                    (0..steps).for_each(|_| thread.step());
                    done.lock().unwrap().append(&mut thread.done);
                });
            }
        });
        if seed.is_multiple_of(2) {
            // Others go on without it.
            mapping.unmap().unwrap();
            process.meet();
        } else {
            process.meet();
        }
    });
    let mut operations: HashMap<usize, Vec<Operation>> = HashMap::new();
    for operation in done.into_inner().unwrap() {
        operations.entry(operation.word).or_default().push(operation);
    }
    operations.into_values().for_each(check);
}

#[test]
fn what_is_done_to_a_word_is_done_at_one_moment() {
    let (cases, steps) = if job::is_full() { (60, 1000) } else { (5, 150) };
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(seed in any::<u64>(), ranks in 2usize..=7)| execute(seed, ranks, steps));
}

/// What once was read from a page that was on its way home.
#[test]
fn two_ranks_that_refresh_find_nothing_old() {
    execute(9_594_187_084_015_366_126, 2, 600);
}

#[test]
fn the_oracle_finds_what_is_wrong() {
    let operation = |begun, ended, found, left| Operation { word: 0, begun, ended, found, left };
    check(vec![operation(0, 3, 0, Some(7)), operation(1, 2, 0, None), operation(4, 5, 7, None)]);
    for wrong in [
        vec![operation(0, 1, 0, Some(7)), operation(2, 3, 0, None)],
        vec![operation(0, 1, 0, Some(7)), operation(2, 3, 0, Some(8))],
        vec![operation(0, 9, 0, Some(7)), operation(1, 2, 7, None), operation(3, 4, 0, None)],
        vec![operation(0, 1, 5, None)],
    ] {
        assert!(std::panic::catch_unwind(|| check(wrong)).is_err());
    }
}
