//! Files through the crate's public face: against a plain vector, over crashes, reboots and several processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod limit;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use proptest::prelude::*;
use svmio_svm::{
    DirectoryName, Error, File, FileName, FileOffset, OpenOptions, SegmentIndex, SegmentSize, Store, verify,
    verify_file,
};

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("store")).unwrap();
    (directory, store)
}

fn name(text: &str) -> FileName {
    FileName::new(text).unwrap()
}

fn small_segments() -> OpenOptions {
    OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN))
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0xEE; file.size() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), bytes.len());
    bytes
}

/// The directory of the file that the store holds.
fn object(store: &Store, file: &FileName) -> PathBuf {
    store.path().join("objects").join(store.lookup(file).unwrap().to_string())
}

#[derive(Debug, Clone)]
enum Step {
    Write { at: u64, length: usize, value: u8 },
    Read { at: u64, length: usize },
    SetSize(u64),
    Preallocate(u64),
    Reopen,
    Commit,
    Reboot,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    const SPAN: u64 = 300_000;
    let step = prop_oneof![
        6 => (0..SPAN, 0..100_000usize, 1u8..).prop_map(|(at, length, value)| Step::Write { at, length, value }),
        4 => (0..SPAN, 0..200_000usize).prop_map(|(at, length)| Step::Read { at, length }),
        2 => (0..SPAN).prop_map(Step::SetSize),
        1 => (0..SPAN).prop_map(Step::Preallocate),
        1 => Just(Step::Reopen),
        1 => Just(Step::Commit),
        1 => Just(Step::Reboot),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_file_is_a_vector(steps in steps()) {
        let (_directory, store) = store();
        let name = name("/a/file");
        let mut file = store.open_file(&name, &small_segments()).unwrap();
        let mut model: Vec<u8> = Vec::new();
        for step in steps {
            match step {
                Step::Write { at, length, value } => {
                    file.write_at(FileOffset(at), &vec![value; length]).unwrap();
                    let end = at as usize + length;
                    if length > 0 {
                        model.resize(model.len().max(end), 0);
                        model[at as usize..end].fill(value);
                    }
                }
                Step::Read { at, length } => {
                    let mut bytes = vec![0xEE; length];
                    let read = file.read_at(FileOffset(at), &mut bytes).unwrap();
                    let start = model.len().min(at as usize);
                    prop_assert!(bytes[..read] == model[start..model.len().min(start + length)]);
                }
                Step::SetSize(size) => {
                    file.set_size(size).unwrap();
                    model.resize(size as usize, 0);
                }
                Step::Preallocate(size) => {
                    file.preallocate(size).unwrap();
                    model.resize(model.len().max(size as usize), 0);
                }
                Step::Commit => file.commit(true).unwrap(),
                Step::Reopen => {
                    drop(file);
                    file = store.open_file(&name, &OpenOptions::read_write()).unwrap();
                }
                // All memory is lost; what was committed, and the disk, is not.
                Step::Reboot => {
                    file.commit(true).unwrap();
                    drop(file);
                    let state = fs::OpenOptions::new().write(true).open(object(&store, &name).join("state")).unwrap();
                    state.write_all_at(&[0x55; 16], 16).unwrap();
                    file = store.open_file(&name, &OpenOptions::read_write()).unwrap();
                }
            }
            prop_assert_eq!(file.size(), model.len() as u64);
        }
        prop_assert!(content(&file) == model);
        verify_file(&store, &name).unwrap();
    }
}

#[test]
fn what_is_beyond_a_shrunk_end_is_zero_and_takes_no_storage() {
    let (_directory, store) = store();
    let file = store.open_file(&name("f"), &small_segments()).unwrap();
    file.write_at(FileOffset(0), &vec![7; 1 << 20]).unwrap();
    file.set_size(10).unwrap();
    file.set_size(1 << 20).unwrap();
    assert!(content(&file)[10..].iter().all(|byte| *byte == 0));
    let stored: u64 = file.segments().unwrap().iter().map(|segment| segment.stored).sum();
    assert!(stored <= 1 << 16, "{stored}");
}

#[test]
fn reading_holes_takes_no_storage() {
    let (_directory, store) = store();
    let file = store.open_file(&name("f"), &small_segments()).unwrap();
    file.write_at(FileOffset(1 << 20), b"end").unwrap();
    file.preallocate(0).unwrap();
    assert!(content(&file)[..1 << 20].iter().all(|byte| *byte == 0));
    assert_eq!(file.segments().unwrap().len(), 1);
    assert_eq!(file.next_data(FileOffset(0)).unwrap().unwrap().start, FileOffset(1 << 20));
}

#[test]
fn an_offset_beyond_the_table_is_refused() {
    let (_directory, store) = store();
    let file = store.open_file(&name("f"), &small_segments()).unwrap();
    for offset in [1u64 << 40, i64::MAX as u64 - 1] {
        let outcome = file.write_at(FileOffset(offset), b"xx");
        assert!(matches!(outcome, Err(Error::TooLarge { .. })), "{outcome:?}");
    }
    assert!(file.set_size(1 << 40).is_ok(), "a hole needs no segments");
    let outcome = file.set_size((1 << 40) + 1);
    assert!(matches!(outcome, Err(Error::TooLarge { .. })), "{outcome:?}");
}

#[test]
fn a_removed_file_stays_until_it_is_closed() {
    let (_directory, store) = store();
    let file = store.open_file(&name("d/f"), &small_segments()).unwrap();
    file.write_at(FileOffset(0), b"still").unwrap();
    store.remove(&name("d/f")).unwrap();
    assert!(matches!(store.lookup(&name("d/f")), Err(Error::NoSuchFile { .. })));
    file.write_at(FileOffset(200_000), b"here").unwrap();
    assert_eq!(&content(&file)[..5], b"still");
    let other = store.open_file(&name("d/f"), &small_segments().exclusive(true)).unwrap();
    assert_eq!(other.size(), 0);
    drop(file);
    assert_eq!(fs::read_dir(store.path().join("deleted")).unwrap().count(), 0);
    drop(other);
    store.remove(&name("d/f")).unwrap();
    assert_eq!(store.list(&DirectoryName::root()).unwrap(), [], "directories go with their last file");
    assert_eq!(fs::read_dir(store.path().join("objects")).unwrap().count(), 0);
}

#[test]
fn names_say_what_is_wrong_with_them() {
    let (_directory, store) = store();
    store.open_file(&name("file"), &small_segments()).unwrap();
    store.open_file(&name("dir/file"), &small_segments()).unwrap();
    let open = |text: &str, options: OpenOptions| store.open_file(&name(text), &options).unwrap_err();
    for options in [OpenOptions::reading(), small_segments()] {
        assert!(matches!(open("file/below", options.clone()), Error::NotAFile { .. }));
        assert!(matches!(open("dir", options.clone()), Error::NotAFile { .. }));
        assert!(matches!(open(&"x".repeat(300), options), Error::NameTooLong { .. }));
    }
    assert!(matches!(open("none", OpenOptions::reading()), Error::NoSuchFile { .. }));
    assert!(matches!(open("file", small_segments().exclusive(true)), Error::Exists { .. }));
    let message = open("dir/none", OpenOptions::reading()).to_string();
    assert!(message.contains("/dir/none") && message.contains("svmio ls"), "{message}");
}

#[test]
fn a_directory_of_something_else_is_no_store() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("thesis.tex"), "precious").unwrap();
    assert!(matches!(Store::open(directory.path()), Err(Error::NotAStore { .. })));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was put there");
    fs::write(directory.path().join("store.json"), r#"{"format":"svmio store","version":9,"node":"n"}"#)
        .unwrap();
    assert!(matches!(Store::open(directory.path()), Err(Error::NewerFormat { found: 9, .. })));
}

#[test]
fn damage_is_told_and_never_made_worse() {
    let (_directory, store) = store();
    let damaged = name("damaged");
    let make = || {
        let file = store.open_file(&damaged, &small_segments()).unwrap();
        file.write_at(FileOffset(0), &vec![1; 200_000]).unwrap();
        file.commit(true).unwrap();
        drop(file);
        object(&store, &damaged)
    };
    let told = || {
        let report = verify(&store, &DirectoryName::root()).unwrap();
        assert_eq!(report.damaged.len(), 1);
        let opened = store.open_file(&damaged, &OpenOptions::reading()).unwrap_err();
        let again = store.open_file(&damaged, &OpenOptions::reading()).unwrap_err();
        assert_eq!(opened.to_string(), again.to_string());
        store.remove(&damaged).unwrap();
        opened
    };
    let path = make();
    fs::remove_file(path.join("segment-0000000001")).unwrap();
    assert!(matches!(
        told(),
        Error::MissingSegment { segment: SegmentIndex(1), offset: FileOffset(65536), .. }
    ));
    let path = make();
    fs::OpenOptions::new().write(true).open(path.join("segment-0000000002")).unwrap().set_len(5).unwrap();
    assert!(matches!(told(), Error::DamagedSegment { found: 5, .. }));
    let path = make();
    fs::write(path.join("manifest"), "svmio-manifest 2 unknown\n").unwrap();
    assert!(matches!(told(), Error::NewerFormat { found: 2, .. }));
    let path = make();
    fs::remove_file(path.join("manifest")).unwrap();
    assert!(matches!(told(), Error::CorruptManifest { .. }));
    // That of another, shorter file: its size must not cut this one.
    let path = make();
    let short = store.open_file(&name("short"), &small_segments()).unwrap();
    short.commit(true).unwrap();
    drop(short);
    let own = fs::read(path.join("manifest")).unwrap();
    fs::copy(object(&store, &name("short")).join("manifest"), path.join("manifest")).unwrap();
    fs::remove_file(path.join("state")).unwrap();
    let foreign = store.open_file(&damaged, &OpenOptions::reading()).unwrap_err();
    assert!(matches!(foreign, Error::CorruptManifest { .. }), "{foreign}");
    fs::write(path.join("manifest"), own).unwrap();
    assert_eq!(content(&store.open_file(&damaged, &OpenOptions::reading()).unwrap()), vec![1; 200_000]);
    assert!(verify(&store, &DirectoryName::root()).unwrap().is_clean());
}

/// What the processes that this test starts do: this very program, asked for one "test" by an environment
/// variable that only its parent sets.
const ROLE: &str = "SVMIO_TEST_ROLE";

#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    limit::end_in_time();
    let mut words = role.splitn(3, ' ');
    let (role, number, path) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let number: u64 = number.parse().unwrap();
    let store = Store::open(Path::new(path)).unwrap();
    match role {
        // Every process writes every fourth block, so that all of them make segments at once.
        "grow" => {
            let file = store.open_file(&name("grown"), &small_segments()).unwrap();
            for block in (number..400).step_by(4) {
                file.write_at(FileOffset(block * 10_000), &vec![block as u8; 10_000]).unwrap();
            }
        }
        "race" => {
            let made = store.open_file(&name("raced"), &small_segments().exclusive(true)).is_ok();
            println!("made {made}");
        }
        // In one directory that comes and goes with each of its files.
        "churn" => {
            for turn in 0..200 {
                let own = name(&format!("x/y/{number}-{turn}"));
                drop(store.open_file(&own, &small_segments()).unwrap());
                store.remove(&own).unwrap();
            }
        }
        "hold" => {
            let file = store.open_file(&name("held"), &small_segments()).unwrap();
            file.write_at(FileOffset(0), &vec![5; 100_000]).unwrap();
            let temporary = store.open_file(&name("tmp"), &small_segments().temporary(true)).unwrap();
            temporary.write_at(FileOffset(0), b"gone").unwrap();
            println!("ready");
            loop {
                std::thread::park();
            }
        }
        other => panic!("no role {other}"),
    }
}

fn start(role: &str, number: u64, store: &Store) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env(ROLE, format!("{role} {number} {}", store.path().display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn finish(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    // A process that ran no test would have nothing to fail with.
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    said
}

#[test]
fn a_file_grows_under_many_processes() {
    let (_directory, store) = store();
    let children: Vec<Child> = (0..4).map(|number| start("grow", number, &store)).collect();
    for child in children {
        finish(child);
    }
    let file = store.open_file(&name("grown"), &OpenOptions::reading()).unwrap();
    let bytes = content(&file);
    assert_eq!(bytes.len(), 4_000_000);
    assert!(bytes.chunks(10_000).enumerate().all(|(block, bytes)| bytes.iter().all(|b| *b == block as u8)));
    assert_eq!(file.segments().unwrap().len(), 4_000_000usize.div_ceil(65536));
}

#[test]
fn directories_that_hold_nothing_are_removed_and_no_other_one() {
    let (_directory, store) = store();
    let named = |text: &str| DirectoryName::new(text).unwrap();
    fs::create_dir_all(store.path().join("names/left/over")).unwrap();
    let failure = store.remove_empty(&named("/left")).unwrap_err();
    assert!(matches!(failure, Error::Io { .. }), "{failure}");
    for (text, is_removed) in
        [("/left/over", true), ("/left/over", false), ("/left", true), ("/never", false), ("/", false)]
    {
        assert_eq!(store.remove_empty(&named(text)).unwrap(), is_removed, "{text}");
    }
    assert_eq!(store.list(&DirectoryName::root()).unwrap(), [], "the root is there");
}

#[test]
fn directories_come_and_go_under_many_processes() {
    let (_directory, store) = store();
    let children: Vec<Child> = (0..4).map(|number| start("churn", number, &store)).collect();
    for child in children {
        finish(child);
    }
    assert_eq!(store.list(&DirectoryName::root()).unwrap(), []);
}

#[test]
fn many_make_one_store() {
    for _ in 0..50 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        std::thread::scope(|scope| {
            let made: Vec<_> =
                (0..4).map(|_| scope.spawn(|| Store::open(&path).map(|s| s.identity()))).collect();
            let made: Vec<_> = made.into_iter().map(|made| made.join().unwrap().unwrap()).collect();
            assert!(made.iter().all(|identity| *identity == made[0]));
        });
    }
}

#[test]
fn one_of_many_makes_a_file_exclusively() {
    let (_directory, store) = store();
    let children: Vec<Child> = (0..6).map(|number| start("race", number, &store)).collect();
    let outputs = children.into_iter().map(|child| child.wait_with_output().unwrap().stdout);
    let made = outputs.filter(|text| String::from_utf8_lossy(text).contains("made true")).count();
    assert_eq!(made, 1);
    assert_eq!(fs::read_dir(store.path().join("objects")).unwrap().count(), 1, "the losers left nothing");
}

#[test]
fn a_killed_process_loses_nothing_and_leaves_nothing() {
    let (_directory, store) = store();
    let mut child = start("hold", 0, &store);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("ready")));
    store.remove(&name("tmp")).unwrap();
    assert!(verify(&store, &DirectoryName::root()).unwrap().reclaimed.is_empty(), "it is in use");
    child.kill().unwrap();
    child.wait().unwrap();
    // Nothing was synced, committed or closed.
    let file = store.open_file(&name("held"), &OpenOptions::read_write()).unwrap();
    assert_eq!(content(&file), vec![5; 100_000]);
    drop(file);
    assert_eq!(verify(&store, &DirectoryName::root()).unwrap().reclaimed.len(), 1);
    assert_eq!(fs::read_dir(store.path().join("deleted")).unwrap().count(), 0);
}

#[test]
fn an_abandoned_temporary_file_is_as_good_as_none() {
    let (_directory, store) = store();
    let mut child = start("hold", 0, &store);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("ready")));
    let seen = store.open_file(&name("tmp"), &OpenOptions::reading()).unwrap();
    assert_eq!(content(&seen), b"gone");
    drop(seen);
    child.kill().unwrap();
    child.wait().unwrap();
    let none = store.open_file(&name("tmp"), &OpenOptions::reading()).unwrap_err();
    assert!(matches!(none, Error::NoSuchFile { .. }), "{none}");
}

#[test]
fn verifying_takes_an_abandoned_temporary_file_away() {
    let (_directory, store) = store();
    let mut child = start("hold", 0, &store);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("ready")));
    let has_it = || store.lookup(&name("tmp")).is_ok();
    assert!(verify(&store, &DirectoryName::root()).unwrap().is_clean() && has_it());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(verify(&store, &DirectoryName::root()).unwrap().is_clean() && !has_it());
}

#[test]
fn what_was_killed_while_being_made_is_reclaimed() {
    let (_directory, store) = store();
    drop(store.open_file(&name("kept"), &small_segments()).unwrap());
    let unborn = store.path().join("objects").join("0123456789abcdef0123456789abcdef");
    fs::create_dir(&unborn).unwrap();
    let (recent, old) = (store.path().join("names/d/.svmio-new"), store.path().join("names/d/e/.svmio-old"));
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    fs::write(&recent, "").unwrap();
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::create(&old).unwrap().set_modified(hour_ago).unwrap();
    let report = verify(&store, &DirectoryName::root()).unwrap();
    assert_eq!(report.reclaimed, [unborn.clone(), old.clone()]);
    assert!(!unborn.exists() && !old.parent().unwrap().exists() && recent.exists());
    assert!(report.is_clean() && report.files == [name("kept")]);
}

#[test]
fn an_unfinished_segment_is_removed_and_a_lost_state_rebuilt() {
    let (_directory, store) = store();
    let file = store.open_file(&name("f"), &small_segments()).unwrap();
    file.write_at(FileOffset(0), &vec![3; 70_000]).unwrap();
    file.commit(true).unwrap();
    drop(file);
    let path = object(&store, &name("f"));
    fs::write(path.join("segment-0000000009"), "").unwrap();
    fs::write(path.join(".manifest-abc"), "half").unwrap();
    fs::remove_file(path.join("state")).unwrap();
    let file = store.open_file(&name("f"), &OpenOptions::read_write()).unwrap();
    assert_eq!(content(&file), vec![3; 70_000]);
    assert!(!path.join("segment-0000000009").exists() && !path.join(".manifest-abc").exists());
    assert_eq!(fs::metadata(store.path()).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn names_that_the_store_needs_for_itself_are_refused() {
    assert!(matches!(FileName::new("/a/.svmio-b"), Err(Error::BadName { .. })));
}

#[test]
fn a_damaged_name_is_found_shown_and_removed_without_harm_to_others() {
    let (_directory, store) = store();
    let (good, bad) = (name("/a/good"), name("/a/bad"));
    for name in [&good, &bad] {
        store.open_file(name, &small_segments()).unwrap().write_at(FileOffset(0), b"data").unwrap();
    }
    let object = object(&store, &bad);
    fs::write(store.path().join("names/a/bad"), "nobody").unwrap();
    let everything = DirectoryName::root();
    assert_eq!(store.files(&everything).unwrap().len(), 2);
    let report = verify(&store, &everything).unwrap();
    assert_eq!(report.damaged.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&bad]);
    assert!(object.exists(), "what is left of a file was taken for a leftover");
    store.remove(&bad).unwrap();
    assert!(verify(&store, &everything).unwrap().is_clean());
    assert!(!object.exists() && store.lookup(&good).is_ok());
}

#[test]
fn a_file_whose_directory_is_lost_is_damaged() {
    let (_directory, store) = store();
    let name = name("/lost");
    store.open_file(&name, &small_segments()).unwrap();
    fs::remove_dir_all(object(&store, &name)).unwrap();
    let report = verify(&store, &DirectoryName::root()).unwrap();
    assert!(matches!(&report.damaged[..], [(damaged, Error::CorruptManifest { .. })] if *damaged == name));
}
