//! More than the limit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;

#[test]
fn no_store_is_lost_while_pages_are_evicted_synced_and_refreshed() {
    const THREADS: u64 = 16;
    const PAGES: u64 = 1024;
    let full = job::is_full();
    let time = Duration::from_secs(if full { 300 } else { 3 });
    let (_directory, stores) = job::stores(4);
    on_nodes(&stores, |process| {
        let options =
            OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::new(1 << 20).unwrap()));
        let file = open(process, &options);
        let rank = u64::from(process.rank());
        // Each node is home of a quarter.
        file.write_at(FileOffset(rank * PAGES / 4 * PAGE), &vec![0; (PAGES / 4 * PAGE) as usize]).unwrap();
        process.sync(&file).unwrap();
        // Two ranks store, each with threads of its own, into words of its own in all pages.
        if rank < 2 {
            let options = MappingOptions::new().limit(1 << 20).handlers(4);
            let mapping = &map(&file, PAGES * PAGE, &options);
            let (is_over, stores) = (&AtomicBool::new(false), &AtomicU64::new(0));
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        scope.spawn(move || {
                            // What this thread has stored last into its word of each page.
                            let mut last = vec![0u64; PAGES as usize];
                            let mut random = fastrand(thread + 1);
                            while !is_over.load(Ordering::Relaxed) {
                                let page = random() % PAGES;
                                let at = page * PAGE + (rank * THREADS + thread) * 8;
                                // SAFETY: it lies in the mapping, and no other thread uses this word.
                                let word = unsafe { mapping.as_mut_ptr().add(at as usize).cast::<u64>() };
                                // SAFETY: as above.
                                let found = unsafe { word.read_volatile() };
                                assert_eq!(found, last[page as usize], "page {page} of thread {thread}");
                                if !random().is_multiple_of(3) {
                                    last[page as usize] += 1;
                                    // SAFETY: as above.
                                    unsafe { word.write_volatile(found + 1) };
                                    stores.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                            last
                        })
                    })
                    .collect();
                let end = Instant::now() + time;
                let mut random = fastrand(99);
                // A busy machine may take longer until there was something to lose.
                let is_enough =
                    || stores.load(Ordering::Relaxed) > 1000 && mapping.statistics().evicted > 100;
                while Instant::now() < end || !is_enough() {
                    let first = random() % PAGES;
                    let range =
                        FileOffset(first * PAGE)..FileOffset((first + 1 + random() % (PAGES - first)) * PAGE);
                    match random() % 4 {
                        0 => mapping.sync(range).unwrap(),
                        1 => mapping.refresh().unwrap(),
                        2 => mapping.advise(range, svmio_svm::mapping::Advice::DoNotNeed).unwrap(),
                        _ => mapping.fetch(range).unwrap().wait().unwrap(),
                    }
                }
                is_over.store(true, Ordering::Relaxed);
                let last: Vec<Vec<u64>> =
                    threads.into_iter().map(|thread| thread.join().expect("no thread failed")).collect();
                mapping.sync(all(PAGES * PAGE)).unwrap();
                let mut page = vec![0; PAGE as usize];
                file.refresh().unwrap();
                for number in 0..PAGES {
                    file.read_at(FileOffset(number * PAGE), &mut page).unwrap();
                    for (thread, last) in (0..THREADS as usize).zip(&last) {
                        let at = (rank * THREADS) as usize * 8 + thread * 8;
                        let word = u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
                        assert_eq!(word, last[number as usize], "page {number}, thread {thread}");
                    }
                }
            });
        }
        process.meet();
    });
}

/// Numbers that look like chance.
fn fastrand(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
    }
}
