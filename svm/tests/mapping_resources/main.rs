//! What mappings take: memory, descriptors, threads. Alone in its process, for these are counted.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

mod crowded;
#[path = "../job/mod.rs"]
mod job;
mod rest;

use std::sync::Arc;

use svmio_svm::mapping::{Mapping, MappingOptions, StrictMapping};
use svmio_svm::{CacheSettings, FileName, FileOffset, OpenOptions, SegmentSize};

const PAGE: u64 = 4096;

#[test]
fn mappings_take_what_they_may_and_give_it_back() {
    memory_stays_within_the_limit_while_much_more_is_touched();
    so_it_does_where_pages_have_one_writer_at_a_time();
    what_is_unmapped_leaves_nothing();
    rest::threads_that_serve_faults_rest_when_nobody_waits();
    crowded::what_the_kernel_maps_no_more_is_served_by_faults();
    crowded::what_the_kernel_maps_no_more_is_told_of_where_there_is_no_other_way();
}

fn all(bytes: u64) -> std::ops::Range<FileOffset> {
    FileOffset(0)..FileOffset(bytes)
}

/// A byte of a mapping.
fn load(mapping: &Mapping, at: u64) -> u8 {
    // SAFETY: it lies in the mapping.
    unsafe { mapping.as_ptr().add(at as usize).read_volatile() }
}

fn store(mapping: &Mapping, at: u64, byte: u8) {
    // SAFETY: it lies in the mapping.
    unsafe { mapping.as_mut_ptr().add(at as usize).write_volatile(byte) }
}

/// Bytes of memory that this process has in use for what is its own, and not files'.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel tells");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn memory_stays_within_the_limit_while_much_more_is_touched() {
    let full = job::is_full();
    let (bytes, limit) = if full { (1 << 30, 64 << 20) } else { (96 << 20, 32 << 20) };
    let (_directory, stores) = job::stores(2);
    job::run(&stores, &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write()
            .create(true)
            .segment_size(Some(SegmentSize::new(16 << 20).expect("it is a size")));
        let file = Arc::new(process.open(&FileName::new("f").unwrap(), &options).unwrap());
        if process.rank() == 1 {
            let piece: Vec<u8> = (0..4 << 20).map(|at| (at / PAGE) as u8).collect();
            (0..bytes).step_by(4 << 20).for_each(|at| file.write_at(FileOffset(at), &piece).unwrap());
        }
        process.sync(&file).unwrap();
        if process.rank() == 0 {
            // What messages take is there before.
            let before = {
                let mapping = MappingOptions::new().limit(limit).map(&file, all(bytes)).unwrap();
                (0..4 << 20).step_by(PAGE as usize).for_each(|at| store(&mapping, at, 1));
                mapping.sync(all(bytes)).unwrap();
                (4 << 20..8 << 20)
                    .step_by(PAGE as usize)
                    .for_each(|at| assert_eq!(load(&mapping, at), (at / PAGE) as u8));
                drop(mapping);
                resident()
            };
            let mapping = MappingOptions::new().limit(limit).map(&file, all(bytes)).unwrap();
            let mut most = 0;
            let mut look = |at: u64| {
                if at.is_multiple_of(1 << 20) {
                    assert!(mapping.statistics().memory <= limit, "{:?}", mapping.statistics());
                    most = most.max(resident().saturating_sub(before));
                }
            };
            for at in (4 << 20..bytes).step_by(PAGE as usize) {
                assert_eq!(load(&mapping, at), ((at % (4 << 20)) / PAGE) as u8, "at {at}");
                look(at);
            }
            for at in (0..bytes).step_by(PAGE as usize) {
                store(&mapping, at + 9, 77);
                look(at);
            }
            assert!(most <= limit + limit / 10, "{most} bytes, and the limit is {limit}");
            mapping.sync(all(bytes)).unwrap();
        }
        process.meet();
        if process.rank() == 1 {
            let mut byte = [0];
            for at in (0..bytes).step_by(PAGE as usize) {
                file.read_at(FileOffset(at + 9), &mut byte).unwrap();
                assert_eq!(byte, [77], "at {at}");
            }
        }
        process.meet();
    });
}

/// Home and mapping are in this process: what the home knows of the pages that are here counts, too, nearly two hundred
/// bytes of each. Pages come and go often enough that tables which never shrink would show.
fn so_it_does_where_pages_have_one_writer_at_a_time() {
    let (bytes, limit) = if job::is_full() { (160 << 20, 64 << 20) } else { (80 << 20, 32 << 20) };
    let (_directory, stores) = job::stores(2);
    job::run(&stores, &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write()
            .create(true)
            .segment_size(Some(SegmentSize::new(16 << 20).expect("it is a size")));
        let file = Arc::new(process.open(&FileName::new("s").unwrap(), &options).unwrap());
        if process.rank() == 1 {
            let piece: Vec<u8> = (0..4 << 20).map(|at| (at / PAGE) as u8).collect();
            (0..bytes).step_by(4 << 20).for_each(|at| file.write_at(FileOffset(at), &piece).unwrap());
        }
        process.sync(&file).unwrap();
        if process.rank() == 0 {
            let map = || MappingOptions::new().limit(limit).map_strictly(&file, all(bytes)).unwrap();
            let at = |mapping: &StrictMapping, at: u64| mapping.as_mut_ptr().wrapping_add(at as usize);
            // SAFETY: these lie in the mapping.
            let load = |mapping: &StrictMapping, of: u64| unsafe { at(mapping, of).read_volatile() };
            // SAFETY: as above.
            let store = |mapping: &StrictMapping, of: u64| unsafe { at(mapping, of + 9).write_volatile(77) };
            // What messages take is there before.
            let before = {
                let mapping = map();
                (0..4 << 20).step_by(PAGE as usize).for_each(|at| store(&mapping, at));
                (4 << 20..24 << 20).step_by(PAGE as usize).for_each(|at| _ = load(&mapping, at));
                mapping.unmap().unwrap();
                resident()
            };
            let mapping = map();
            let mut most = 0;
            let mut look = |at: u64| {
                if at.is_multiple_of(1 << 20) {
                    assert!(mapping.statistics().memory <= limit, "{:?}", mapping.statistics());
                    most = most.max(resident().saturating_sub(before));
                }
            };
            for at in (0..bytes).step_by(PAGE as usize) {
                assert_eq!(load(&mapping, at), ((at % (4 << 20)) / PAGE) as u8, "at {at}");
                look(at);
            }
            for at in (0..bytes).step_by(PAGE as usize) {
                store(&mapping, at);
                look(at);
            }
            assert!(most <= limit + limit / 12, "{most} bytes, and the limit is {limit}");
            let statistics = mapping.statistics();
            assert!(statistics.evicted >= (2 * bytes - limit) / PAGE - 1, "{statistics:?}");
            assert!(statistics.fetched_ahead > bytes / PAGE / 2, "{statistics:?}");
            mapping.unmap().unwrap();
        }
        process.meet();
        if process.rank() == 1 {
            let mut byte = [0];
            for at in (0..bytes).step_by(PAGE as usize) {
                file.read_at(FileOffset(at + 9), &mut byte).unwrap();
                assert_eq!(byte, [77], "at {at}");
            }
        }
        process.meet();
    });
}

/// What this process has taken.
#[derive(Debug, Clone, Copy)]
struct Taken {
    descriptors: usize,
    threads: usize,
    maps: usize,
    memory: u64,
}

impl Taken {
    /// Until now. To be asked for by one thread at a time: to count takes a descriptor.
    fn now() -> Taken {
        let count = |of: &str| std::fs::read_dir(format!("/proc/self/{of}")).expect("/proc is there").count();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is there").lines().count();
        Taken { descriptors: count("fd"), threads: count("task"), maps, memory: resident() }
    }

    /// Likewise, when threads that have ended are not listed any more.
    fn at_rest() -> Taken {
        let mut last = Taken::now();
        loop {
            std::thread::yield_now();
            let now = Taken::now();
            if now.threads >= last.threads {
                return now;
            }
            last = now;
        }
    }

    /// That it was no less then, but for what comes and goes by chance, and so many bytes.
    fn assert_no_more_than(self, before: Taken, memory: u64) {
        let told = format!("{before:?}, then {self:?}");
        assert!(self.descriptors <= before.descriptors + 4 && self.threads <= before.threads, "{told}");
        assert!(self.maps <= before.maps + 8 && self.memory <= before.memory + memory, "{told}");
    }
}

fn what_is_unmapped_leaves_nothing() {
    const BYTES: u64 = 8 << 20;
    let (_directory, stores) = job::stores(2);
    job::run(&stores, &CacheSettings::default(), |process| {
        // Else what takes how long would say when this process opens the other node's segments, to read them by itself.
        process.cluster.force_native_reads(Some(job::are_reads_native().unwrap_or(true)));
        let options = OpenOptions::read_write()
            .create(true)
            .segment_size(Some(SegmentSize::new(1 << 20).expect("it is a size")));
        let file = Arc::new(process.open(&FileName::new("f").unwrap(), &options).unwrap());
        file.write_at(FileOffset(u64::from(process.rank()) * BYTES / 2), &vec![1; BYTES as usize / 2])
            .unwrap();
        process.sync(&file).unwrap();
        let mut first = None;
        for turn in 0..30 {
            let mapping = Mapping::new(&file, all(BYTES)).unwrap();
            (0..BYTES).step_by(PAGE as usize).for_each(|at| assert_eq!(load(&mapping, at), 1 + turn));
            process.meet();
            let own = |at: &u64| at / PAGE % 2 == u64::from(process.rank());
            (0..BYTES).step_by(PAGE as usize).filter(own).for_each(|at| store(&mapping, at, 2 + turn));
            mapping.barrier(&mut || process.team.agree(Ok::<(), svmio_svm::Error>(()))).unwrap();
            mapping.unmap().unwrap();
            process.meet();
            let now = (process.rank() == 0).then(Taken::now);
            process.meet();
            let Some(now) = now else { continue };
            if turn == 4 {
                first = Some(now);
            }
            if let Some(first) = first {
                now.assert_no_more_than(first, BYTES);
            }
        }
        process.close(Arc::into_inner(file).expect("nothing else has it")).unwrap();
    });
}
