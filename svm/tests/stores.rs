//! Several nodes' stores, looked at by somebody who is in no job.

mod job;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use job::{Process, stores};
use proptest::prelude::*;
use svmio_svm::{
    CacheSettings, DirectoryName, Entry, Error, FileName, FileOffset, NodeName, OpenOptions, Placement,
    SegmentSize, Store, StoreSet, StoredFile,
};

const SEGMENT: u64 = 1 << 16;

fn set(stores: &[Store]) -> StoreSet {
    StoreSet::new(stores[0].clone(), stores[1..].iter().cloned()).expect("they are of different nodes")
}

fn name(text: &str) -> FileName {
    FileName::new(text).expect("it is a name")
}

fn spread(placement: Placement) -> OpenOptions {
    OpenOptions::read_write().segment_size(Some(SegmentSize::MIN)).placement(placement)
}

fn put(set: &StoreSet, text: &str, content: &[u8]) {
    let size = content.len() as u64;
    let mut file =
        set.create(&name(text), &spread(Placement::RoundRobin), Some(size), false).expect("it can be made");
    file.write_at(FileOffset(0), content).expect("it can be written");
    file.finish(size).expect("it can be finished");
}

fn content(file: &StoredFile) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut bytes).expect("it can be read"), bytes.len());
    bytes
}

fn pattern(length: u64) -> Vec<u8> {
    (0..length).map(|at| (at / 1000) as u8).collect()
}

/// Runs `body` as each rank of a job, each on a node of its own.
fn job(stores: &[Store], body: impl Fn(&Process<'_>) + Sync) {
    job::run(stores, &CacheSettings::default(), body);
}

#[test]
fn a_running_job_is_read_and_not_disturbed() {
    let (_directory, stores) = stores(2);
    let set = set(&stores);
    let expected = pattern(4 * SEGMENT);
    job(&stores, |process| {
        let file = process.open(&name("/f"), &spread(Placement::FirstTouch).create(true)).unwrap();
        for segment in (u64::from(process.rank())..4).step_by(2) {
            let at = segment * SEGMENT;
            file.write_at(FileOffset(at), &expected[at as usize..(at + SEGMENT) as usize]).unwrap();
        }
        file.flush().unwrap();
        process.meet();
        if process.rank() == 0 {
            // Nothing has been committed yet.
            let seen = set.open(&name("/f")).unwrap();
            assert!(content(&seen) == expected);
            let homes: Vec<_> = seen.segments().unwrap().into_iter().map(|s| s.home.to_string()).collect();
            assert_eq!(homes, ["n0", "n1", "n0", "n1"]);
            let report = set.verify(&DirectoryName::root()).unwrap();
            assert!(
                report.is_clean() && report.reclaimed.is_empty() && report.repaired.is_empty(),
                "{report:?}"
            );
            file.commit(true).unwrap();
            // It goes on as if nobody had looked.
            file.write_at(FileOffset(5), b"more").unwrap();
        }
        process.sync(&file).unwrap();
        let mut more = [0; 4];
        file.read_at(FileOffset(5), &mut more).unwrap();
        assert_eq!(&more, b"more");
        process.close(file).unwrap();
    });
    let mut expected = expected;
    expected[5..9].copy_from_slice(b"more");
    assert!(content(&set.open(&name("/f")).unwrap()) == expected);
    assert!(set.verify(&DirectoryName::root()).unwrap().is_clean());
}

#[test]
fn a_job_opens_what_was_spread() {
    let (_directory, stores) = stores(2);
    let set = set(&stores);
    let expected = pattern(5 * SEGMENT + 77);
    put(&set, "/d/f", &expected);
    job(&stores, |process| {
        let file = process.open(&name("/d/f"), &OpenOptions::reading()).unwrap();
        let mut bytes = vec![0; file.size() as usize];
        file.read_at(FileOffset(0), &mut bytes).unwrap();
        assert!(bytes == expected);
        process.close(file).unwrap();
    });
}

#[test]
fn a_part_out_of_reach_is_named_and_the_rest_is_read() {
    let (_directory, stores) = stores(3);
    put(&set(&stores), "/f", &pattern(6 * SEGMENT));
    let two = set(&stores[..2]);
    let file = two.open(&name("/f")).unwrap();
    assert_eq!(file.size(), 6 * SEGMENT);
    let error = file.check_whole().unwrap_err().to_string();
    assert!(error.contains("segments 2 and 5 lie on node n2, which is not among"), "{error}");
    assert_eq!(file.segments().unwrap().iter().filter(|segment| segment.stored.is_none()).count(), 2);
    let mut within = vec![0; 2 * SEGMENT as usize];
    file.read_at(FileOffset(0), &mut within).unwrap();
    assert!(within == pattern(2 * SEGMENT));
    let across = file.read_at(FileOffset(SEGMENT), &mut within).unwrap_err();
    assert!(
        matches!(across, Error::StoresMissing { .. }) && !across.to_string().contains("segment 5"),
        "{across}"
    );
    let report = two.verify(&DirectoryName::root()).unwrap();
    assert!(report.is_clean() && report.unseen.len() == 1, "{report:?}");
}

#[test]
fn what_is_on_no_node_whole_is_removed_only_with_all_or_by_force() {
    let (_directory, stores) = stores(3);
    let (all, two) = (set(&stores), set(&stores[1..]));
    for (file, set, force) in [("/a", &all, false), ("/b", &two, true)] {
        put(&all, file, &pattern(6 * SEGMENT));
        assert!(matches!(two.remove(&name(file), false), Err(Error::StoresMissing { .. })));
        set.remove(&name(file), force).unwrap();
        for store in set.stores() {
            assert!(matches!(store.lookup(&name(file)), Err(Error::NoSuchFile { .. })));
        }
    }
    assert!(matches!(all.open(&name("/a")), Err(Error::NoSuchFile { .. })));
    assert!(stores[0].lookup(&name("/b")).is_ok());
}

#[test]
fn files_of_one_name_are_not_mixed_up() {
    let (_directory, stores) = stores(2);
    for store in &stores {
        put(&set(std::slice::from_ref(store)), "/f", store.node().as_str().as_bytes());
    }
    let both = set(&stores);
    assert!(matches!(both.open(&name("/f")), Err(Error::TwoFiles { .. })));
    assert!(matches!(both.remove(&name("/f"), true), Err(Error::TwoFiles { .. })));
    assert_eq!(both.list(&DirectoryName::root()).unwrap(), [Entry::File(name("/f"), None)]);
    let report = both.verify(&DirectoryName::root()).unwrap();
    assert!(report.damaged.len() == 1 && report.reclaimed.is_empty(), "{report:?}");
    assert_eq!(content(&set(&stores[1..]).open(&name("/f")).unwrap()), b"n1");
}

#[test]
fn a_store_is_given_once_and_a_node_has_one() {
    let (directory, stores) = stores(1);
    assert_eq!(StoreSet::new(stores[0].clone(), [stores[0].clone()]).unwrap().stores().len(), 1);
    let other = Store::open_for(&directory.path().join("other"), &NodeName::new("n0")).unwrap();
    let error = StoreSet::new(stores[0].clone(), [other]).unwrap_err();
    assert!(matches!(error, Error::TwoStores { .. }), "{error}");
}

fn manifest(store: &Store, file: &str) -> std::path::PathBuf {
    let id = store.lookup(&name(file)).expect("the store has it").to_string();
    store.path().join("objects").join(id).join("manifest")
}

#[test]
fn a_damaged_manifest_is_replaced_by_the_newest() {
    let (_directory, stores) = stores(3);
    let all = set(&stores);
    let expected = pattern(6 * SEGMENT);
    put(&all, "/f", &expected);
    let whole = fs::read(manifest(&stores[0], "/f")).unwrap();
    fs::write(manifest(&stores[1], "/f"), "nonsense").unwrap();
    let error = all.open(&name("/f")).unwrap_err();
    assert!(matches!(error, Error::CorruptManifest { .. }) && error.to_string().contains("n1"), "{error}");
    let report = all.verify(&DirectoryName::root()).unwrap();
    assert!(report.is_clean() && report.repaired == [manifest(&stores[1], "/f")], "{report:?}");
    assert!(fs::read(manifest(&stores[1], "/f")).unwrap() == whole);
    assert!(content(&all.open(&name("/f")).unwrap()) == expected);
    assert!(all.verify(&DirectoryName::root()).unwrap().repaired.is_empty());

    // The newest is lost, and the others do not tell of what lies there.
    let segment = manifest(&stores[1], "/f").with_file_name("segment-0000000099");
    fs::write(&segment, vec![1; SEGMENT as usize]).unwrap();
    fs::write(manifest(&stores[1], "/f"), "nonsense").unwrap();
    assert!(!all.verify(&DirectoryName::root()).unwrap().is_clean());
    assert!(segment.exists());
}

#[test]
fn an_older_manifest_is_replaced_by_the_newest() {
    let (_directory, stores) = stores(2);
    let all = set(&stores);
    put(&all, "/f", &pattern(2 * SEGMENT));
    let older = fs::read(manifest(&stores[1], "/f")).unwrap();
    job(&stores, |process| {
        let file = process.open(&name("/f"), &OpenOptions::read_write()).unwrap();
        if process.rank() == 0 {
            file.write_at(FileOffset(2 * SEGMENT), b"more").unwrap();
        }
        process.close(file).unwrap();
    });
    let newer = fs::read(manifest(&stores[1], "/f")).unwrap();
    assert!(newer != older && newer == fs::read(manifest(&stores[0], "/f")).unwrap());
    // As if node 1 had lost power before the commit reached it.
    fs::write(manifest(&stores[1], "/f"), &older).unwrap();
    let mut expected = pattern(2 * SEGMENT);
    expected.extend(b"more");
    assert!(content(&all.open(&name("/f")).unwrap()) == expected);
    let report = all.verify(&DirectoryName::root()).unwrap();
    assert!(report.is_clean() && report.repaired == [manifest(&stores[1], "/f")], "{report:?}");
    assert!(fs::read(manifest(&stores[1], "/f")).unwrap() == newer);
    assert!(content(&all.open(&name("/f")).unwrap()) == expected);
}

#[test]
fn a_lost_part_and_a_lost_name_are_found() {
    let (_directory, stores) = stores(3);
    let all = set(&stores);
    put(&all, "/f", &pattern(6 * SEGMENT));
    fs::remove_file(stores[2].path().join("names/f")).unwrap();
    let report = all.verify(&DirectoryName::root()).unwrap();
    assert!(report.is_clean() && report.repaired.len() == 1 && report.reclaimed.is_empty(), "{report:?}");
    stores[2].lookup(&name("/f")).unwrap();
    fs::remove_file(manifest(&stores[2], "/f").with_file_name("segment-0000000005")).unwrap();
    let report = all.verify(&DirectoryName::root()).unwrap();
    assert!(matches!(report.damaged[..], [(_, Error::MissingSegment { .. })]), "{report:?}");
    // Looking at the others' parts alone finds no fault with them.
    assert!(set(&stores[..2]).verify(&DirectoryName::root()).unwrap().is_clean());
}

#[test]
fn unfinished_objects_of_other_nodes_are_reclaimed_once_they_are_old() {
    let (_directory, stores) = stores(1);
    let [young, old] =
        ["young", "old"].map(|age| stores[0].path().join("objects").join(format!(".installing-{age}")));
    for directory in [&young, &old] {
        fs::create_dir_all(directory.join("object")).unwrap();
        fs::write(directory.join("object/manifest"), "x").unwrap();
    }
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::open(&old).unwrap().set_modified(long_ago).unwrap();
    let report = set(&stores).verify(&DirectoryName::root()).unwrap();
    assert_eq!(report.reclaimed, std::slice::from_ref(&old));
    assert!(young.exists() && !old.exists());
}

#[test]
fn stores_are_looked_over_while_files_come_and_go() {
    let (_directory, stores) = stores(2);
    let (set, root) = (set(&stores), DirectoryName::root());
    put(&set, "stays", b"here");
    // Relaxed: it tells of nothing else.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // In turn a file, and a directory with one.
                for text in ["come/and/go", "come"] {
                    let made = stores[0].open_file(&name(text), &OpenOptions::read_write().create(true));
                    drop(made.expect("it can be made"));
                    stores[0].remove(&name(text)).expect("it can be removed");
                }
            }
        });
        let looked = std::panic::catch_unwind(|| {
            for _ in 0..100 {
                let ids =
                    [stores[0].files(&root), set.files(&root)].map(|files| files.map(|files| files.len()));
                assert!(ids.iter().all(|count| matches!(count, Ok(1..=2))), "{ids:?}");
                assert!(
                    set.verify(&root).expect("nothing keeps it from looking").files.contains(&name("stays"))
                );
            }
        });
        is_over.store(true, Ordering::Relaxed);
        looked.unwrap();
    });
}

#[derive(Debug, Clone)]
struct Piece {
    at: u64,
    length: u64,
    byte: u8,
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece =
        (0..12 * SEGMENT, 1..3 * SEGMENT, 1u8..).prop_map(|(at, length, byte)| Piece { at, length, byte });
    prop::collection::vec(piece, 0..6)
}

fn placements() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::FirstTouch),
        Just(Placement::RoundRobin),
        Just(Placement::Block),
        Just(Placement::Node(NodeName::new("n1"))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_spread_is_what_is_read(
        count in 1usize..5, mut pieces in pieces(), tail in 0..SEGMENT * 2, placement in placements(),
        reads in prop::collection::vec((0..16 * SEGMENT, 0..4 * SEGMENT), 1..6),
    ) {
        let (_directory, stores) = stores(count.max(2));
        let all = set(&stores);
        // As a copy writes: each piece behind the one before.
        pieces.sort_by_key(|piece| piece.at);
        let size = pieces.iter().map(|piece| piece.at + piece.length).max().unwrap_or(0) + tail;
        let mut oracle = vec![0u8; size as usize];
        let mut file = all.create(&name("/p"), &spread(placement), Some(size), false).unwrap();
        for Piece { at, length, byte } in &pieces {
            let data = vec![*byte; *length as usize];
            oracle[*at as usize..(at + length) as usize].copy_from_slice(&data);
            file.write_at(FileOffset(*at), &data).unwrap();
        }
        prop_assert!(all.list(&DirectoryName::root()).unwrap().is_empty());
        file.finish(size).unwrap();
        // In whatever order the stores are given.
        let turned: Vec<_> = stores.iter().rev().cloned().collect();
        for set in [&all, &set(&turned)] {
            let file = set.open(&name("/p")).unwrap();
            prop_assert!(content(&file) == oracle);
            for (at, length) in &reads {
                let mut bytes = vec![7; *length as usize];
                let read = file.read_at(FileOffset(*at), &mut bytes).unwrap();
                let from = oracle.len().min(*at as usize);
                let to = oracle.len().min((at + length) as usize);
                prop_assert!(bytes[..read] == oracle[from..to]);
            }
            let mut at = 0;
            let mut covered = vec![false; oracle.len()];
            while let Some(data) = file.next_data(FileOffset(at)).unwrap() {
                covered[data.start.0 as usize..data.end.0 as usize].fill(true);
                at = data.end.0;
            }
            prop_assert!(oracle.iter().zip(covered).all(|(byte, covered)| covered || *byte == 0));
            let report = set.verify(&DirectoryName::root()).unwrap();
            prop_assert!(report.is_clean() && report.reclaimed.is_empty() && report.unseen.is_empty(), "{:?}", report);
        }
        // Replacing leaves nothing of it, wherever its parts were.
        let mut other = all.create(&name("/p"), &spread(Placement::FirstTouch), None, true).unwrap();
        other.write_at(FileOffset(0), b"new").unwrap();
        other.finish(3).unwrap();
        prop_assert_eq!(content(&all.open(&name("/p")).unwrap()), b"new");
        let objects = |store: &Store| fs::read_dir(store.path().join("objects")).unwrap().count();
        prop_assert_eq!(stores.iter().map(objects).sum::<usize>(), 1);
    }
}
