//! Many threads that wait for pages at the same time.

use std::sync::mpsc;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use svmio_svm::mapping::Advice;
use svmio_transport::Rank;

use super::failures::kernel_reads;
use super::*;

/// A file of which ranks 1 and 2 have a segment each, filled with their numbers.
fn of_two_homes(process: &Process<'_>) -> Arc<File> {
    let file = open(process, &small_segments());
    let rank = process.rank();
    if rank > 0 {
        let at = u64::from(rank - 1) * SEGMENT;
        file.write_at(FileOffset(at), &[rank as u8; SEGMENT as usize]).expect("it can be written");
    }
    process.sync(&file).expect("all sync");
    file
}

/// So many threads that serve faults; each that tells of a loss says so, and goes on when it may.
fn kept_by_losses(handlers: usize) -> (MappingOptions, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (told, is_told) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let may_go_on = Mutex::new(may_go_on);
    let options = MappingOptions::new().handlers(handlers).loss_limit(Duration::from_secs(300));
    let options = options.on_loss(move |_| {
        told.send(()).unwrap();
        may_go_on.lock().unwrap().recv().unwrap();
    });
    (options, is_told, go_on)
}

/// Whether a thread of this process sleeps in a page fault of its own, or of the kernel's in `system_call`: it may
/// sleep on its way there, too.
fn is_in_fault(thread: i32, system_call: Option<i64>) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).expect("/proc is there");
    let number = status.split_whitespace().next().and_then(|word| word.parse::<i64>().ok());
    // None runs; of no system call the number is -1.
    number == Some(system_call.unwrap_or(-1))
}

#[test]
fn pages_that_threads_have_come_to_wait_for_are_asked_for_by_one_message() {
    const THREADS: u64 = 8;
    let (_directory, stores) = job::stores(3);
    on_nodes(&stores, |process| {
        let file = of_two_homes(process);
        if process.rank() != 0 {
            return;
        }
        process.cluster.force_native_reads(Some(false));
        // The one thread that serves faults is kept busy.
        let (options, is_told, go_on) = kept_by_losses(1);
        let mapping = &map(&file, 2 * SEGMENT, &options);
        mapping.advise(all(2 * SEGMENT), Advice::Random).unwrap();
        process.job.memberships[0].declare_lost(Rank(2), "the test says so");
        std::thread::scope(|scope| {
            let lost = mapping.as_ptr().wrapping_add(SEGMENT as usize).expose_provenance();
            let lost = scope.spawn(move || kernel_reads(std::ptr::with_exposed_provenance(lost), 8));
            is_told.recv().unwrap();
            let (name, named) = mpsc::channel();
            let touch = |page: u64| {
                let name = name.clone();
                move || {
                    name.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                    load(mapping, page * PAGE + 8)
                }
            };
            let touching: Vec<_> = (0..THREADS).map(|page| scope.spawn(touch(page))).collect();
            let waiting: Vec<i32> = named.iter().take(THREADS as usize).collect();
            while !waiting.iter().all(|thread| is_in_fault(*thread, None)) {
                std::thread::yield_now();
            }
            let asked = || process.cluster.statistics().requests.get("read").copied().unwrap_or_default();
            let before = asked();
            go_on.send(()).unwrap();
            for thread in touching {
                assert_eq!(thread.join().unwrap(), 1);
            }
            assert!(!lost.join().unwrap());
            assert_eq!(asked() - before, 1);
        });
        assert_eq!(mapping.statistics().fetched, THREADS);
    });
}

#[test]
fn pages_of_memory_that_this_process_reads_come_without_a_question_and_are_as_new_as_asked_for() {
    let (_directory, stores) = job::stores(3);
    on_nodes(&stores, |process| {
        // In turn by either way, and as is measured.
        for (turn, way) in (10_u8..).zip([Some(true), Some(false), None, Some(true)]) {
            process.cluster.force_native_reads(way);
            let file = of_two_homes(process);
            let mapping = (process.rank() == 0).then(|| {
                let mapping = map(&file, 2 * SEGMENT, &MappingOptions::new());
                mapping.advise(all(2 * SEGMENT), Advice::Random).unwrap();
                mapping
            });
            for round in 0..2 {
                let value = turn * 2 + round;
                // In turn the home itself, and another node by the home's agent.
                let writer = if round == 0 { 1 } else { 2 };
                if process.rank() == writer {
                    file.write_at(FileOffset(PAGE), &[value; PAGE as usize]).unwrap();
                }
                process.sync(&file).unwrap();
                let Some(mapping) = &mapping else {
                    process.meet();
                    continue;
                };
                mapping.refresh().unwrap();
                let counts = || {
                    let statistics = process.cluster.statistics();
                    let asked = statistics.requests.get("read").copied().unwrap_or_default();
                    (asked, statistics.native_pages)
                };
                let before = counts();
                assert_eq!(load(mapping, PAGE + 8), value, "{way:?}");
                store(mapping, 3 * PAGE, value);
                assert_eq!(load(mapping, SEGMENT + PAGE), 2);
                let after = counts();
                let (asked, native) = (after.0 - before.0, after.1 - before.1);
                match way {
                    Some(true) => assert_eq!(asked, 0, "{native} were read"),
                    Some(false) => assert_eq!(native, 0, "{asked} were asked for"),
                    None => assert!(asked + native > 0),
                }
                mapping.flush().unwrap();
                // Only then somebody writes again.
                process.meet();
            }
        }
    });
}

#[test]
fn a_segment_is_opened_for_faults_once_it_was_asked_for_some_pages() {
    const BYTES: u64 = 1 << 20;
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let size = SegmentSize::new(BYTES).unwrap();
        let file = open(process, &OpenOptions::read_write().create(true).segment_size(Some(size)));
        if process.rank() == 1 {
            file.write_at(FileOffset(0), &[1; BYTES as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 0 {
            let mapping = map(&file, BYTES, &MappingOptions::new());
            mapping.advise(all(BYTES), Advice::Random).unwrap();
            (0..BYTES).step_by(PAGE as usize).for_each(|at| assert_eq!(load(&mapping, at), 1));
            let statistics = process.cluster.statistics();
            let asked = statistics.requests.get("read").copied().unwrap_or_default();
            let native = statistics.native_pages;
            assert!(asked > 0 && native > 0 && asked + native == BYTES / PAGE, "{asked} {native}");
        }
        process.meet();
    });
}

#[test]
fn a_page_comes_while_the_program_is_told_of_one_that_was_asked_for_with_it_and_is_lost() {
    const HANDLERS: u64 = 2;
    let (_directory, stores) = job::stores(3);
    on_nodes(&stores, |process| {
        let file = of_two_homes(process);
        if process.rank() != 0 {
            return;
        }
        let (options, is_told, go_on) = kept_by_losses(HANDLERS as usize);
        let mapping = &map(&file, 2 * SEGMENT, &options);
        mapping.advise(all(2 * SEGMENT), Advice::Random).unwrap();
        process.job.memberships[0].declare_lost(Rank(2), "the test says so");
        std::thread::scope(|scope| {
            let (name, named) = mpsc::channel();
            let touch = |page: u64| {
                let name = name.clone();
                scope.spawn(move || {
                    name.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                    kernel_reads(mapping.as_ptr().wrapping_add((page * PAGE) as usize), 8)
                })
            };
            let first_lost = SEGMENT / PAGE;
            // All threads that serve faults are kept busy, until two pages are waited for, one of each home.
            let mut lost: Vec<_> = (0..HANDLERS).map(|page| touch(first_lost + page)).collect();
            is_told.recv().unwrap();
            lost.push(touch(first_lost + HANDLERS));
            let there = touch(0);
            let waiting: Vec<i32> = named.iter().take(HANDLERS as usize + 2).collect();
            while !waiting.iter().all(|thread| is_in_fault(*thread, Some(libc::SYS_write))) {
                std::thread::yield_now();
            }
            go_on.send(()).unwrap();
            is_told.recv().unwrap();
            assert!(there.join().unwrap());
            (0..HANDLERS).for_each(|_| go_on.send(()).unwrap());
            assert!(lost.into_iter().all(|thread| !thread.join().unwrap()));
        });
    });
}

#[test]
fn a_panic_of_whoever_is_told_of_a_loss_keeps_no_thread_waiting() {
    let (_directory, stores) = job::stores(3);
    on_nodes(&stores, |process| {
        let file = of_two_homes(process);
        if process.rank() != 0 {
            return;
        }
        let options = MappingOptions::new().handlers(1).on_loss(|_| panic!("the test says so"));
        let mapping = &map(&file, 2 * SEGMENT, &options);
        process.job.memberships[0].declare_lost(Rank(2), "the test says so");
        for page in 0..2 {
            assert!(!kernel_reads(mapping.as_ptr().wrapping_add((SEGMENT + page * PAGE) as usize), 8));
            assert_eq!(load(mapping, page * PAGE), 1);
        }
    });
}

#[test]
fn of_threads_that_wait_for_several_homes_only_those_lose_pages_whose_home_is_lost() {
    const THREADS: u64 = 8;
    for handlers in [1, 2, 8] {
        let (_directory, stores) = job::stores(3);
        on_nodes(&stores, |process| {
            let file = of_two_homes(process);
            if process.rank() != 0 {
                return;
            }
            let told: Arc<Mutex<Vec<u64>>> = Arc::default();
            let tell = Arc::clone(&told);
            let options = MappingOptions::new()
                .handlers(handlers)
                .on_loss(move |lost| tell.lock().unwrap().push(lost.range.start.0 / PAGE));
            let mapping = &map(&file, 2 * SEGMENT, &options);
            mapping.advise(all(2 * SEGMENT), Advice::Random).unwrap();
            let begin = &Barrier::new(THREADS as usize + 1);
            let lost = std::thread::scope(|scope| {
                let of_one = |thread: u64| {
                    begin.wait();
                    // By turns of both homes, no page twice.
                    let pages = (0..2 * SEGMENT / PAGE / THREADS).map(|turn| turn * THREADS + thread);
                    let reads = |page: &u64| {
                        let at = mapping.as_ptr().wrapping_add((page * PAGE) as usize);
                        kernel_reads(at, 8)
                    };
                    pages.filter(|page| !reads(page)).collect::<Vec<_>>()
                };
                let threads: Vec<_> =
                    (0..THREADS).map(|thread| scope.spawn(move || of_one(thread))).collect();
                begin.wait();
                process.job.memberships[0].declare_lost(Rank(2), "the test says so");
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            let of_lost = SEGMENT / PAGE..2 * SEGMENT / PAGE;
            assert!(lost.iter().all(|page| of_lost.contains(page)), "{lost:?}");
            let sorted = |mut pages: Vec<u64>| {
                pages.sort_unstable();
                pages
            };
            assert_eq!(sorted(told.lock().unwrap().clone()), sorted(lost));
            (0..SEGMENT).step_by(PAGE as usize).for_each(|at| assert_eq!(load(mapping, at), 1));
        });
    }
}
