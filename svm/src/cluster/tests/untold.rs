//! Changes of processes that are killed before they tell of them.

use std::time::{Duration, Instant};

use svmio_transport::Rank;

use super::job::{self, Process};
use super::{PAGE, read};
use crate::{CacheSettings, File, FileName, FileOffset, OpenOptions, SegmentSize};

const SEGMENT: u64 = 1 << 20;

/// A reader on the first node; the home's leader on the second one, and where the writer is.
fn check(node_of_writer: usize) {
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run([&stores[0], &stores[1], &stores[node_of_writer]], &cache, |process| {
        let options = OpenOptions::read_write().create(true);
        let options = options.segment_size(Some(SegmentSize::new(SEGMENT).unwrap()));
        let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
        if process.rank() == 1 {
            file.write_at(FileOffset(0), &[1; SEGMENT as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 0 {
            assert_eq!([0, 40].map(|page| read(&file, page * PAGE)), [[1]; 2]);
        }
        process.meet();
        if process.rank() == 2 {
            process.cluster.set_long_write(Some(1));
            let straight = process.cluster.statistics().straight.writes;
            file.write_at(FileOffset(0), &[2; PAGE as usize]).unwrap();
            let expected = u64::from(node_of_writer != 1);
            assert_eq!(process.cluster.statistics().straight.writes - straight, expected);
            process.job.declare_lost(Rank(2), "the test says so");
            // It goes no further, and so tells nobody.
            std::mem::forget(file);
            process.meet();
        } else {
            process.meet();
            if process.rank() == 0 {
                find(process, &file, 2);
                assert_eq!(read(&file, 40 * PAGE), [1]);
            }
        }
        process.meet();
    });
}

/// Looks for what is new until the first byte is `expected`: the home hears of a loss when it is told.
fn find(process: &Process<'_>, file: &File, expected: u8) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        file.refresh().unwrap();
        if read(file, 0) == [expected] {
            return;
        }
        let versions = process.cluster.statistics().requests.get("versions").copied();
        assert!(
            Instant::now() < deadline,
            "it is never found to be old, for all that is asked: {versions:?}"
        );
        std::thread::yield_now();
    }
}

#[test]
fn what_a_lost_process_wrote_straight_and_did_not_tell_of_is_found_by_others() {
    check(2);
}

#[test]
fn what_a_lost_process_of_the_home_stored_and_did_not_tell_of_is_found_by_others() {
    check(1);
}
