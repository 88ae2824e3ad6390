//! A page cache full of what cannot be brought home: everything else goes past it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::job::{self, Process, stores};
use svmio_svm::{CacheSettings, File, FileName, FileOffset, OpenOptions, SegmentSize};
use svmio_transport::Rank;

const SEGMENT: u64 = 1 << 16;
const PAGE: u64 = 4096;
const PAGES: u64 = 4;

/// A file of two segments per node, node n's being the n-th and that behind all of these, of ones.
fn open(process: &Process<'_>, text: &str) -> File {
    let name = FileName::new(text).expect("it is a name");
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
    let file = process.open(&name, &options).expect("the file opens");
    for turn in 0..2 {
        let own = (turn * 3 + u64::from(process.rank())) * SEGMENT;
        file.write_at(FileOffset(own), &[1; SEGMENT as usize]).expect("it can be written");
    }
    process.sync(&file).expect("all see it");
    file
}

fn read(file: &File, at: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    assert_eq!(file.read_at(FileOffset(at), &mut bytes).expect("it can be read"), bytes.len());
    bytes
}

#[test]
fn living_homes_are_accessed_past_a_cache_that_is_full_of_what_is_for_lost_ones() {
    let (_directory, stores) = stores(3);
    let cache = CacheSettings { page: PAGE, capacity: PAGES * PAGE };
    let is_reached = AtomicBool::new(false);
    job::run(&stores, &cache, |process| {
        let (file, other) = (open(process, "f"), open(process, "g"));
        if process.rank() == 0 {
            // On the way for node 2, in a page that nothing is known of beside that.
            file.write_at(FileOffset(2 * SEGMENT + 10), b"mine").unwrap();
            file.write_at(FileOffset(2 * SEGMENT + PAGE), b"mine").unwrap();
            for page in 0..PAGES - 1 {
                other.write_at(FileOffset(SEGMENT + page * PAGE), b"lost").unwrap();
            }
        }
        process.meet();
        if process.rank() == 1 {
            process.job.declare_lost(Rank(1), "the test says so");
        }
        process.meet();
        if process.rank() == 0 {
            // The cache has one page that is of use, at most. Of the same file, and of another one.
            for file in [&file, &other] {
                for segment in [2, 5] {
                    for round in 0..3_u8 {
                        let at = segment * SEGMENT + 100;
                        let pieces = (0..3 * PAGES).map(|piece| at + piece * PAGE / 2);
                        for piece in pieces.clone() {
                            file.write_at(FileOffset(piece), &[round; 16]).unwrap();
                        }
                        for piece in pieces {
                            let mut expected = [1; 20];
                            expected[..16].fill(round);
                            assert_eq!(read(file, piece, 20), expected);
                        }
                        assert!(read(file, at + 8 * PAGE, 5 * PAGE) == vec![1; 5 * PAGE as usize]);
                    }
                }
            }
            assert_eq!(read(&file, 2 * SEGMENT + 8, 8), *b"\x01\x01mine\x01\x01");
            // What is for the lost node fails still, and is named.
            let error = other.flush().unwrap_err();
            assert!(error.to_string().contains("n1"), "{error}");
            // And the rest gets home.
            file.flush().unwrap();
            is_reached.store(true, SeqCst);
        }
        process.meet();
        if process.rank() == 2 {
            assert_eq!(read(&file, 2 * SEGMENT + 8, 8), *b"\x01\x01mine\x01\x01");
            assert_eq!(read(&file, 2 * SEGMENT + PAGE, 5), *b"mine\x01");
            for segment in [2, 5] {
                assert_eq!(read(&file, segment * SEGMENT + 100, 16), [2; 16]);
                let at = segment * SEGMENT + 100 + 5 * PAGE / 2;
                assert_eq!(read(&other, at, 20), [[2; 16].as_slice(), &[1; 4]].concat());
            }
        }
    });
    assert!(is_reached.into_inner());
}
