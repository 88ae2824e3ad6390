//! What threads that serve faults do when there are none.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;

const PAGES: u64 = 1024;
const THREADS: u64 = 16;

/// Processor time that threads of this process have taken which serve faults.
fn time_of_handlers() -> Duration {
    let ticks = |thread: &std::path::Path| -> Option<u64> {
        let status = std::fs::read_to_string(thread.join("stat")).ok()?;
        let (name, rest) = status.rsplit_once(") ")?;
        let times = rest.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number"));
        name.ends_with("svmio-faults").then(|| times.sum())
    };
    let threads = std::fs::read_dir("/proc/self/task").expect("/proc is there");
    let ticks: u64 = threads.filter_map(|thread| ticks(&thread.expect("it is listed").path())).sum();
    Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32
}

/// Many threads load and store anywhere in a mapping, and pages come and go, again and again, for five minutes where
/// there is time; then nobody does anything. What is unmapped leaves nothing.
pub(super) fn threads_that_serve_faults_rest_when_nobody_waits() {
    let full = job::is_full();
    let turns = if full { 60 } else { 2 };
    let busy = Duration::from_secs(if full { 5 } else { 1 });
    let (_directory, stores) = job::stores(3);
    job::run(&stores, &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write()
            .create(true)
            .segment_size(Some(SegmentSize::new(1 << 20).expect("it is a size")));
        let file = Arc::new(process.open(&FileName::new("f").unwrap(), &options).unwrap());
        let rank = u64::from(process.rank());
        if rank > 0 {
            let half = PAGES * PAGE / 2;
            file.write_at(FileOffset((rank - 1) * half), &vec![0; half as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        if rank == 0 {
            // What each thread has stored last into its word of each page.
            let mut last = vec![vec![0u64; PAGES as usize]; THREADS as usize];
            let mut first = None;
            for turn in 0..turns {
                let handlers = [8, 2, 1][turn as usize % 3];
                let options = MappingOptions::new().limit(1 << 20).handlers(handlers);
                let mapping = options.map(&file, all(PAGES * PAGE)).unwrap();
                touch_anywhere(&mapping, turn, busy, &mut last);
                // The test's only clock: a thread that does not sleep takes much of it, also of a busy machine.
                let before = time_of_handlers();
                std::thread::sleep(Duration::from_secs(1));
                let taken = time_of_handlers() - before;
                assert!(taken < Duration::from_millis(200), "{taken:?} with {handlers} threads");
                drop(mapping);
                // Each thread's allocator may keep some. The kernel lists a thread for a moment after it was joined.
                let now = Taken::at_rest();
                if turn >= turns / 10 {
                    now.assert_no_more_than(*first.get_or_insert(now), THREADS << 20);
                }
            }
        }
        process.meet();
    });
}

/// Does so for a while; at the end all that was stored is there.
fn touch_anywhere(mapping: &Mapping, turn: u64, busy: Duration, last: &mut [Vec<u64>]) {
    let (is_over, touched) = (&AtomicBool::new(false), &AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (thread, last) in (0..THREADS).zip(&mut *last) {
            scope.spawn(move || {
                let mut random = numbers(turn * THREADS + thread + 1);
                while !is_over.load(Ordering::Relaxed) {
                    let page = random() % PAGES;
                    let at = mapping.as_mut_ptr().wrapping_add((page * PAGE + thread * 8) as usize);
                    let word = at.cast::<u64>();
                    // SAFETY: it lies in the mapping, and no other thread uses this word.
                    let found = unsafe { word.read_volatile() };
                    assert_eq!(found, last[page as usize], "page {page} of thread {thread}");
                    if random().is_multiple_of(2) {
                        last[page as usize] += 1;
                        // SAFETY: as above.
                        unsafe { word.write_volatile(found + 1) };
                    }
                    touched.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let end = Instant::now() + busy;
        while Instant::now() < end || touched.load(Ordering::Relaxed) < 1000 {
            mapping.sync(all(PAGES * PAGE)).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    mapping.sync(all(PAGES * PAGE)).unwrap();
}

/// Numbers that look like chance.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
    }
}
