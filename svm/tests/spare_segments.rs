//! Storage of removed files that is kept for new ones: nobody sees what was there, and nobody misses the memory.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

mod mounts;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mounts::with_store_on;
use proptest::prelude::*;
use svmio_svm::{ErrorKind, File, FileName, FileOffset, OpenOptions, SegmentSize, Store};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A store in memory whose spares this process keeps.
fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::open(directory.path()).unwrap();
    store.keep_spares();
    (directory, store)
}

fn new_file(store: &Store, name: &str, segment: u64) -> File {
    let size = SegmentSize::new(segment).unwrap();
    let options = OpenOptions::read_write().create(true).exclusive(true).segment_size(Some(size));
    store.open_file(&FileName::new(name).unwrap(), &options).unwrap()
}

fn remove(store: &Store, name: &str) {
    store.remove(&FileName::new(name).unwrap()).unwrap();
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![1; file.size() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Bytes and inodes of what is kept.
fn spares(store: &Store) -> Vec<(u64, u64)> {
    let entries = std::fs::read_dir(store.path().join("spare")).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap()).map(|data| (data.len(), data.ino())).collect()
}

/// Where a file's segment lies.
fn segment(store: &Store, file: &File, index: u32) -> PathBuf {
    store.path().join(format!("objects/{}/segment-{index:010}", file.id()))
}

fn inode(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

#[test]
fn a_new_file_gets_the_storage_of_one_that_was_removed_and_nothing_that_was_in_it() {
    for size in [64 * KIB, 4 * MIB] {
        let (_directory, store) = store();
        let file = new_file(&store, "first", size);
        file.write_at(FileOffset(0), &vec![7; 2 * size as usize]).unwrap();
        let before = [0, 1].map(|index| inode(&segment(&store, &file, index)));
        drop(file);
        remove(&store, "first");
        let mut kept: Vec<_> = spares(&store);
        kept.sort_unstable();
        let mut expected = before.map(|inode| (size, inode)).to_vec();
        expected.sort_unstable();
        assert_eq!(kept, expected);

        let file = new_file(&store, "little", size);
        file.write_at(FileOffset(0), b"it has no need of a whole segment").unwrap();
        assert_eq!(spares(&store).len(), 2);
        let file = new_file(&store, "second", size);
        let (at, part) = (size / 4, size as usize / 8);
        file.write_at(FileOffset(at), &vec![5; part]).unwrap();
        assert!(before.contains(&inode(&segment(&store, &file, 0))) && spares(&store).len() == 1);
        file.set_size(size).unwrap();
        let mut expected = vec![0; size as usize];
        expected[at as usize..at as usize + part].fill(5);
        assert!(content(&file) == expected);
    }
}

#[test]
fn a_segment_that_another_process_is_about_to_make_is_left_to_it() {
    let (_directory, store) = store();
    let file = new_file(&store, "first", MIB);
    file.write_at(FileOffset(0), &vec![7; MIB as usize]).unwrap();
    drop(file);
    remove(&store, "first");
    let file = new_file(&store, "second", MIB);
    // It has not got further so far.
    std::fs::write(segment(&store, &file, 0), b"").unwrap();
    file.write_at(FileOffset(0), &vec![5; MIB as usize]).unwrap();
    assert!(content(&file) == vec![5; MIB as usize] && spares(&store).len() == 1);
}

#[test]
fn a_link_in_place_of_a_segment_goes_and_what_it_leads_to_stays_as_it_is() {
    let link: [fn(&PathBuf, &PathBuf) -> std::io::Result<()>; 2] =
        [|kept, at| std::os::unix::fs::symlink(kept, at), |kept, at| std::fs::hard_link(kept, at)];
    for (keeps, link) in [(true, link[0]), (true, link[1]), (false, link[0]), (false, link[1])] {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::open(&directory.path().join("store")).unwrap();
        if keeps {
            store.keep_spares();
        }
        let (kept, content) = (directory.path().join("kept"), vec![5; MIB as usize]);
        std::fs::write(&kept, &content).unwrap();
        let file = new_file(&store, "f", MIB);
        file.write_at(FileOffset(0), &vec![7; MIB as usize]).unwrap();
        let segment = segment(&store, &file, 0);
        drop(file);
        std::fs::remove_file(&segment).unwrap();
        link(&kept, &segment).unwrap();
        remove(&store, "f");
        assert!(!segment.exists() && std::fs::read(&kept).unwrap() == content);
        assert_eq!(std::fs::metadata(&kept).unwrap().nlink(), 1);
    }
}

#[test]
fn what_has_little_storage_is_not_kept_and_neither_is_what_is_open() {
    let (_directory, store) = store();
    let file = new_file(&store, "holes", MIB);
    file.write_at(FileOffset(0), &vec![7; MIB as usize / 2]).unwrap();
    drop(file);
    remove(&store, "holes");
    assert_eq!(spares(&store), []);

    let file = new_file(&store, "open", MIB);
    file.write_at(FileOffset(0), &vec![7; MIB as usize]).unwrap();
    remove(&store, "open");
    assert_eq!(spares(&store), []);
    assert!(content(&file) == vec![7; MIB as usize]);
    drop(file);
    assert_eq!(spares(&store).len(), 1);
}

#[test]
fn what_nobody_alive_keeps_is_removed_where_the_store_is_opened() {
    let (directory, first) = store();
    let left = |name: &str| {
        std::fs::write(directory.path().join("spare").join(name), vec![0; 64 << 10]).unwrap();
    };
    left("65536-7-0");
    left("going-1-0");
    let _another = Store::open(directory.path()).unwrap();
    assert_eq!(spares(&first).len(), 2, "this process is there");
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::open(directory.path()).unwrap();
    std::fs::create_dir(directory.path().join("spare")).unwrap();
    std::fs::write(directory.path().join("spare/65536-7-0"), vec![0; 64 << 10]).unwrap();
    std::fs::write(directory.path().join("spare/going-1-0"), vec![0; 64 << 10]).unwrap();
    std::fs::write(directory.path().join("spare/coming-65536-7-1"), vec![7; 64 << 10]).unwrap();
    let _another = Store::open(directory.path()).unwrap();
    assert_eq!(spares(&store), []);
}

#[test]
fn threads_that_make_and_remove_files_at_the_same_time_find_no_byte_of_each_others() {
    const SEGMENT: usize = 64 << 10;
    let (_directory, store) = store();
    let go = |thread: u8| {
        for turn in 0..60u8 {
            let name = format!("f{thread}");
            let file = new_file(&store, &name, SEGMENT as u64);
            let (at, length) = (usize::from(turn) * 997 % SEGMENT, SEGMENT + usize::from(thread) * 999);
            let mut expected = vec![0; at + length];
            expected[at..].fill(thread + 1);
            file.write_at(FileOffset(at as u64), &expected[at..]).unwrap();
            assert!(content(&file) == expected, "thread {thread}, turn {turn}");
            // Where the last segment ends there is nothing.
            file.set_size(4 * SEGMENT as u64).unwrap();
            expected.resize(4 * SEGMENT, 0);
            assert!(content(&file) == expected, "thread {thread}, turn {turn}");
            drop(file);
            remove(&store, &name);
        }
    };
    std::thread::scope(|scope| (0..8).for_each(|thread| drop(scope.spawn(move || go(thread)))));
    assert!(!spares(&store).is_empty());
}

#[test]
fn they_take_an_eighth_of_what_is_free_and_give_it_back_before_the_file_system_is_full() {
    const BYTES: u64 = 32 * MIB;
    for preallocates in [false, true] {
        with_store_on(&format!("size={BYTES}"), |store| {
            store.keep_spares();
            let file = new_file(store, "first", 64 * KIB);
            file.write_at(FileOffset(0), &vec![7; 24 << 20]).unwrap();
            drop(file);
            remove(store, "first");
            let kept: u64 = spares(store).iter().map(|(bytes, _)| bytes).sum();
            assert!((3 * MIB..=BYTES / 8).contains(&kept), "{kept} bytes are kept");
            // More than there is room for beside what is kept, and not in such segments.
            let file = new_file(store, "second", MIB);
            if preallocates {
                file.preallocate(30 * MIB).unwrap();
            } else {
                file.write_at(FileOffset(0), &vec![5; 30 << 20]).unwrap();
                assert!(content(&file) == vec![5; 30 << 20]);
            }
            assert_eq!(spares(store), []);
            let error = file.write_at(FileOffset(0), &vec![5; 40 << 20]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoSpace);
        });
    }
}

#[test]
fn all_who_find_the_file_system_full_at_the_same_time_get_what_is_given_back() {
    const WRITERS: u8 = 4;
    with_store_on("size=32m", |store| {
        store.keep_spares();
        for turn in 0..5 {
            let file = new_file(store, "first", 64 * KIB);
            file.write_at(FileOffset(0), &vec![7; 28 << 20]).unwrap();
            drop(file);
            remove(store, "first");
            assert!(spares(store).iter().map(|(bytes, _)| bytes).sum::<u64>() >= 3 * MIB);
            // Together nearly all that there is, and not in such segments.
            let write = |writer: u8| {
                let file = new_file(store, &format!("f{writer}"), MIB);
                let data = vec![writer + 1; 7 << 20];
                for (number, part) in data.chunks(100_000).enumerate() {
                    file.write_at(FileOffset(number as u64 * 100_000), part).unwrap();
                }
                assert!(content(&file) == data, "turn {turn}");
            };
            std::thread::scope(|scope| {
                (0..WRITERS).for_each(|writer| drop(scope.spawn(move || write(writer))))
            });
            (0..WRITERS).for_each(|writer| remove(store, &format!("f{writer}")));
        }
    });
}

#[test]
fn a_disk_has_none() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::open(directory.path()).unwrap();
    store.keep_spares();
    let file = new_file(&store, "f", MIB);
    file.write_at(FileOffset(0), &vec![7; MIB as usize]).unwrap();
    drop(file);
    remove(&store, "f");
    assert!(!store.path().join("spare").exists());
}

#[derive(Debug, Clone)]
enum Step {
    Write { at: usize, length: usize, value: u8 },
    SetSize(usize),
    Remove,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_file_is_what_was_written_to_it_whatever_its_storage_was_before(
        steps in prop::collection::vec(
            prop_oneof![
                6 => (0usize..300_000, 1usize..200_000, 1u8..)
                    .prop_map(|(at, length, value)| Step::Write { at, length, value }),
                1 => (0usize..400_000).prop_map(Step::SetSize),
                2 => Just(Step::Remove),
            ],
            1..40,
        ),
    ) {
        let (_directory, store) = store();
        let mut file = new_file(&store, "f", 64 * KIB);
        let mut oracle: Vec<u8> = Vec::new();
        for step in steps {
            match step {
                Step::Write { at, length, value } => {
                    oracle.resize(oracle.len().max(at + length), 0);
                    oracle[at..at + length].fill(value);
                    file.write_at(FileOffset(at as u64), &oracle[at..at + length]).unwrap();
                }
                Step::SetSize(size) => {
                    oracle.resize(size, 0);
                    file.set_size(size as u64).unwrap();
                }
                Step::Remove => {
                    drop(file);
                    remove(&store, "f");
                    oracle.clear();
                    file = new_file(&store, "f", 64 * KIB);
                }
            }
            prop_assert!(content(&file) == oracle);
        }
    }
}
