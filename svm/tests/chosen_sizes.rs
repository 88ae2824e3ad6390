//! A size of segments that the first collective write has chosen: every node goes by it, and so does whoever looks at the
//! file, also where nobody comes to commit anything.

mod job;

use std::cell::{Cell, RefCell};

use job::stores;
use svmio_svm::{
    Blocks, CacheSettings, Cluster, DirectoryName, File, FileName, FileOffset, OpenOptions, Placement,
    SegmentIndex, SegmentSize, SizeReason, StoreSet,
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

/// Where the second node writes beside the first one's [`bytes`]: in three segments of the size before.
const FAR: u64 = 1 << 20;
const STRIDE: u64 = 3 * SEGMENT / 2;
const FAR_END: u64 = 4 * FAR;

/// The size before.
fn before() -> SegmentSize {
    SegmentSize::new(FAR).expect("it is a size")
}

/// Bytes that lie `STRIDE` from each other.
fn far() -> Vec<u8> {
    (0..(FAR_END - FAR) / STRIDE).map(|number| (number % 255 + 1) as u8).collect()
}

fn write_far(file: &File) {
    let far = far();
    let mut write = file
        .write_strided(FileOffset(FAR)..FileOffset(FAR_END), far.len() as u64)
        .expect("it can be written");
    let blocks = Blocks { start: FAR, length: 1, stride: STRIDE, count: far.len() as u64 };
    // SAFETY: there are as many bytes.
    unsafe { write.put(&blocks, far.as_ptr(), 1) }.expect("it can be written");
    write.finish().expect("it can be written");
    // Across what was the end of a segment.
    file.write_at(FileOffset(FAR_END - 5), b"far and on").expect("it can be written");
}

/// That the file has what both nodes have written, and nothing else.
fn check_near_and_far(file: &File) {
    let found = content(file);
    let mut expected = bytes();
    expected.resize(FAR_END as usize + 5, 0);
    for (number, byte) in far().into_iter().enumerate() {
        expected[(FAR + number as u64 * STRIDE) as usize] = byte;
    }
    expected[FAR_END as usize - 5..].copy_from_slice(b"far and on");
    let different = || found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert!(found == expected, "{} bytes instead of {}, {:?}", found.len(), expected.len(), different());
}

/// Has the second node do something in the course of which it calls the function that it is given: before that returns,
/// the first node chooses a size. Then both write, and find what was written.
fn while_a_size_is_chosen(write: impl Fn(&File, &dyn Fn(&File)) + Sync) {
    let (_directory, stores) = stores(2);
    let set = StoreSet::new(stores[0].clone(), stores[1..].to_vec()).expect("they are of different nodes");
    let options = OpenOptions::read_write().create(true).segment_size(Some(before()));
    job::run(&stores, &CacheSettings::default(), |process| {
        let file = process.open(&name(), &options).expect("it can be made");
        let choose_here = |file: &File| {
            process.meet();
            if process.rank() == 0 {
                choose(file);
            }
            process.meet();
        };
        match process.rank() {
            0 => choose_here(&file),
            _ => write(&file, &choose_here),
        }
        assert_eq!(file.segment_size(), SegmentSize::MIN);
        match process.rank() {
            0 => file.write_at(FileOffset(0), &bytes()).expect("it can be written"),
            _ => write_far(&file),
        }
        process.sync(&file).expect("all nodes are there");
        check_near_and_far(&file);
        process.close(file).expect("all nodes are there");
    });
    job::run(&stores, &CacheSettings::default(), |process| {
        let file = process.open(&name(), &OpenOptions::reading()).expect("no segment is damaged");
        check_near_and_far(&file);
        process.close(file).expect("all nodes are there");
    });
    assert!(set.verify(&DirectoryName::root()).expect("all is there").is_clean());
}

#[test]
fn a_write_that_has_counted_by_the_size_before_counts_anew() {
    while_a_size_is_chosen(|file, choose| {
        let before = file.segment_size();
        choose(file);
        // As it was read just before.
        file.note_segment_size(before);
        write_far(file);
    });
}

#[test]
fn segments_counted_by_the_size_before_are_not_placed_ahead() {
    while_a_size_is_chosen(|file, choose| {
        let all = FileOffset(FAR)..FileOffset(FAR_END);
        let asked = Cell::new(0);
        let written = |size| {
            asked.set(asked.get() + 1);
            let counted = file.unplaced(all.clone());
            assert_eq!((size, counted.len()), (before(), 3));
            choose(file);
            counted
        };
        file.place_ahead(all.clone(), FAR_END - FAR, &written).unwrap();
        assert_eq!(asked.get(), 1);
        assert_eq!(file.unplaced(FileOffset(0)..all.end).len() as u64, FAR_END / SEGMENT);
    });
}

#[test]
fn segments_to_be_written_under_a_lock_are_counted_anew() {
    while_a_size_is_chosen(|file, choose| {
        let all = FileOffset(FAR)..FileOffset(FAR_END);
        let sizes = RefCell::new(Vec::new());
        let written = |size: SegmentSize| {
            sizes.borrow_mut().push(size);
            if size == before() {
                choose(file);
            }
            vec![SegmentIndex((FAR / size.bytes()) as u32)]
        };
        let lock = file.lock_to_write(all.clone(), &written).unwrap();
        assert_eq!(*sizes.borrow(), [before(), SegmentSize::MIN]);
        file.write_at(all.start, b"\x01").unwrap();
        lock.release().unwrap();
    });
}
