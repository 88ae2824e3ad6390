//! What it costs to read many pieces that lie on another node: what is asked for before anything is waited for, what is
//! read ahead of the next access, and what the cache keeps for the next reader.

mod job;

use std::sync::LazyLock;

use job::{Process, stores};
use svmio_svm::{Blocks, CacheSettings, File, FileName, FileOffset, OpenOptions, SegmentSize};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const PAGE: u64 = 64 * KIB;
const SIZE: u64 = 20 * MIB;

/// Runs `body` as the one of two ranks, on two nodes, that finds all of the file with the other one.
fn with_file_elsewhere(body: impl Fn(&Process<'_>, &File) + Sync) {
    let (_directory, stores) = stores(2);
    let cache = CacheSettings { page: PAGE, ..CacheSettings::default() };
    job::run(&stores, &cache, |process| {
        let name = FileName::new("f").expect("it is a name");
        let size = SegmentSize::new(8 * MIB).expect("it is a size");
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&name, &options).expect("the file opens");
        if process.rank() == 0 {
            file.write_at(FileOffset(0), content()).expect("it can be written");
        }
        process.sync(&file).expect("what was written can be shown");
        if process.rank() == 1 {
            process.cluster.force_native_reads(Some(false));
            body(process, &file);
        }
        process.meet();
        process.close(file).expect("the file closes");
    });
}

/// What the file has.
fn content() -> &'static [u8] {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let round: Vec<u8> = (0..251).collect();
        round.repeat(SIZE as usize / round.len() + 1)[..SIZE as usize].to_vec()
    });
    &CONTENT
}

/// Requests that were sent, and pages that were fetched.
fn costs(process: &Process<'_>) -> (u64, u64) {
    let statistics = process.cluster.statistics();
    (statistics.requests(), statistics.cache.misses)
}

/// Reads all blocks, `together` of them at a time; `before_end` is called before the access waits for the last ones.
fn read(file: &File, blocks: &Blocks, together: u64, before_end: impl FnOnce()) {
    let mut bytes = vec![255; blocks.bytes() as usize];
    let bounds = FileOffset(blocks.start)..FileOffset(blocks.end());
    let mut access = file.read_strided(bounds, blocks.bytes()).expect("it can be read");
    for first in (0..blocks.count).step_by(together as usize) {
        let count = together.min(blocks.count - first);
        let some = Blocks { start: blocks.start + first * blocks.stride, count, ..*blocks };
        let to = bytes[(first * blocks.length) as usize..].as_mut_ptr();
        // SAFETY: there is room for all blocks, until the access is finished.
        unsafe { access.get(&some, to, blocks.length as isize) }.expect("it can be read");
    }
    before_end();
    access.finish().expect("it can be read");
    for (number, block) in (0..).zip(bytes.chunks(blocks.length as usize)) {
        let start = (blocks.start + number * blocks.stride) as usize;
        assert!(content()[start..][..block.len()] == *block, "block {number}");
    }
}

#[test]
fn a_dense_access_asks_for_what_it_needs_next_before_it_waits() {
    with_file_elsewhere(|process, file| {
        let blocks = Blocks { start: 6 * MIB, length: KIB, stride: 2 * KIB, count: 2 * KIB };
        let (requests, misses) = costs(process);
        let mut bytes = [0; KIB as usize];
        let bounds = FileOffset(blocks.start)..FileOffset(blocks.end());
        let mut access = file.read_strided(bounds, blocks.bytes()).unwrap();
        // SAFETY: there is room for a block, until the access is dropped.
        unsafe { access.get(&Blocks { count: 1, ..blocks }, bytes.as_mut_ptr(), 0) }.unwrap();
        let asked = costs(process).0 - requests;
        assert!(asked >= 3, "{asked} requests were under way");
        drop(access);
        read(file, &blocks, 100, || ());
        let (requests, misses) = (costs(process).0 - requests, costs(process).1 - misses);
        assert!(misses == 4 * MIB / PAGE && requests <= 6, "{requests} requests for {misses} pages");
        let before = costs(process);
        read(file, &blocks, 100, || ());
        assert_eq!(costs(process), before, "all of them are in the cache");
    });
}

#[test]
fn long_blocks_are_asked_for_together() {
    with_file_elsewhere(|process, file| {
        let blocks = Blocks { start: PAGE, length: PAGE, stride: 4 * PAGE, count: 64 };
        for (together, first) in [(64, 0), (1, PAGE)] {
            let blocks = Blocks { start: blocks.start + first, ..blocks };
            let before = costs(process);
            read(file, &blocks, together, || {
                let asked = costs(process).0 - before.0;
                assert!((3..8).contains(&asked), "{asked} requests were under way");
            });
            let (requests, misses) = (costs(process).0 - before.0, costs(process).1 - before.1);
            assert!(misses == 64 && requests < 8, "{requests} requests for {misses} pages");
            let before = costs(process);
            read(file, &blocks, together, || ());
            assert_eq!(costs(process), before, "all of them are in the cache");
        }
    });
}

#[test]
fn sparse_pieces_are_copied_from_pages_that_are_kept() {
    with_file_elsewhere(|process, file| {
        let mut bytes = vec![0; 4 * MIB as usize];
        file.read_at(FileOffset(4 * MIB), &mut bytes).unwrap();
        let before = costs(process);
        // Within pages, many to a page, and over the ends of some.
        for (start, length, stride) in [(100, 1000, 5 * PAGE), (0, 8, 64), (PAGE - 100, KIB, PAGE)] {
            let count = 4 * MIB / stride - 1;
            let blocks = Blocks { start: 4 * MIB + start, length, stride, count };
            read(file, &blocks, 3, || ());
            read(file, &blocks, count, || ());
            assert_eq!(costs(process), before, "{blocks:?}");
        }
        // Before, behind and between those that are kept.
        read(file, &Blocks { start: MIB + 50_000, length: 30_000, stride: 2 * PAGE, count: 100 }, 100, || ());
        let (requests, misses) = costs(process);
        assert!((1..=4).contains(&(requests - before.0)) && misses == before.1);
    });
}

#[test]
fn accesses_in_a_row_are_read_ahead() {
    with_file_elsewhere(|process, file| {
        // Pieces with gaps, and gaps between accesses.
        let before = costs(process);
        for access in 0..64 {
            let start = access * 256 * KIB;
            read(file, &Blocks { start, length: 4 * KIB, stride: 6 * KIB, count: 32 }, 32, || ());
        }
        let asked = costs(process).0 - before.0;
        assert!(asked < 40, "{asked} requests for 64 accesses");
    });
    with_file_elsewhere(|process, file| {
        // Rows of which others read as many each.
        let row = |start| Blocks { start, length: PAGE, stride: 4 * PAGE, count: 4 };
        let before = costs(process);
        for access in 0..16 {
            read(file, &row(PAGE + access * 16 * PAGE), 4, || ());
            let (fetched, needed) = (costs(process).1 - before.1, 4 * (access + 1));
            let ahead = if access < 2 { 0..=0 } else { 4..=20 };
            assert!(ahead.contains(&(fetched - needed)), "{fetched} pages of {needed}");
        }
    });
}
