//! A size of segments that the first collective write has chosen: every node goes by it, and so does whoever looks at the
//! file, also where nobody comes to commit anything.

mod job;

use job::stores;
use svmio_svm::{
    CacheSettings, Cluster, DirectoryName, File, FileName, FileOffset, OpenOptions, Placement, SegmentSize,
    SizeReason, StoreSet,
};

const SEGMENT: u64 = 1 << 16;
const SEGMENTS: u64 = 12;

fn name() -> FileName {
    FileName::new("f").expect("it is a name")
}

/// No two segments of it are alike.
fn bytes() -> Vec<u8> {
    (0..SEGMENTS * SEGMENT).map(|at| (at / SEGMENT + 1) as u8).collect()
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut bytes).expect("it can be read"), bytes.len());
    bytes
}

fn choose(file: &File) {
    let chosen = file.choose_segment_size(SegmentSize::MIN, SizeReason::Spreading);
    assert_eq!(chosen.expect("all nodes are there"), SegmentSize::MIN);
}

#[test]
fn a_node_that_has_not_opened_the_file_takes_segments_of_the_size_that_was_chosen() {
    let (_directory, stores) = stores(3);
    let set = StoreSet::new(stores[0].clone(), stores[1..].to_vec()).unwrap();
    job::run(&stores, &CacheSettings::default(), |process| {
        let (cluster, options) = (&process.cluster, OpenOptions::read_write().create(true));
        if process.rank() == 1 {
            let options = options.clone().placement(Placement::RoundRobin);
            let introduction = cluster.open(&name(), &options, &[cluster.own_node()]).unwrap();
            let file = Cluster::attach(cluster, &introduction, &options).unwrap();
            choose(&file);
            file.write_at(FileOffset(0), &bytes()).unwrap();
            file.flush().unwrap();
            // Nothing was committed since.
            let seen = set.open(&name()).unwrap();
            assert_eq!(seen.segment_size(), SegmentSize::MIN);
            let mut read = bytes();
            read.fill(0);
            assert_eq!(seen.read_at(FileOffset(0), &mut read).unwrap(), read.len());
            assert!(read == bytes(), "by the stores");
            file.commit(true).unwrap();
            file.closed_by_all().unwrap();
        }
        process.meet();
        let file = process.open(&name(), &options).unwrap();
        assert_eq!(file.segment_size(), SegmentSize::MIN);
        assert!(content(&file) == bytes(), "rank {}", process.rank());
        process.close(file).unwrap();
    });
    job::run(&stores, &CacheSettings::default(), |process| {
        let file =
            process.open(&name(), &OpenOptions::reading()).expect("its segments are as they should be");
        assert!(content(&file) == bytes(), "rank {} of the next job", process.rank());
        process.close(file).unwrap();
    });
    let report = set.verify(&DirectoryName::root()).unwrap();
    assert!(report.is_clean() && report.files.len() == 1, "{report:?}");
}

#[test]
fn a_file_that_was_never_committed_is_opened_by_the_next_job() {
    let (_directory, stores) = stores(2);
    let options = OpenOptions::read_write().create(true);
    job::run(&stores, &CacheSettings::default(), |process| {
        let file = process.open(&name(), &options).unwrap();
        if process.rank() == 0 {
            choose(&file);
        }
        process.meet();
        file.note_segment_size(SegmentSize::MIN);
        process.meet();
        // Each node a half, and the job ends without another word.
        let half = bytes().len() / 2;
        let start = half * process.rank() as usize;
        file.write_at(FileOffset(start as u64), &bytes()[start..start + half]).unwrap();
        process.meet();
    });
    job::run(&stores, &CacheSettings::default(), |process| {
        let file = process.open(&name(), &options).expect("what was written is found");
        assert_eq!(file.segment_size(), SegmentSize::MIN);
        process.sync(&file).unwrap();
        assert!(content(&file) == bytes(), "rank {}", process.rank());
        process.close(file).unwrap();
    });
}
