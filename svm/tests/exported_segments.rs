//! Exported segments take descriptors. Alone in its process, for these are counted.

#[path = "job/mod.rs"]
mod job;

use std::fs::File;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use svmio_svm::{CacheSettings, FileName, FileOffset, OpenOptions, SegmentSize};

const SEGMENT: usize = 64 << 10;
const DESCRIPTORS: u64 = 1024;
/// One more than this process may have descriptors, and then some.
const SEGMENTS: usize = 1200;

#[test]
fn who_writes_to_more_segments_than_their_home_may_have_descriptors_is_not_told_of_it() {
    setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), ..getrlimit(Resource::Nofile) })
        .expect("it is no more than it was");
    let (_directory, stores) = job::stores(2);
    job::run(&stores, &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        let open = |text| process.open(&FileName::new(text).expect("it is a name"), &options);
        let file = open("f").expect("the file opens");
        let at = |segment| FileOffset((segment * SEGMENT) as u64);
        let touch = |segment| file.write_at(at(segment), &[99]).expect("it is written");
        let straight = || process.cluster.statistics().straight.writes;
        process.cluster.set_long_write(Some(1));
        let content = |segment: usize| vec![segment as u8; SEGMENT];
        let write = |segment| file.write_at(at(segment), &content(segment)).expect("it is written");
        // The home has none left.
        if process.rank() == 1 {
            touch(0);
        }
        process.sync(&file).expect("it is synced");
        if process.rank() == 0 {
            let taken: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
            write(0);
            drop(taken);
            assert_eq!(straight(), 0);
        }
        // It keeps some for other things.
        process.meet();
        if process.rank() == 1 {
            (1..SEGMENTS).for_each(touch);
        }
        process.sync(&file).expect("it is synced");
        if process.rank() == 0 {
            (1..SEGMENTS).for_each(write);
            assert_eq!(straight(), DESCRIPTORS / 4);
        }
        process.sync(&file).expect("it is synced");
        let mut bytes = vec![0; SEGMENT];
        for segment in 0..SEGMENTS {
            assert_eq!(file.read_at(at(segment), &mut bytes).expect("it is read"), SEGMENT);
            assert!(bytes == content(segment), "segment {segment}");
        }
        process.close(open("another").expect("another file opens")).expect("it is closed");
        process.close(file).expect("it is closed");
    });
}
