//! Jobs that end in the middle of what concerns several nodes, and jobs that know nothing of each other.

use std::fs;

use super::job::{self, Process, stores};
use svmio_svm::{
    CacheSettings, DirectoryName, Error, File, FileName, FileOffset, NodeIndex, OpenOptions, SegmentIndex,
    SegmentSize, Store, StoreSet,
};
use svmio_transport::Rank;

const SEGMENT: u64 = 1 << 16;

/// Runs `body` as each rank of a job, each on a node of its own.
fn job<'s>(stores: impl IntoIterator<Item = &'s Store>, body: impl Fn(&Process<'_>) + Sync) {
    job::run(stores, &CacheSettings::default(), body);
}

fn name(text: &str) -> FileName {
    FileName::new(text).expect("it is a name")
}

fn open(process: &Process<'_>) -> File {
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
    process.open(&name("/f"), &options).expect("the file opens")
}

fn byte(file: &File, at: u64) -> u8 {
    let mut byte = [77];
    assert_eq!(file.read_at(FileOffset(at), &mut byte).expect("it can be read"), 1);
    byte[0]
}

fn set(stores: &[Store]) -> StoreSet {
    StoreSet::new(stores[0].clone(), stores[1..].iter().cloned()).expect("they are of different nodes")
}

/// A file whose segments 0 and 1 are committed on both nodes, and of whose segment 3 the first one says that it lies on
/// the second, which has never heard of it: the job ended between the first one's commit and that.
fn cut_off_in_a_commit(stores: &[Store]) {
    job(stores, |process| {
        let file = open(process);
        file.write_at(FileOffset(u64::from(process.rank()) * SEGMENT), &[1; 100]).expect("it can be written");
        process.sync(&file).expect("all see it");
        process.meet();
        if process.rank() == 0 {
            file.place(&[(SegmentIndex(3), NodeIndex(1))], 1).expect("it can be placed");
            file.set_size(4 * SEGMENT).expect("it can grow");
            process.job.declare_lost(Rank(1), "the test says so");
            let error = file.commit(true).expect_err("the home is lost").to_string();
            assert!(error.contains("n1"), "{error}");
        }
        process.meet();
    });
}

#[test]
fn a_segment_that_its_home_never_heard_of_is_a_hole() {
    let (_directory, stores) = stores(2);
    cut_off_in_a_commit(&stores);
    let file = set(&stores).open(&name("/f")).unwrap();
    assert_eq!(file.size(), 4 * SEGMENT);
    let mut bytes = [9; 10];
    assert_eq!(file.read_at(FileOffset(3 * SEGMENT), &mut bytes).unwrap(), 10);
    assert_eq!(bytes, [0; 10]);
    for is_turned in [true, false] {
        let turned: Vec<_> = if is_turned { stores.iter().rev().collect() } else { stores.iter().collect() };
        job(turned, |process| {
            let file = open(process);
            assert_eq!(file.size(), 4 * SEGMENT);
            assert_eq!(
                [0, 1, 3].map(|segment| byte(&file, segment * SEGMENT)),
                [1, 1, u8::from(!is_turned) * 2]
            );
            process.meet();
            if process.rank() == 0 {
                file.write_at(FileOffset(3 * SEGMENT), &[2; 10]).unwrap();
            }
            process.sync(&file).unwrap();
            process.close(file).unwrap();
        });
    }
    assert!(set(&stores).verify(&DirectoryName::root()).unwrap().is_clean());
}

#[test]
fn verify_mends_a_store_that_never_heard_of_a_segment_so_that_the_file_stays_usable() {
    let (_directory, stores) = stores(2);
    cut_off_in_a_commit(&stores);
    let report = set(&stores).verify(&DirectoryName::root()).unwrap();
    assert!(report.is_clean() && report.repaired.len() == 1, "{report:?}");
    assert!(set(&stores).verify(&DirectoryName::root()).unwrap().is_clean());
    job(&stores, |process| assert_eq!(byte(&open(process), 3 * SEGMENT), 0));
}

#[test]
fn a_segment_that_its_home_had_and_lost_is_no_hole() {
    let (_directory, stores) = stores(2);
    cut_off_in_a_commit(&stores);
    let objects = fs::read_dir(stores[1].path().join("objects")).unwrap();
    let segments = objects.flat_map(|object| fs::read_dir(object.unwrap().path()).unwrap());
    let paths = segments.map(|segment| segment.unwrap().path());
    let segment = paths.into_iter().find(|path| path.display().to_string().contains("/segment-"));
    fs::remove_file(segment.unwrap()).unwrap();
    let expected = |error: &str| assert!(error.contains("segment 1 of"), "{error}");
    expected(&set(&stores).open(&name("/f")).unwrap().segments().unwrap_err().to_string());
    job(&stores, |process| {
        expected(&process.open(&name("/f"), &OpenOptions::read_write()).unwrap_err());
    });
}

#[test]
fn two_jobs_that_filled_one_empty_file_on_different_nodes_lose_nothing() {
    let (_directory, stores) = stores(2);
    job(&stores, |process| process.close(open(process)).unwrap());
    for (number, store) in stores.iter().enumerate() {
        job([store], |process| {
            let file = open(process);
            file.write_at(FileOffset(0), &[number as u8 + 1; 10]).unwrap();
            process.sync(&file).unwrap();
            process.close(file).unwrap();
        });
    }
    let told = |error: &str| {
        let parts = ["segment 0 of /f lies on node n0 and another one on node n1", "svmio cp", "svmio rm"];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    job(&stores, |process| told(&process.open(&name("/f"), &OpenOptions::read_write()).unwrap_err()));
    let both = set(&stores);
    told(&both.open(&name("/f")).unwrap_err().to_string());
    let report = both.verify(&DirectoryName::root()).unwrap();
    assert!(
        matches!(&report.damaged[..], [(_, Error::TwoHomes { .. })]) && report.repaired.is_empty(),
        "{report:?}"
    );
    // Neither has lost anything, and the way out is one.
    for (number, store) in stores.iter().enumerate() {
        let mut bytes = [0; 10];
        StoreSet::from(store.clone()).open(&name("/f")).unwrap().read_at(FileOffset(0), &mut bytes).unwrap();
        assert_eq!(bytes, [number as u8 + 1; 10]);
    }
    StoreSet::from(stores[0].clone()).remove(&name("/f"), false).unwrap();
    job(&stores, |process| {
        let file = process.open(&name("/f"), &OpenOptions::read_write()).unwrap();
        assert_eq!(byte(&file, 0), 2);
    });
}
