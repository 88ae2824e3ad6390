//! Fabrics that pin what is exported: adapters, which write to the pages that a segment had when it was exported.

use std::time::{Duration, Instant};

use svmio_transport::Rank;

use super::super::wire::{Reply, Request};
use super::PAGE;
use super::job::{self, Process, Way};
use crate::{CacheSettings, File, FileName, FileOffset, OpenOptions, SegmentIndex, SegmentSize};

const SEGMENT: u64 = 1 << 20;
/// Bytes of a write that goes straight: more than half of a segment.
const LONG: usize = 768 << 10;

fn cache() -> CacheSettings {
    CacheSettings { page: PAGE, capacity: 64 * PAGE }
}

/// A file of so many segments of ones, on the node of rank 1.
fn open(process: &Process<'_>, segments: u64) -> File {
    let size = SegmentSize::new(SEGMENT).unwrap();
    let options = OpenOptions::read_write().create(true).segment_size(Some(size));
    let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
    if process.rank() == 1 {
        file.write_at(FileOffset(0), &vec![1; (segments * SEGMENT) as usize]).unwrap();
    }
    process.sync(&file).unwrap();
    process.cluster.set_long_write(Some(1));
    file
}

/// What the agent of this process, which is the home's, answers rank 0, who wants to write straight.
fn reserved(process: &Process<'_>, file: &File, index: u32) -> Option<u32> {
    let part = (SegmentIndex(index), 0..SEGMENT);
    let request = Request::Reserve { file: file.id(), part, export: true };
    match process.cluster.agent.as_ref().unwrap().serve_for(Rank(0), &request).unwrap() {
        Reply::Reserved { window, .. } => window,
        other => panic!("{other:?}"),
    }
}

fn straight(process: &Process<'_>) -> u64 {
    process.cluster.statistics().straight.writes
}

#[test]
fn a_segment_that_was_cut_is_exported_anew() {
    let (_directory, stores) = job::stores(2);
    job::run_pinning(Way::of_tests(), u64::MAX, &stores, &cache(), |process| {
        let file = open(process, 2);
        let windows = || [0, 1].map(|index| reserved(process, &file, index).expect("it is exported"));
        let before = (process.rank() == 1).then(windows);
        if process.rank() == 1 {
            assert_eq!(Some(windows()), before);
        }
        process.team.set_size(&file, SEGMENT + 1).unwrap();
        if let Some(before) = before {
            let after = windows();
            assert_eq!(after[0], before[0], "all of it is there still");
            assert_ne!(after[1], before[1], "others would write to pages that are not the file's");
        }
        process.meet();
        process.close(file).unwrap();
    });
}

#[test]
fn what_is_written_straight_after_the_file_was_made_shorter_is_there() {
    for way in [Way::SharedMemory, Way::Network] {
        let (_directory, stores) = job::stores(2);
        job::run_pinning(way, u64::MAX, &stores, &cache(), |process| {
            let file = open(process, 1);
            for round in 2..5 {
                if process.rank() == 0 {
                    file.write_at(FileOffset(0), &vec![round; LONG]).unwrap();
                    assert_eq!(straight(process), u64::from(round) - 1);
                }
                process.sync(&file).unwrap();
                if process.rank() == 1 {
                    let mut bytes = vec![0; LONG];
                    assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), LONG);
                    assert!(bytes == vec![round; LONG], "{way:?}, round {round}");
                }
                process.team.set_size(&file, 0).unwrap();
            }
            process.close(file).unwrap();
        });
    }
}

/// As when somebody has made it shorter by a handle of his own, and others have not looked since.
#[test]
fn who_has_not_heard_that_the_file_was_made_shorter_writes_all_the_same() {
    // By the adapter, and by messages, which the home refuses from when it has ended the export.
    for (length, by_message) in [(LONG, false), (16 << 10, true)] {
        let (_directory, stores) = job::stores(2);
        job::run_pinning(Way::Network, u64::MAX, &stores, &cache(), |process| {
            let file = open(process, 1);
            let write = |value, length| file.write_at(FileOffset(0), &vec![value; length]).unwrap();
            if process.rank() == 0 {
                write(2, length);
                assert_eq!(straight(process), 1);
            }
            process.sync(&file).unwrap();
            if process.rank() == 1 {
                let request = Request::Punch { file: file.id(), size: LONG as u64 };
                process.cluster.agent.as_ref().unwrap().serve_for(Rank(0), &request).unwrap();
            }
            process.meet();
            if process.rank() == 0 {
                let goes_straight = |value, length| {
                    let before = straight(process);
                    write(value, length);
                    straight(process) > before
                };
                // Until the fabric here has been told that the export has ended.
                let deadline = Instant::now() + Duration::from_secs(20);
                while goes_straight(3, length) {
                    assert!(!by_message, "nobody took what is said to be written");
                    assert!(Instant::now() < deadline, "the export does not end");
                    std::thread::yield_now();
                }
                assert!(goes_straight(4, length / 2), "the home exports it anew");
            }
            process.sync(&file).unwrap();
            if process.rank() == 1 {
                let mut bytes = vec![0; length];
                assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), length);
                assert!(bytes[..length / 2].iter().all(|byte| *byte == 4));
                assert!(bytes[length / 2..].iter().all(|byte| *byte == 3));
            }
            process.meet();
            process.close(file).unwrap();
        });
    }
}

/// All of a segment gets storage when it is pinned, and is locked.
#[test]
fn a_segment_is_written_straight_when_half_of_it_is_there() {
    const PART: usize = SEGMENT as usize / 8;
    let (_directory, stores) = job::stores(2);
    job::run_pinning(Way::of_tests(), u64::MAX, &stores, &cache(), |process| {
        let size = SegmentSize::new(SEGMENT).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
        if process.rank() == 1 {
            file.write_at(FileOffset(0), &[1]).unwrap();
        }
        process.sync(&file).unwrap();
        process.cluster.set_long_write(Some(1));
        if process.rank() == 0 {
            for part in 0..8 {
                file.write_at(FileOffset((part * PART) as u64), &vec![part as u8; PART]).unwrap();
                // The fourth part makes it half.
                assert_eq!(straight(process), (part as u64).saturating_sub(2), "part {part}");
            }
        }
        process.sync(&file).unwrap();
        if process.rank() == 1 {
            let mut bytes = vec![9; SEGMENT as usize];
            assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), bytes.len());
            assert!(bytes.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at / PART));
        }
        process.meet();
        process.close(file).unwrap();
    });
}

/// Reads by the cache, by what was asked for ahead, and what others have changed since; of pages that are longer than a
/// message's data, too.
#[test]
fn pages_come_where_the_cache_is_too_large_to_be_exported() {
    const CACHE: u64 = 64 << 20;
    const READ: usize = 32 << 10;
    for (page, segment) in [(PAGE, SEGMENT), (2 << 20, 4 << 20)] {
        let cache = CacheSettings { page, capacity: CACHE };
        let (_directory, stores) = job::stores(2);
        job::run_pinning(Way::of_tests(), CACHE / 4, &stores, &cache, |process| {
            process.cluster.force_native_reads(Some(false));
            let size = SegmentSize::new(segment).unwrap();
            let options = OpenOptions::read_write().create(true).segment_size(Some(size));
            let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
            let mut content: Vec<u8> = (0..2 * segment).map(|at| (at / 5) as u8).collect();
            if process.rank() == 1 {
                file.write_at(FileOffset(0), &content).unwrap();
            }
            process.sync(&file).unwrap();
            let check = |content: &[u8]| {
                let mut bytes = [0; READ];
                for (at, expected) in (0..).step_by(READ).zip(content.chunks(READ)) {
                    assert_eq!(file.read_at(FileOffset(at), &mut bytes).unwrap(), READ);
                    assert!(bytes == *expected, "pages of {page} bytes, from {at}");
                }
            };
            if process.rank() == 0 {
                check(&content);
                let requests = || process.cluster.statistics().requests;
                let asked = requests()["pages"];
                check(&content);
                assert_eq!(requests()["pages"], asked, "they are cached");
                assert!(asked > 0 && !requests().contains_key("fetch"), "{:?}", requests());
            }
            process.meet();
            match process.rank() {
                0 => file.write_at(FileOffset(10), b"from the reader").unwrap(),
                _ => file.write_at(FileOffset(segment), b"from the home").unwrap(),
            }
            content[10..][..15].copy_from_slice(b"from the reader");
            content[segment as usize..][..13].copy_from_slice(b"from the home");
            process.sync(&file).unwrap();
            check(&content);
            process.meet();
            process.close(file).unwrap();
        });
    }
}
