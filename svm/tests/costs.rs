//! What files that several nodes share cost: pages that are fetched again after a sync, and requests for new segments.

mod job;

use job::{Process, stores};
use svmio_svm::{CacheSettings, File, FileName, FileOffset, OpenOptions, SegmentSize};

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
