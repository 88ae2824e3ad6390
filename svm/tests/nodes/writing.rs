//! How accesses of all lengths and shapes reach their homes.

use std::sync::Mutex;

use svmio_svm::Blocks;

use super::*;

#[test]
fn long_writes_go_straight_home_and_are_read_as_written() {
    let (_directory, stores) = stores(2);
    let length = 5 * SEGMENT as usize + 77;
    let bytes = |rank: u32| (0..length).map(|at| (at as u32 * 7 + rank) as u8).collect::<Vec<_>>();
    job(&stores, 2, |process| {
        let file = open(process, "long", &small_segments());
        let rank = process.rank();
        if rank == 0 {
            file.write_at(FileOffset(0), &bytes(0)).unwrap();
        }
        process.sync(&file).unwrap();
        if rank == 1 {
            assert!(content(&file) == bytes(0));
            // Small pieces in the cache, and then all of it past the cache.
            file.write_at(FileOffset(SEGMENT), &[9; 100]).unwrap();
            file.write_at(FileOffset(0), &bytes(1)).unwrap();
            assert!(content(&file) == bytes(1), "its own writes at once");
            file.write_at(FileOffset(10), b"ten").unwrap();
        }
        process.sync(&file).unwrap();
        let mut expected = bytes(1);
        expected[10..13].copy_from_slice(b"ten");
        assert!(content(&file) == expected);
        let statistics = process.cluster.statistics();
        if rank == 1 {
            assert!(statistics.requests.get("reserve").is_some_and(|count| *count <= 6), "{statistics}");
        }
    });
}

#[test]
fn writes_below_at_and_above_the_measured_bound_are_read_as_written() {
    const LENGTH: usize = 2 << 20;
    let (_directory, stores) = stores(2);
    let expected = Mutex::new(vec![0; LENGTH]);
    job(&stores, 2, |process| {
        let size = SegmentSize::new(LENGTH as u64).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = open(process, "bound", &options);
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[0; LENGTH]).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 1 {
            let mut expected = expected.lock().unwrap();
            let mut value = 0_u8;
            for turn in 0..6 {
                // From the longest on: the others know of their storage then. Each turn ends with the other way round.
                for power in if turn % 2 == 0 { [20, 16, 12, 11, 9] } else { [9, 11, 12, 16, 20] } {
                    let bound = process.cluster.long_write();
                    assert!(bound.is_power_of_two() && (2 << 10..=512 << 10).contains(&bound), "{bound}");
                    for length in [1 << power, bound - 1, bound, bound + 1] {
                        value = value.wrapping_add(1);
                        let (at, length) = (4321 * usize::from(value), length as usize);
                        file.write_at(FileOffset(at as u64), &vec![value; length]).unwrap();
                        expected[at..at + length].fill(value);
                    }
                }
                assert!(content(&file) == *expected, "its own writes at once");
            }
            let requests = process.cluster.statistics().requests;
            assert!(requests.contains_key("reserve"), "the longest went straight: {requests:?}");
        }
        process.sync(&file).unwrap();
        assert!(content(&file) == *expected.lock().unwrap());
    });
}

#[test]
fn strided_accesses_leave_pages_alone_that_lie_between_their_pieces() {
    const PAGE: u64 = 4096;
    const STRIDE: u64 = 8 * PAGE;
    const LENGTH: u64 = 1000;
    let (_directory, stores) = job::stores(2);
    let cache = CacheSettings { page: PAGE, capacity: 4096 * PAGE };
    job::run([&stores[0], &stores[0], &stores[1]], &cache, |process| {
        let size = SegmentSize::new(8 << 20).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&name("f"), &options).unwrap();
        if process.rank() == 2 {
            file.write_at(FileOffset(0), &[1; 8 << 20]).unwrap();
        }
        process.sync(&file).unwrap();
        let byte = |at| {
            let mut byte = [99];
            file.read_at(FileOffset(at), &mut byte).unwrap();
            byte[0]
        };
        let cached = || process.cluster.statistics().cache;
        if process.rank() == 1 {
            // Between the pieces: clean, and dirty. Where pieces are: clean, and dirty beside them.
            assert_eq!([byte(PAGE), byte(STRIDE)], [1; 2]);
            file.write_at(FileOffset(3 * PAGE), &[2; 10]).unwrap();
            file.write_at(FileOffset(2 * STRIDE + LENGTH), &[3; 10]).unwrap();
        }
        process.meet();
        let before = cached();
        process.meet();
        let blocks = Blocks { start: 0, length: LENGTH, stride: STRIDE, count: 200 };
        let (bounds, mut bytes) = (FileOffset(0)..FileOffset(blocks.end()), vec![7_u8; 200 * 1000]);
        if process.rank() == 0 {
            let mut access = file.write_strided(bounds.clone(), blocks.bytes()).unwrap();
            // SAFETY: there are as many bytes.
            unsafe { access.put(&blocks, bytes.as_ptr(), LENGTH as isize) }.unwrap();
            access.finish().unwrap();
            assert_eq!(
                cached().write_backs,
                before.write_backs + 1,
                "only the page that pieces touch went home"
            );
            bytes.fill(0);
            let mut access = file.read_strided(bounds, blocks.bytes()).unwrap();
            // SAFETY: likewise, until it is finished.
            unsafe { access.get(&blocks, bytes.as_mut_ptr(), LENGTH as isize) }.unwrap();
            access.finish().unwrap();
            assert!(bytes.iter().all(|byte| *byte == 7));
            assert_eq!(cached().write_backs, before.write_backs + 1, "likewise");
        }
        process.meet();
        if process.rank() == 1 {
            assert_eq!([byte(PAGE), byte(3 * PAGE)], [1, 2]);
            assert_eq!(cached().misses, before.misses, "they were here still");
            assert_eq!([byte(STRIDE), byte(2 * STRIDE)], [7; 2]);
            assert_eq!([byte(STRIDE + LENGTH), byte(2 * STRIDE + LENGTH)], [1, 3]);
        }
        process.sync(&file).unwrap();
        assert_eq!([3 * PAGE, 2 * STRIDE, 2 * STRIDE + LENGTH].map(byte), [2, 7, 3]);
    });
}

#[test]
fn pieces_that_fill_several_long_questions_and_answers_come_from_one_node() {
    const LENGTH: u64 = 64;
    const PIECES: u64 = 64 << 10;
    let (_directory, stores) = job::stores(2);
    job(&stores, 2, |process| {
        let size = SegmentSize::new(32 << 20).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&name("f"), &options).unwrap();
        // At no common stride, so that each is asked for by itself.
        let start = |piece: u64| piece * 400 + piece * piece % 331;
        let expected = |at: u64| (at % 251) as u8;
        if process.rank() == 0 {
            let bytes: Vec<_> = (0..start(PIECES)).map(expected).collect();
            file.write_at(FileOffset(0), &bytes).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 1 {
            let mut bytes = vec![255; (PIECES * LENGTH) as usize];
            let bounds = FileOffset(0)..FileOffset(start(PIECES));
            let mut access = file.read_strided(bounds, PIECES * LENGTH).unwrap();
            for (piece, to) in (0..).zip(bytes.chunks_mut(LENGTH as usize)) {
                let blocks = Blocks { start: start(piece), length: LENGTH, stride: LENGTH, count: 1 };
                // SAFETY: there is room for a piece, until it is finished.
                unsafe { access.get(&blocks, to.as_mut_ptr(), LENGTH as isize) }.unwrap();
            }
            access.finish().unwrap();
            for (piece, found) in (0..).zip(bytes.chunks(LENGTH as usize)) {
                assert!(
                    (start(piece)..).map(expected).zip(found).all(|(one, other)| one == *other),
                    "{piece}"
                );
            }
        }
        process.sync(&file).unwrap();
    });
}
