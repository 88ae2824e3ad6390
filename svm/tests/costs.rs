//! What files that several nodes share cost: pages that are fetched again after a sync, and requests for new segments.

mod job;

use std::collections::BTreeMap;

use job::{Process, stores};
use svmio_svm::{Blocks, CacheSettings, File, FileName, FileOffset, OpenOptions, SegmentIndex, SegmentSize};

const SEGMENT: u64 = 1 << 16;
const PAGE: u64 = 1 << 12;

/// Runs `body` as three ranks on three nodes, with a file of small segments that all have open.
fn with_file(body: impl Fn(&Process<'_>, &File) + Sync) {
    let (_directory, stores) = stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 256 * PAGE };
    job::run(&stores, &cache, |process| {
        let name = FileName::new("f").expect("it is a name");
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        let file = process.open(&name, &options).expect("the file opens");
        body(process, &file);
        process.meet();
        process.close(file).expect("the file closes");
    });
}

fn byte(file: &File, at: u64) -> u8 {
    let mut byte = [0];
    assert_eq!(file.read_at(FileOffset(at), &mut byte).expect("it can be read"), 1);
    byte[0]
}

fn set_byte(file: &File, at: u64, value: u8) {
    file.write_at(FileOffset(at), &[value]).expect("it can be written");
}

#[test]
fn a_sync_drops_the_pages_of_segments_that_others_have_changed_and_no_more() {
    // Two pages of rank 0's segment, and one of rank 2's.
    const CHANGED: [u64; 2] = [PAGE + 7, 9 * PAGE];
    const OTHER: u64 = 2 * SEGMENT + 5 * PAGE;
    with_file(|process, file| {
        let rank = process.rank();
        let own = FileOffset(u64::from(rank) * SEGMENT);
        file.write_at(own, &[1; SEGMENT as usize]).unwrap();
        process.sync(file).unwrap();
        // What rank 1 sees, and how many pages it has to fetch for that.
        let look = |changed: [u8; 2], fetched: u64| {
            if rank == 1 {
                let before = process.cluster.statistics().cache.misses;
                assert_eq!((byte(file, OTHER), CHANGED.map(|at| byte(file, at))), (1, changed));
                assert_eq!(process.cluster.statistics().cache.misses - before, fetched, "{changed:?}");
            }
            process.meet();
        };
        look([1; 2], 3);
        look([1; 2], 0);
        if rank == 0 {
            set_byte(file, CHANGED[0], 2);
        }
        process.sync(file).unwrap();
        look([2, 1], 2);
        // By way of its home's agent.
        if rank == 2 {
            set_byte(file, CHANGED[1], 3);
        }
        process.sync(file).unwrap();
        look([2, 3], 2);
    });
}

#[test]
fn a_node_keeps_the_pages_that_it_has_written_itself_while_it_sees_what_others_change() {
    // In two segments that rank 1 reads and writes.
    const FIRST: [u64; 3] = [PAGE + 7, 4 * PAGE, 9 * PAGE];
    const SECOND: [u64; 2] = [2 * SEGMENT, 2 * SEGMENT + 5 * PAGE];
    with_file(|process, file| {
        let rank = process.rank();
        file.write_at(FileOffset(u64::from(rank) * SEGMENT), &[0; SEGMENT as usize]).unwrap();
        process.sync(file).unwrap();
        let mut expected: BTreeMap<_, _> = FIRST.into_iter().chain(SECOND).map(|at| (at, 0)).collect();
        let look = |expected: &BTreeMap<u64, u8>, fetched: u64| {
            let before = process.cluster.statistics().cache.misses;
            for (at, value) in expected {
                assert_eq!(byte(file, *at), *value, "byte {at} on rank {rank}");
            }
            let misses = process.cluster.statistics().cache.misses - before;
            assert!(
                rank != 1 || misses == fetched,
                "{misses} pages were fetched, not {fetched}: {expected:?}"
            );
            process.meet();
        };
        look(&expected, 5);
        // Who writes where what, and how many pages rank 1 fetches for it.
        type Changes = &'static [(u32, u64, u8)];
        let turns: [(Changes, u64); 9] = [
            (&[(1, FIRST[0], 1)], 0),
            (&[(1, FIRST[1], 2), (1, FIRST[1], 3), (1, SECOND[0], 4)], 0),
            (&[], 0),
            // By way of the home's agent, and at home.
            (&[(1, FIRST[2], 5), (0, SECOND[1], 6)], 2),
            (&[(1, FIRST[0], 7), (2, SECOND[0], 8)], 2),
            (&[(1, FIRST[0], 9), (2, FIRST[1], 10)], 3),
            (&[(0, FIRST[0], 11), (1, FIRST[1], 12), (1, SECOND[1], 13)], 3),
            (&[(1, FIRST[0], 14), (1, FIRST[1], 15), (1, FIRST[2], 16)], 0),
            (&[], 0),
        ];
        for (changes, fetched) in turns {
            for (by, at, value) in changes {
                if *by == rank {
                    set_byte(file, *at, *value);
                }
                expected.insert(*at, *value);
            }
            process.sync(file).unwrap();
            look(&expected, fetched);
        }
    });
}

#[test]
fn a_node_keeps_pages_that_a_long_write_went_over_and_those_beside_pieces() {
    const PAGES: u64 = SEGMENT / PAGE;
    with_file(|process, file| {
        let rank = process.rank();
        file.write_at(FileOffset(u64::from(rank) * SEGMENT), &[0; SEGMENT as usize]).unwrap();
        process.sync(file).unwrap();
        let mut expected = vec![0; 3 * SEGMENT as usize];
        let look = |expected: &[u8], fetched: u64| {
            let before = process.cluster.statistics().cache.misses;
            let mut bytes = vec![1; expected.len()];
            file.read_at(FileOffset(0), &mut bytes).unwrap();
            assert!(bytes == expected, "on rank {rank}");
            let misses = process.cluster.statistics().cache.misses - before;
            assert!(rank != 1 || misses == fetched, "{misses} pages were fetched, not {fetched}");
            process.meet();
        };
        look(&expected, 2 * PAGES);
        // A long write into a whole segment.
        expected[..SEGMENT as usize].fill(2);
        if rank == 1 {
            file.write_at(FileOffset(0), &expected[..SEGMENT as usize]).unwrap();
        }
        process.sync(file).unwrap();
        look(&expected, 0);
        // Pieces, of every second page.
        let blocks = Blocks { start: 2 * SEGMENT, length: PAGE / 2, stride: 2 * PAGE, count: PAGES / 2 };
        for at in (0..blocks.count).map(|number| (blocks.start + number * blocks.stride) as usize) {
            expected[at..at + blocks.length as usize].fill(3);
        }
        if rank == 1 {
            let bytes = vec![3; blocks.bytes() as usize];
            let bounds = FileOffset(blocks.start)..FileOffset(blocks.end());
            // As one of many pieces more.
            let mut access = file.write_strided(bounds, SEGMENT).unwrap();
            // SAFETY: there are as many bytes.
            unsafe { access.put(&blocks, bytes.as_ptr(), blocks.length as isize) }.unwrap();
            access.finish().unwrap();
        }
        process.sync(file).unwrap();
        look(&expected, PAGES / 2);
        process.sync(file).unwrap();
        look(&expected, 0);
    });
}

#[test]
fn a_new_segment_costs_one_request_at_most() {
    with_file(|process, file| {
        let rank = process.rank();
        let placed = || process.cluster.statistics().requests.get("place").copied().unwrap_or(0);
        for turn in 0..10 {
            let start = (10 * u64::from(rank) + turn) * SEGMENT;
            (0..4).for_each(|piece| set_byte(file, start + piece * PAGE, rank as u8 + 1));
            // The master's rank claims without asking anybody.
            assert_eq!(placed(), if rank == 0 { 0 } else { turn + 1 });
        }
        process.meet();
        // Where all want the same new segments at the same time, each gets one home, and nobody's bytes are lost.
        for turn in 0..10 {
            set_byte(file, (30 + turn) * SEGMENT + u64::from(rank), rank as u8 + 1);
        }
        assert!(placed() <= if rank == 0 { 0 } else { 20 });
        process.sync(file).unwrap();
        for turn in 0..10 {
            assert_eq!([0, 1, 2].map(|at| byte(file, (30 + turn) * SEGMENT + at)), [1, 2, 3]);
        }
    });
}

#[test]
fn new_segments_of_one_write_cost_one_request_together() {
    with_file(|process, file| {
        let rank = process.rank();
        let placed = || process.cluster.statistics().requests.get("place").copied().unwrap_or(0);
        let asked = |times: u64| assert_eq!(placed(), if rank == 0 { 0 } else { times });
        let start = 20 * u64::from(rank) * SEGMENT;
        file.write_at(FileOffset(start + 7), &[rank as u8 + 1; 6 * SEGMENT as usize]).unwrap();
        asked(1);
        // Again, and a bit further.
        file.write_at(FileOffset(start), &[rank as u8 + 1; 8 * SEGMENT as usize]).unwrap();
        asked(2);
        // Every second segment, of which it is told.
        let blocks = Blocks { start: start + 10 * SEGMENT, length: PAGE, stride: 2 * SEGMENT, count: 5 };
        let bounds = FileOffset(blocks.start)..FileOffset(blocks.end());
        let every_second = |size: SegmentSize| -> Vec<SegmentIndex> {
            let first = blocks.start / size.bytes();
            (0..blocks.count).map(|turn| SegmentIndex((first + 2 * turn) as u32)).collect()
        };
        file.place_ahead(bounds.clone(), blocks.bytes(), &every_second).unwrap();
        asked(3);
        let bytes = vec![rank as u8 + 1; blocks.bytes() as usize];
        let mut access = file.write_strided(bounds.clone(), blocks.bytes()).unwrap();
        // SAFETY: there are as many bytes.
        unsafe { access.put(&blocks, bytes.as_ptr(), blocks.length as isize) }.unwrap();
        access.finish().unwrap();
        asked(3);
        // What lies between has no home for that.
        assert_eq!(file.unplaced(bounds).len(), 4);
        process.sync(file).unwrap();
        for other in 0..3u32 {
            let start = 20 * u64::from(other) * SEGMENT;
            assert!((0..8u64).all(|turn| byte(file, start + turn * SEGMENT) == other as u8 + 1));
            let at = |turn: u64| byte(file, start + (10 + turn) * SEGMENT);
            assert!((0..9).all(|turn| at(turn) == if turn % 2 == 0 { other as u8 + 1 } else { 0 }));
        }
    });
}

#[test]
fn pages_that_make_way_go_home_together_with_those_beside_them() {
    const SEGMENT: u64 = 256 * PAGE;
    const PAGES: u64 = 512;
    let (_directory, stores) = stores(2);
    let cache = CacheSettings { page: PAGE, capacity: 32 * PAGE };
    job::run(&stores, &cache, |process| {
        let (rank, name) = (process.rank(), FileName::new("f").unwrap());
        let size = SegmentSize::new(SEGMENT).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&name, &options).unwrap();
        if rank == 0 {
            file.write_at(FileOffset(0), &vec![0; (PAGES * PAGE) as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        let mut expected = vec![0; (PAGES * PAGE) as usize];
        let statistics = || process.cluster.statistics();
        let written = || statistics().requests.get("write").copied().unwrap_or(0);
        let mut is_first_seen = false;
        let ascending: Vec<u64> = (0..PAGES).collect();
        let descending = ascending.iter().rev().copied().collect();
        let every_third = ascending.iter().step_by(3).copied().collect();
        for (value, pages) in [(1, ascending), (2, descending), (3, every_third)] {
            let before = (written(), statistics().cache.write_backs);
            for page in &pages {
                for piece in 0..4 {
                    let at = page * PAGE + piece * PAGE / 4;
                    expected[at as usize..][..16].fill(value);
                    if rank == 1 {
                        file.write_at(FileOffset(at), &[value; 16]).unwrap();
                    }
                    if rank == 1 && !is_first_seen && written() > 0 {
                        is_first_seen = true;
                        assert_eq!(byte(&file, at - PAGE), value);
                        assert_eq!(statistics().cache.misses, 0, "what went along is in the cache still");
                    }
                }
            }
            if rank == 1 {
                file.flush().unwrap();
                let (requests, count) = (written() - before.0, pages.len() as u64);
                assert!(requests * 7 < count, "{requests} requests for {count} pages, {value}");
                let brought = statistics().cache.write_backs - before.1;
                assert!(brought < count + 2 * requests, "{brought} of {count} pages were brought home");
            }
            process.sync(&file).unwrap();
            let mut bytes = vec![9; expected.len()];
            file.read_at(FileOffset(0), &mut bytes).unwrap();
            assert!(bytes == expected, "on rank {rank}");
            process.meet();
        }
        process.close(file).unwrap();
    });
}

#[test]
fn a_reader_finds_what_was_fetched_ahead_in_a_cache_of_few_pages() {
    const PAGES: u64 = 512;
    let (_directory, stores) = stores(2);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run(&stores, &cache, |process| {
        let name = FileName::new("f").unwrap();
        let size = SegmentSize::new(PAGES * PAGE).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&name, &options).unwrap();
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &vec![1; (PAGES * PAGE) as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 1 {
            process.cluster.force_native_reads(Some(false));
            for piece in 0..4 * PAGES {
                let mut bytes = [0; PAGE as usize / 4];
                file.read_at(FileOffset(piece * PAGE / 4), &mut bytes).unwrap();
                assert!(bytes == [1; PAGE as usize / 4]);
            }
            let statistics = process.cluster.statistics();
            let (asked, fetched) = (statistics.requests["fetch"], statistics.cache.misses);
            assert!(fetched < PAGES + PAGES / 8, "{fetched} fetches of {PAGES} pages");
            assert!(asked * 4 < PAGES, "{asked} requests for {PAGES} pages");
        }
        process.meet();
        process.close(file).unwrap();
    });
}
