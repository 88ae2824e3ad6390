//! Entry consistency: values bound to locks.

use std::sync::Mutex;

use proptest::prelude::*;
use svmio_svm::mapping::{Bound, Region};

use super::*;

fn requests(process: &Process<'_>) -> u64 {
    process.cluster.statistics().requests.values().sum()
}

/// What is bound in the random programs: some of it in one page, some over pages and segments.
const OBJECTS: [(u64, usize); 7] = [
    (0, 1),
    (8, 3),
    (33, 40),
    (400, 1000),
    (SEGMENT - 20, 5),
    (SEGMENT + 100, 700),
    (3 * SEGMENT - 8, 20_000),
];

/// Random programs, against what all guards together have done so far: who has a guard looks into it.
fn execute(seed: u64, ranks: usize) {
    let (_directory, stores) = job::stores(4);
    let oracle: Vec<Mutex<Vec<u64>>> = OBJECTS.iter().map(|(_, count)| Mutex::new(vec![0; *count])).collect();
    job::run((0..ranks).map(|rank| &stores[rank % 4]), &cache(), |process| {
        let file = open(process, &small_segments());
        let bound: Vec<Bound<u64>> = OBJECTS
            .iter()
            .map(|(start, count)| Bound::new(&file, FileOffset(*start), *count).unwrap())
            .collect();
        // One rank has its favourites: its node keeps their locks.
        let mut chance = seed ^ u64::from(process.rank()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |end: usize| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) as usize % end
        };
        for _ in 0..120 {
            let which =
                if below(3) == 0 { process.rank() as usize % OBJECTS.len() } else { below(OBJECTS.len()) };
            if below(3) == 0 {
                let values = bound[which].shared().unwrap();
                assert_eq!(*values, **oracle[which].lock().unwrap(), "object {which}");
                values.release().unwrap();
            } else {
                let mut values = bound[which].exclusive().unwrap();
                let mut expected = oracle[which].lock().unwrap();
                assert_eq!(*values, **expected, "object {which}");
                for _ in 0..below(6) {
                    let at = below(values.len());
                    values[at] = below(300) as u64;
                }
                expected.copy_from_slice(&values);
                drop(expected);
                if below(2) == 0 {
                    values.release().unwrap();
                }
            }
        }
        process.meet();
        for (bound, oracle) in bound.iter().zip(&oracle) {
            assert_eq!(*bound.shared().unwrap(), **oracle.lock().unwrap());
        }
        process.meet();
    });
}

#[test]
fn whoever_has_a_guard_finds_what_the_guards_before_it_left() {
    let cases = if job::is_full() { 300 } else { 6 };
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(seed in any::<u64>(), ranks in 1usize..=8)| execute(seed, ranks));
}

#[test]
fn only_what_is_bound_comes_and_goes() {
    const TURNS: u64 = 20;
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        // What is compared is counted in requests: a page that is read without one would not be.
        process.cluster.force_native_reads(Some(false));
        let file = open(process, &small_segments());
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[1; SEGMENT as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        let mapping = Arc::new(map(&file, SEGMENT, &MappingOptions::new()));
        let bound = Bound::<u64>::new(&file, FileOffset(80), 4).unwrap();
        // SAFETY: these bytes are accessed in no other way.
        let region = unsafe { Region::<u64>::new(&mapping, FileOffset(2 * PAGE), 4) }.unwrap();
        if process.rank() == 1 {
            // Beside what is bound: nobody is to see it before a flush.
            store(&mapping, 79, 9);
            store(&mapping, 80 + 32, 9);
        }
        process.meet();
        // By turns, so that no lock is kept: every guard fetches, every release sends.
        let mut spent = [0; 2];
        for turn in 0..2 * TURNS {
            if turn % 2 == u64::from(process.rank()) {
                let before = requests(process);
                let mut values = bound.exclusive().unwrap();
                assert_eq!(values[3], if turn == 0 { 0x0101_0101_0101_0101 } else { turn });
                values[3] = turn + 1;
                values.release().unwrap();
                let entry = requests(process);
                let mut values = region.write(0..4).unwrap();
                values[3] = turn + 1;
                values.release().unwrap();
                spent = [spent[0] + entry - before, spent[1] + requests(process) - entry];
            }
            process.meet();
        }
        if process.rank() == 1 {
            assert!(
                spent[0] <= 6 * TURNS && spent[0] <= spent[1],
                "requests by entry, by release: {spent:?}"
            );
            // The node keeps the lock in the end, though that was of no use before.
            for _ in 0..70 {
                bound.exclusive().unwrap().release().unwrap();
            }
            let before = requests(process);
            for turn in 0..100 {
                let mut values = bound.exclusive().unwrap();
                values[0] = turn;
                values.release().unwrap();
            }
            assert_eq!(requests(process), before, "nobody else wants it");
        } else {
            let mut bytes = [0; 34];
            file.read_at(FileOffset(79), &mut bytes).unwrap();
            assert_eq!([bytes[0], bytes[33]], [1, 1], "what is beside it did not come along");
        }
        process.meet();
        if process.rank() == 0 {
            assert_eq!(bound.shared().unwrap()[0], 99);
        }
        process.meet();
        mapping.flush().unwrap();
        process.meet();
    });
}

#[test]
fn what_cannot_be_bound_is_told() {
    let (_directory, stores) = job::stores(1);
    let name = FileName::new("f").unwrap();
    let file = Arc::new(stores[0].open_file(&name, &small_segments()).unwrap());
    for (start, count) in [(u64::MAX - 4, 1), (0, usize::MAX), (u64::MAX / 2, 4)] {
        let error = Bound::<u64>::new(&file, FileOffset(start), count).unwrap_err();
        assert!(matches!(error, svmio_svm::Error::TooLarge { .. }), "{error}");
    }
    let bound = Bound::<u32>::new(&file, FileOffset(3), 5).unwrap();
    assert_eq!(*bound.shared().unwrap(), [0; 5], "behind the end of the file");
    assert_eq!(file.size(), 0);
    bound.exclusive().unwrap()[4] = 1;
    assert_eq!(file.size(), 20, "three bytes, four values, and one byte of the fifth that was changed");
    let guard = bound.shared().unwrap();
    let error = bound.exclusive().err().unwrap().to_string();
    assert!(error.contains("would never end"), "{error}");
    drop(guard);
    let reading = Arc::new(stores[0].open_file(&name, &OpenOptions::reading()).unwrap());
    let error = Bound::<u8>::new(&reading, FileOffset(0), 1).unwrap_err();
    assert!(matches!(error, svmio_svm::Error::NotOpenedFor { what: "writing", .. }), "{error}");
}
