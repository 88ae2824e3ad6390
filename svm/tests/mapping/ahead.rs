//! Pages that come before they are touched.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use svmio_svm::mapping::Advice;

use super::*;

const PAGES: u64 = 2048;

/// How often a busy machine may keep a thread from fetching ahead.
pub(super) const TRIES: usize = 20;

/// A file on another node; the mapping of rank 0.
fn with_a_remote_file(options: &MappingOptions, body: impl Fn(&Mapping) + Sync) {
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let size = Some(SegmentSize::new(1 << 20).unwrap());
        let file = open(process, &OpenOptions::read_write().create(true).segment_size(size));
        if process.rank() == 1 {
            let bytes: Vec<u8> = (0..PAGES * PAGE).map(byte_at).collect();
            file.write_at(FileOffset(0), &bytes).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 0 {
            body(&map(&file, PAGES * PAGE, options));
        }
        process.meet();
    });
}

fn byte_at(at: u64) -> u8 {
    (at / PAGE * 31 + at) as u8
}

/// Touches pages, and says how many of them were faults that had to be waited for.
fn touch(mapping: &Mapping, pages: impl IntoIterator<Item = u64>) -> (u64, u64) {
    let before = mapping.statistics();
    for page in pages {
        let at = page * PAGE + page % PAGE;
        assert_eq!(load(mapping, at), byte_at(at), "page {page}");
    }
    let after = mapping.statistics();
    (after.fetched - before.fetched, after.fetched_ahead - before.fetched_ahead)
}

#[test]
fn rows_of_pages_are_fetched_ahead_and_chance_is_not() {
    let rows: [(&str, Vec<u64>); 3] = [
        ("forwards", (0..PAGES).collect()),
        ("backwards", (0..PAGES).rev().collect()),
        ("every fifth", (0..PAGES).step_by(5).collect()),
    ];
    for (name, pages) in rows {
        let count = pages.len() as u64;
        // Where the thread that fetches ahead is slow to run, pages are waited for; not each time.
        let is_ahead = (0..TRIES).any(|_| {
            let touched = Mutex::new((0, 0));
            with_a_remote_file(&MappingOptions::new(), |mapping| {
                *touched.lock().unwrap() = touch(mapping, pages.iter().copied());
            });
            let (fetched, ahead) = touched.into_inner().unwrap();
            assert!(fetched + ahead >= count, "{name}: {fetched} and {ahead}");
            ahead > count / 2
        });
        assert!(is_ahead, "{name}");
    }
    with_a_remote_file(&MappingOptions::new(), |mapping| {
        let mut state = 1u64;
        let chance = (0..300).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % PAGES
        });
        // By chance some are neighbours.
        assert!(touch(mapping, chance).1 < 150, "{:?}", mapping.statistics());
    });
    with_a_remote_file(&MappingOptions::new().ahead(0), |mapping| {
        assert_eq!(touch(mapping, 0..PAGES / 4), (PAGES / 4, 0));
    });
}

#[test]
fn advice_is_followed() {
    with_a_remote_file(&MappingOptions::new(), |mapping| {
        let part = |pages: std::ops::Range<u64>| FileOffset(pages.start * PAGE)..FileOffset(pages.end * PAGE);
        mapping.advise(part(0..256), Advice::Random).unwrap();
        assert_eq!(touch(mapping, 0..256), (256, 0));
        mapping.fetch(part(256..512)).unwrap().wait().unwrap();
        let faults = mapping.statistics().faults;
        assert_eq!(touch(mapping, 256..512), (0, 0));
        assert_eq!(mapping.statistics().faults, faults, "they are in place");
        mapping.advise(part(0..512), Advice::DoNotNeed).unwrap();
        let memory = mapping.statistics().memory;
        assert!(memory < 4 * PAGE, "{memory} bytes");
        store(mapping, 9, 1);
        mapping.advise(part(0..1), Advice::DoNotNeed).unwrap();
        assert_eq!((load(mapping, 9), load(mapping, 8)), (1, byte_at(8)), "what was stored went home");
        mapping.advise(part(1024..1500), Advice::Sequential).unwrap();
        let before = mapping.statistics().fetched_ahead;
        assert_eq!(touch(mapping, [1024]).0, 1);
        // Each comes with nobody touching it, however long that takes on this machine.
        for page in 1025..1500 {
            let since = Instant::now();
            while mapping.statistics().fetched_ahead - before < page - 1024 {
                assert!(since.elapsed() < Duration::from_secs(60), "page {page} is not fetched ahead");
                std::thread::yield_now();
            }
            assert_eq!(touch(mapping, [page]).0, 0, "page {page}");
        }
    });
}

#[test]
fn stores_into_one_page_after_the_other_are_few_faults() {
    let few = 1..PAGES / 8;
    for (advice, is_forwards, expected) in [
        (Advice::Normal, true, few.clone()),
        (Advice::Normal, false, few),
        (Advice::Random, true, PAGES..PAGES + 1),
    ] {
        with_a_remote_file(&MappingOptions::new(), |mapping| {
            mapping.advise(all(PAGES * PAGE), advice).unwrap();
            mapping.fetch(all(PAGES * PAGE)).unwrap().wait().unwrap();
            let before = mapping.statistics().faults;
            let page = |turn| if is_forwards { turn } else { PAGES - 1 - turn };
            let places = || (0..PAGES).map(|turn| page(turn) * PAGE + page(turn) % PAGE);
            places().for_each(|at| store(mapping, at, !byte_at(at)));
            let faults = mapping.statistics().faults - before;
            assert!(expected.contains(&faults), "{advice:?}: {faults} faults");
            mapping.flush().unwrap();
            assert_eq!(mapping.statistics().merged_bytes, PAGES, "nothing else goes home");
            mapping.advise(all(PAGES * PAGE), Advice::DoNotNeed).unwrap();
            assert!(
                places()
                    .all(|at| load(mapping, at) == !byte_at(at) && load(mapping, at ^ 1) == byte_at(at ^ 1))
            );
        });
    }
}

#[test]
fn what_is_stored_into_in_a_row_keeps_to_the_limit_of_memory() {
    const LIMIT: u64 = 1 << 20;
    with_a_remote_file(&MappingOptions::new().limit(LIMIT), |mapping| {
        for turn in 1..=2u8 {
            for page in 0..PAGES {
                store(mapping, page * PAGE + 7, !byte_at(page * PAGE + 7) ^ turn);
                let memory = mapping.statistics().memory;
                assert!(memory <= LIMIT, "{memory} bytes after page {page}");
            }
        }
        mapping.advise(all(PAGES * PAGE), Advice::DoNotNeed).unwrap();
        for page in 0..PAGES {
            let at = page * PAGE + 7;
            assert_eq!((load(mapping, at), load(mapping, at + 1)), (!byte_at(at) ^ 2, byte_at(at + 1)));
        }
    });
}
