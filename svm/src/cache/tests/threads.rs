//! Threads with handles of their own, all at once: each writes bytes of its own into pages that all share.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;
use proptest::prelude::*;

const THREADS: u8 = 3;
const PAGES: u64 = 5;
/// Bytes that belong to one thread: not a multiple of what the bits are kept in.
const STRIPE: u32 = 100;

type Homes = Mutex<HashMap<PageKey, Vec<u8>>>;

fn flush(cache: &PageCache, homes: &Homes, key: &PageKey) {
    match cache.begin_flush(key).unwrap() {
        FlushState::Clean => {}
        FlushState::Elsewhere(seen) => cache.wait_for_change(seen).unwrap(),
        FlushState::Begun(flush) => {
            let mut from = 0;
            for (start, length) in &flush.runs {
                let to = from + *length as usize;
                let mut homes = homes.lock().unwrap();
                homes.get_mut(key).unwrap()[indices(&(*start..start + length))]
                    .copy_from_slice(&flush.bytes[from..to]);
                from = to;
            }
            cache.finish_flush(flush).unwrap();
        }
    }
}

fn write(cache: &PageCache, homes: &Homes, key: &PageKey, at: u32, bytes: &[u8]) {
    loop {
        match cache.write_from(key, at, bytes) {
            WriteOutcome::Cached => return,
            WriteOutcome::Crowded(victim) => flush(cache, homes, &victim),
            WriteOutcome::Busy(seen) => cache.wait_for_change(seen).unwrap(),
            WriteOutcome::NoRoom => panic!("nothing is quarantined"),
        }
    }
}

fn overwrite(cache: &PageCache, homes: &Homes, key: &PageKey, at: u32, bytes: &[u8]) {
    let done = |put: &dyn Fn() -> Overwrite| loop {
        match put() {
            Overwrite::Done(version) => return version,
            Overwrite::Busy(seen) => cache.wait_for_change(seen).unwrap(),
        }
    };
    let announced = done(&|| cache.announce_from(key, at, bytes));
    let end = at + bytes.len() as u32;
    homes.lock().unwrap().get_mut(key).unwrap()[indices(&(at..end))].copy_from_slice(bytes);
    done(&|| cache.overwrite_from(key, at, bytes, announced));
}

fn read(cache: &PageCache, homes: &Homes, key: &PageKey, at: u32, to: &mut [u8]) {
    loop {
        match cache.read_into(key, at, to) {
            ReadOutcome::Copied => return,
            ReadOutcome::Coming(seen) => cache.wait_for_change(seen).unwrap(),
            ReadOutcome::Missing => match cache.begin_fetch(key).unwrap() {
                Fetch::Present => {}
                Fetch::Coming(seen) | Fetch::Busy(seen) => cache.wait_for_change(seen).unwrap(),
                Fetch::Crowded(victim) => flush(cache, homes, &victim),
                Fetch::NoRoom => panic!("nothing is quarantined"),
                Fetch::Begun(ticket) => {
                    let page = homes.lock().unwrap()[key].clone();
                    cache.deliver(&ticket, &page);
                    let within = at..at + to.len() as u32;
                    // SAFETY: the slice has as many bytes as are asked for.
                    let fetched = unsafe { cache.finish_fetch_into(ticket, 0, within, to.as_mut_ptr()) };
                    if fetched.unwrap() == Fetched::Kept {
                        return;
                    }
                }
            },
        }
    }
}

/// Writes and reads, of stripes that only this thread writes, and checks each read.
fn work(cache: &PageCache, homes: &Homes, own: u8, steps: &[(u64, u32, u8, u8)]) -> HashMap<(u64, u32), u8> {
    let mut written = HashMap::new();
    for (page, stripe, value, what) in steps {
        let at = (stripe * u32::from(THREADS) + u32::from(own)) * STRIPE;
        let key = key(0, *page);
        match what {
            0..=3 => {
                write(cache, homes, &key, at, &[*value; STRIPE as usize]);
                written.insert((*page, at), *value);
            }
            4 => {
                overwrite(cache, homes, &key, at, &[*value; STRIPE as usize]);
                written.insert((*page, at), *value);
            }
            5 => flush(cache, homes, &key),
            6 => cache.retain(key.file, &all_pages(), |page, _| page.0 % 2 == u64::from(value % 2)).unwrap(),
            _ => {
                let mut bytes = [0xff; STRIPE as usize];
                read(cache, homes, &key, at, &mut bytes);
                let expected = written.get(&(*page, at)).copied().unwrap_or(0);
                assert_eq!(bytes, [expected; STRIPE as usize], "page {page}, byte {at}, thread {own}");
            }
        }
    }
    written
}

#[test]
fn every_thread_reads_what_it_wrote_and_all_of_it_gets_home() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config { cases: 24, ..Config::default() }, rng);
    let stripes = PAGE / STRIPE / u32::from(THREADS);
    let steps = prop::collection::vec((0..PAGES, 0..stripes, any::<u8>(), 0..12u8), 400);
    let all = (prop_oneof![Just(1u64), Just(2), Just(3), Just(20)], [steps.clone(), steps.clone(), steps]);
    let outcome = runner.run(&all, |(capacity, steps)| {
        let cache = cache_of(capacity);
        let homes: Homes =
            Mutex::new((0..PAGES).map(|page| (key(0, page), vec![0; PAGE as usize])).collect());
        let written: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .zip(&steps)
                .map(|(own, steps)| {
                    let (cache, homes) = (open_again(&cache), &homes);
                    scope.spawn(move || work(&cache, homes, own, steps))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for page in cache.dirty_pages(key(0, 0).file).unwrap() {
            flush(&cache, &homes, &key(0, page.0));
        }
        prop_assert_eq!(cache.all_dirty().unwrap(), []);
        cache.assert_in_order();
        let mut expected = vec![vec![0; PAGE as usize]; PAGES as usize];
        for ((page, at), value) in written.into_iter().flatten() {
            expected[page as usize][indices(&(at..at + STRIPE))].fill(value);
        }
        let homes = homes.lock().unwrap();
        for page in 0..PAGES {
            prop_assert!(homes[&key(0, page)] == expected[page as usize], "page {}", page);
        }
        Ok(())
    });
    outcome.unwrap();
}
