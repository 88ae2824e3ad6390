//! Strict mappings beside other faces of the file, with little memory, and where something is lost.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use svmio_svm::mapping::StrictMapping;
use svmio_transport::Rank;

use super::*;

fn map_strictly(file: &Arc<File>, bytes: u64) -> StrictMapping {
    StrictMapping::new(file, all(bytes)).expect("the file can be mapped")
}

fn load(mapping: &StrictMapping, at: u64) -> u8 {
    assert!(at < mapping.len() as u64);
    // SAFETY: it lies in the mapping.
    unsafe { mapping.as_ptr().add(at as usize).read_volatile() }
}

fn store(mapping: &StrictMapping, at: u64, byte: u8) {
    assert!(at < mapping.len() as u64);
    // SAFETY: it lies in the mapping.
    unsafe { mapping.as_mut_ptr().add(at as usize).write_volatile(byte) }
}

#[test]
fn the_file_s_other_faces_agree_when_they_are_told_to() {
    const BYTES: u64 = 4 * SEGMENT;
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let (file, rank) = (open(process, &small_segments()), u64::from(process.rank()));
        file.write_at(FileOffset(rank * 2 * SEGMENT), &vec![7; 2 * SEGMENT as usize]).unwrap();
        process.sync(&file).unwrap();
        let mapping = map_strictly(&file, BYTES);
        let own = |at: &u64| at / 100 % 2 == rank;
        (0..BYTES).filter(own).for_each(|at| store(&mapping, at, 8 + rank as u8));
        process.meet();
        assert!((0..BYTES).all(|at| load(&mapping, at) == 8 + (at / 100 % 2) as u8));
        process.meet();
        // Both come back to both.
        mapping.flush().unwrap();
        process.meet();
        file.refresh().unwrap();
        let mut bytes = vec![0; BYTES as usize];
        file.read_at(FileOffset(0), &mut bytes).unwrap();
        assert!((0..BYTES).all(|at| bytes[at as usize] == 8 + (at / 100 % 2) as u8));
        process.meet();
        // Bytes of one page, by different faces; and into mapped memory by the kernel and the file.
        if rank == 0 {
            file.write_at(FileOffset(SEGMENT + 5), &[99; 50]).unwrap();
            file.flush().unwrap();
        } else {
            store(&mapping, SEGMENT, 98);
            // SAFETY: it lies in the mapping, where nobody else stores.
            let read = unsafe {
                file.read_into(FileOffset(0), mapping.as_mut_ptr().add(3 * SEGMENT as usize + 7), 5000)
            };
            assert_eq!(read.unwrap(), 5000);
        }
        process.meet();
        mapping.refresh().unwrap();
        process.meet();
        assert_eq!([load(&mapping, SEGMENT), load(&mapping, SEGMENT + 5)], [98, 99]);
        assert!((0..5000).all(|at| load(&mapping, 3 * SEGMENT + 7 + at) == load(&mapping, at)));
        process.meet();
        mapping.sync().unwrap();
        mapping.unmap().unwrap();
        process.meet();
    });
}

#[test]
fn processes_of_one_node_share_what_is_mapped_in_place() {
    let (_directory, stores) = job::stores(1);
    let name = FileName::new("f").unwrap();
    let file = Arc::new(stores[0].open_file(&name, &small_segments()).unwrap());
    let other = Arc::new(stores[0].open_file(&name, &small_segments()).unwrap());
    let (one, two) = (map_strictly(&file, 3 * SEGMENT), map_strictly(&other, 3 * SEGMENT));
    for at in [5, 2 * SEGMENT, SEGMENT + 1] {
        assert_eq!(load(&two, at), 0);
        store(&one, at, 7);
        assert_eq!(load(&two, at), 7);
    }
    assert_eq!(one.statistics().fetched, 0);
    one.sync().unwrap();
    let mut byte = [0];
    file.read_at(FileOffset(5), &mut byte).unwrap();
    assert_eq!(byte, [7]);
}

#[test]
fn what_does_not_fit_goes_home_and_comes_again() {
    const BYTES: u64 = 64 * SEGMENT;
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let (file, rank) = (open(process, &small_segments()), u64::from(process.rank()));
        let options = MappingOptions::new().limit(1 << 20).handlers(2);
        let mapping = options.map_strictly(&file, all(BYTES)).unwrap();
        for turn in 1..=2 {
            for at in (rank * 64..BYTES).step_by(PAGE as usize) {
                store(&mapping, at, turn + at as u8 / 2);
                assert!(mapping.statistics().memory <= 1 << 20, "{:?}", mapping.statistics());
            }
            process.meet();
            for at in (0..BYTES).step_by(PAGE as usize).flat_map(|page| [page, page + 64]) {
                assert_eq!(load(&mapping, at), turn + at as u8 / 2, "at {at}");
            }
            process.meet();
        }
        assert!(mapping.statistics().evicted > BYTES / PAGE, "{:?}", mapping.statistics());
    });
}

#[test]
fn rows_of_loads_are_fetched_ahead_as_far_as_nobody_else_s() {
    // Where the thread that fetches ahead is slow to run, pages are waited for; not each time.
    assert!((0..super::ahead::TRIES).any(|_| loads_are_fetched_ahead()));
}

/// Whether most of them were; all find what they must.
fn loads_are_fetched_ahead() -> bool {
    const SEGMENTS: u64 = 32;
    const PAGES: u64 = SEGMENTS * SEGMENT / PAGE;
    let is_ahead = AtomicBool::new(false);
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = open(process, &small_segments());
        if process.rank() == 1 {
            let bytes: Vec<u8> = (0..PAGES * PAGE).map(|at| (at / PAGE) as u8).collect();
            file.write_at(FileOffset(0), &bytes).unwrap();
        }
        process.sync(&file).unwrap();
        let mapping = map_strictly(&file, PAGES * PAGE);
        // Every 50th page is another's.
        let is_stored = |page: u64| page % 50 == 49;
        for turn in 0..3 {
            if process.rank() == 1 {
                for page in (0..PAGES).filter(|page| is_stored(*page)) {
                    store(&mapping, page * PAGE, page as u8 ^ 0x55 ^ turn);
                }
            }
            process.meet();
            if process.rank() == 0 {
                for page in 0..PAGES {
                    let expected = if is_stored(page) { page as u8 ^ 0x55 ^ turn } else { page as u8 };
                    assert_eq!(load(&mapping, page * PAGE), expected, "page {page}, turn {turn}");
                }
                let statistics = mapping.statistics();
                if turn == 0 {
                    let waited_for = PAGES / 50 + PAGES / 8;
                    let is_waited_for = statistics.fetched >= waited_for;
                    is_ahead.store(statistics.fetched_ahead > PAGES - waited_for && !is_waited_for, Relaxed);
                }
            }
            process.meet();
        }
        // What was fetched ahead is as old as what was not.
        if process.rank() == 1 {
            file.write_at(FileOffset(0), &vec![200; (PAGES * PAGE) as usize]).unwrap();
            file.flush().unwrap();
        }
        process.meet();
        mapping.refresh().unwrap();
        process.meet();
        if process.rank() == 0 {
            assert!((0..PAGES).all(|page| load(&mapping, page * PAGE + 9) == 200));
        }
        process.meet();
    });
    is_ahead.into_inner()
}

/// Has others end when it is dropped, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn what_was_asked_for_before_a_refresh_is_no_older_than_it() {
    const BYTES: u64 = SEGMENT;
    let rounds = if job::is_full() { 1000 } else { 100 };
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = filled_by_the_second(process);
        let mapping = &map_strictly(&file, BYTES);
        let is_over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _over = Over(is_over);
            if process.rank() == 0 {
                // It has pages asked for all the while.
                scope.spawn(move || {
                    while !is_over.load(Relaxed) {
                        (0..BYTES / PAGE).for_each(|page| _ = load(mapping, page * PAGE));
                    }
                });
            }
            for round in 0..rounds {
                process.meet();
                let now = round as u8;
                if process.rank() == 1 {
                    file.write_at(FileOffset(0), &[now; BYTES as usize]).unwrap();
                    file.flush().unwrap();
                    process.meet();
                } else {
                    process.meet();
                    mapping.refresh().unwrap();
                    let old = (0..BYTES / PAGE).find(|page| load(mapping, page * PAGE) != now);
                    assert_eq!(old, None, "round {round}");
                }
            }
        });
        process.meet();
    });
}

#[test]
fn a_page_that_others_begin_to_store_into_is_no_older_than_a_refresh_either() {
    const BYTES: u64 = SEGMENT;
    let rounds = if job::is_full() { 1000 } else { 100 };
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = filled_by_the_second(process);
        let mapping = &map_strictly(&file, BYTES);
        let is_over = &AtomicBool::new(false);
        let mut old = Vec::new();
        std::thread::scope(|scope| {
            let _over = Over(is_over);
            if process.rank() == 0 {
                // It makes copies for loads ones that may be stored into, all the while.
                for place in 1..3 {
                    scope.spawn(move || {
                        while !is_over.load(Relaxed) {
                            (0..BYTES / PAGE).for_each(|page| {
                                let at = page * PAGE + place;
                                store(mapping, at, load(mapping, at).wrapping_add(1));
                            });
                        }
                    });
                }
            }
            for round in 0..rounds {
                process.meet();
                let now = round as u8;
                if process.rank() == 1 {
                    let write = |page| file.write_at(FileOffset(page * PAGE), &[now]).map(|_| ());
                    (0..BYTES / PAGE).try_for_each(write).unwrap();
                    file.flush().unwrap();
                    process.meet();
                } else {
                    process.meet();
                    mapping.refresh().unwrap();
                    let is_old = |page: &u64| load(mapping, page * PAGE) != now;
                    old.extend((0..BYTES / PAGE).filter(is_old).map(|page| (round, page)));
                }
            }
        });
        // The others do not end before they are told to.
        assert_eq!(old, [], "rounds and pages");
        process.meet();
    });
}

#[test]
fn a_lost_process_takes_what_it_stored_and_each_is_told_once() {
    let (_directory, stores) = job::stores(3);
    on_nodes(&stores, |process| {
        let file = open(process, &small_segments());
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[5; SEGMENT as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        let told: Arc<Mutex<Vec<(u64, String)>>> = Arc::default();
        let tell = Arc::clone(&told);
        let options = MappingOptions::new().on_loss(move |lost| {
            tell.lock().unwrap().push((lost.range.start.0, lost.error.to_string()));
        });
        let mapping = options.map_strictly(&file, all(SEGMENT)).unwrap();
        if process.rank() == 2 {
            store(&mapping, PAGE, 6);
            assert_eq!(load(&mapping, 3 * PAGE), 5);
        }
        process.meet();
        if process.rank() == 0 {
            process.job.declare_lost(Rank(2), "the test says so");
        }
        process.meet();
        if process.rank() == 1 {
            let begun = Instant::now();
            let reads =
                |at: u64| super::failures::kernel_reads(mapping.as_ptr().wrapping_add(at as usize), 8);
            assert!(reads(3 * PAGE), "a copy for loads is no loss");
            store(&mapping, 3 * PAGE, 9);
            assert!(!reads(PAGE) && !reads(PAGE + 8));
            let lost = told.lock().unwrap().clone();
            assert!(lost.len() == 1 && lost[0].0 == PAGE && lost[0].1.contains("rank 2"), "{lost:?}");
            mapping.refresh().unwrap();
            assert_eq!([load(&mapping, PAGE), load(&mapping, 3 * PAGE)], [5, 9], "what came home last");
            store(&mapping, PAGE, 7);
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
        process.meet();
        // Nobody attends to the lost one's mapping any more.
        if process.rank() == 2 {
            std::mem::forget(mapping);
        } else {
            drop(mapping);
        }
        process.meet();
    });
}

#[test]
fn where_a_home_is_lost_what_is_here_stays_and_the_rest_is_told() {
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = filled_by_the_second(process);
        if process.rank() == 0 {
            let told: Arc<Mutex<Vec<u64>>> = Arc::default();
            let tell = Arc::clone(&told);
            let options =
                MappingOptions::new().on_loss(move |lost| tell.lock().unwrap().push(lost.range.start.0));
            let mapping = options.map_strictly(&file, all(SEGMENT)).unwrap();
            store(&mapping, 3, 6);
            process.job.memberships[0].declare_lost(Rank(1), "the test says so");
            let begun = Instant::now();
            store(&mapping, 4, 7);
            assert_eq!([3, 4, 5].map(|at| load(&mapping, at)), [6, 7, 5]);
            let at = mapping.as_ptr().wrapping_add(7 * PAGE as usize);
            assert!(!super::failures::kernel_reads(at, 8));
            assert_eq!(*told.lock().unwrap(), [7 * PAGE]);
            assert!(mapping.flush().unwrap_err().to_string().contains("n1"));
            let _ = mapping.unmap().unwrap_err();
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
    });
}

#[test]
fn the_last_of_all_goes_on_with_what_is_at_its_own_home() {
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = open(process, &small_segments());
        file.write_at(FileOffset(u64::from(process.rank()) * SEGMENT), &[5; SEGMENT as usize]).unwrap();
        process.sync(&file).unwrap();
        if process.rank() == 0 {
            let mapping = map_strictly(&file, 2 * SEGMENT);
            store(&mapping, 3, 6);
            process.job.memberships[0].declare_lost(Rank(1), "the test says so");
            // The home is told by messages what is wanted, also this process's own.
            (1..SEGMENT / PAGE).for_each(|page| store(&mapping, page * PAGE, 7));
            assert_eq!([3, 4, PAGE, PAGE + 1].map(|at| load(&mapping, at)), [6, 5, 7, 5]);
            mapping.unmap().unwrap();
            assert_eq!(file.read_at(FileOffset(0), &mut [0; 8]).unwrap(), 8);
        }
    });
}

#[test]
fn a_mapping_that_outlives_its_file_s_openness_ends() {
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = open(process, &small_segments());
        let mapping = map_strictly(&file, 2 * SEGMENT);
        store(&mapping, u64::from(process.rank()) * SEGMENT, 1);
        process.meet();
        assert_eq!(load(&mapping, SEGMENT), 1);
        mapping.flush().unwrap();
        process.meet();
        process.team.close(&file, false).unwrap();
        process.meet();
        drop(mapping);
        process.meet();
    });
}
