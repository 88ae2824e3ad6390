//! Stores of other hosts, each answered for by a thread that stands for the process there.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use proptest::prelude::*;
use svmio_svm::{
    Connection, DirectoryName, Error, FileName, FileOffset, NodeName, OpenOptions, Placement, RemoteStore,
    SegmentSize, Store, StoreSet, serve,
};
use tempfile::TempDir;

const SEGMENT: usize = 64 << 10;
const HOSTS: [&str; 3] = ["a", "b", "c"];

/// The stores of three hosts.
struct Hosts {
    stores: Vec<Store>,
    _directory: TempDir,
}

/// What carries a host's questions or answers. It ends when as many calls of `flush` or `read` have been made as are
/// allowed.
struct Way {
    stream: UnixStream,
    left: Arc<AtomicUsize>,
}

impl Way {
    fn step(&self) -> bool {
        let step = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        step.is_ok()
    }
}

impl Write for Way {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.left.load(Ordering::Relaxed) {
            0 => Err(io::ErrorKind::BrokenPipe.into()),
            _ => self.stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.step() { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

impl Read for Way {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.step() { self.stream.read(bytes) } else { Ok(0) }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // The serving thread has another end of the same one.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }
}

impl Hosts {
    fn new() -> Hosts {
        let directory = tempfile::tempdir().expect("a directory");
        let open = |host| Store::open_for(&directory.path().join(host), &NodeName::new(host));
        let stores = HOSTS.map(|host| open(host).expect("it can be made")).into();
        Hosts { stores, _directory: directory }
    }

    fn here(&self) -> StoreSet {
        StoreSet::new(self.stores[0].clone(), self.stores[1..].iter().cloned()).expect("different nodes")
    }

    /// The stores through what serves them; the connection to `b` ends after so many questions, or parts of answers.
    fn reached(&self, questions: usize, answers: usize) -> (Result<StoreSet, Error>, Vec<JoinHandle<()>>) {
        let mut serving = Vec::new();
        let connect = |store: &Store| {
            let (near, far) = UnixStream::pair().expect("a pair of sockets");
            let store = store.clone();
            let host = store.node().to_string();
            serving.push(std::thread::spawn(move || {
                let mut questions = far.try_clone().expect("a duplicate");
                // That nobody takes the answers is what some tests are about.
                let _ = serve(Ok(store), &mut questions, &mut &far);
            }));
            let limit = |steps| Arc::new(AtomicUsize::new(if host == "b" { steps } else { usize::MAX }));
            let way = |stream, left| Box::new(Way { stream, left });
            let connection = Connection {
                answers: way(near.try_clone().expect("a duplicate"), limit(answers)),
                questions: way(near, limit(questions)),
                last_words: Box::new(|| Some("last words".into())),
            };
            RemoteStore::connect(&host, connection)
        };
        let stores = self.stores.iter().map(connect).collect::<Result<Vec<_>, _>>();
        (stores.and_then(StoreSet::of_hosts), serving)
    }

    fn objects(&self) -> Vec<usize> {
        let objects =
            |store: &Store| std::fs::read_dir(store.path().join("objects")).expect("a store").count();
        self.stores.iter().map(objects).collect()
    }

    fn names(&self) -> Vec<usize> {
        let names = |store: &Store| store.files(&DirectoryName::root()).expect("a store").len();
        self.stores.iter().map(names).collect()
    }
}

fn name(text: &str) -> FileName {
    FileName::new(text).expect("it is a name")
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at / 1000) as u8 ^ seed).collect()
}

fn put(
    set: &StoreSet,
    text: &str,
    content: &[u8],
    placement: Placement,
    replacing: bool,
) -> Result<(), Error> {
    let options = OpenOptions::read_write().segment_size(Some(SegmentSize::MIN)).placement(placement);
    let mut file = set.create(&name(text), &options, Some(content.len() as u64), replacing)?;
    file.write_at(FileOffset(0), content)?;
    file.finish(content.len() as u64)
}

fn content(set: &StoreSet, text: &str) -> Result<Vec<u8>, Error> {
    let file = set.open(&name(text))?;
    file.check_whole()?;
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut bytes)?, bytes.len());
    Ok(bytes)
}

fn placements() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::FirstTouch),
        Just(Placement::RoundRobin),
        Just(Placement::Block),
        Just(Placement::Node(NodeName::new("c"))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_put_on_hosts_lies_there_as_if_they_were_here(
        length in 0..9 * SEGMENT,
        hole in prop::option::of(1..40u64),
        placement in placements(),
    ) {
        let hosts = Hosts::new();
        let (set, serving) = hosts.reached(usize::MAX, usize::MAX);
        let (set, bytes) = (set.unwrap(), pattern(length, 1));
        put(&set, "/f", &bytes, placement.clone(), false).unwrap();
        put(&hosts.here(), "/g", &bytes, placement, false).unwrap();
        let segments = |text| hosts.here().open(&name(text)).unwrap().segments().unwrap();
        prop_assert_eq!(segments("/f"), segments("/g"));
        prop_assert!(content(&hosts.here(), "/f").unwrap() == bytes);
        prop_assert!(content(&set, "/g").unwrap() == bytes);
        // Behind a hole, and over what is there.
        if let Some(segments) = hole {
            let options = OpenOptions::read_write().segment_size(Some(SegmentSize::MIN)).placement(Placement::RoundRobin);
            let mut file = set.create(&name("/f"), &options, None, true).unwrap();
            let start = segments * SEGMENT as u64 - 7;
            file.write_at(FileOffset(start), &bytes).unwrap();
            file.finish(start + bytes.len() as u64 + 1).unwrap();
            let expected = [vec![0; start as usize], bytes, vec![0]].concat();
            prop_assert!(content(&hosts.here(), "/f").unwrap() == expected);
        }
        let report = set.verify(&DirectoryName::root()).unwrap();
        prop_assert!(report.is_clean() && report.repaired.is_empty() && report.reclaimed.is_empty(), "{report:?}");
        drop(set);
        serving.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Copies while the connection to `b` ends after `questions` or parts of `answers`; whether it went well.
fn copy_while_cut(questions: usize, answers: usize) -> bool {
    let hosts = Hosts::new();
    let bytes = pattern(7 * SEGMENT + 5, 3);
    let (set, serving) = hosts.reached(questions, answers);
    let outcome = set.and_then(|set| put(&set, "/d/f", &bytes, Placement::RoundRobin, false));
    // With the set, the connections have ended; the hosts notice.
    serving.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    let case = format!("{questions} questions, {answers} answers: {outcome:?}");
    match outcome {
        Ok(()) => {
            assert!(content(&hosts.here(), "/d/f").expect("it is whole") == bytes, "{case}");
            assert_eq!(hosts.names(), [1; 3], "{case}");
            true
        }
        // It was let keep its name, and its answer got lost: nobody can know.
        Err(Error::LeftBehind { name, places, source, .. }) => {
            assert!(matches!(*source, Error::HostLost { .. }), "{source:?}");
            assert!(name == "/d/f" && places.starts_with("b:"), "{name}, {places}");
            assert_eq!((hosts.names()[0], hosts.names()[2]), (0, 0), "{case}");
            assert_eq!((hosts.objects()[0], hosts.objects()[2]), (0, 0), "{case}");
            false
        }
        Err(error) => {
            assert!(
                error.to_string().contains("on host b: ") && error.to_string().contains("last words"),
                "{case}"
            );
            assert_eq!((hosts.names(), hosts.objects()), (vec![0; 3], vec![0; 3]), "{case}");
            false
        }
    }
}

#[test]
fn wherever_the_connection_ends_nothing_is_left() {
    let cut_questions = (0..1000).position(|questions| copy_while_cut(questions, usize::MAX));
    assert!(cut_questions.is_some_and(|count| count > 8), "{cut_questions:?}");
    let cut_answers = (0..1000).position(|answers| copy_while_cut(usize::MAX, answers));
    assert!(cut_answers.is_some_and(|count| count > 8), "{cut_answers:?}");
}

/// Copies over an older file while the connection to `b` ends as in [`copy_while_cut`]; whether it went well.
fn replace_while_cut(questions: usize, answers: usize, older: &Placement, new: &Placement) -> bool {
    let hosts = Hosts::new();
    let (old_bytes, new_bytes) = (pattern(6 * SEGMENT + 1, 1), pattern(7 * SEGMENT + 5, 3));
    put(&hosts.here(), "/d/f", &old_bytes, older.clone(), false).expect("all is here");
    let (set, serving) = hosts.reached(questions, answers);
    let outcome = set.and_then(|set| put(&set, "/d/f", &new_bytes, new.clone(), true));
    serving.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    let case = format!("{questions} questions, {answers} answers, {older} to {new}: {outcome:?}");
    let expected = if outcome.is_ok() { new_bytes } else { old_bytes };
    // Only where an answer was lost to what cannot be undone there does it take more to find that out.
    if !matches!(outcome, Err(Error::LeftBehind { .. })) {
        assert!(content(&hosts.here(), "/d/f").expect("it is whole") == expected, "{case}");
    }
    let report = hosts.here().verify(&DirectoryName::root()).expect("all is here");
    assert!(report.is_clean() && report.unseen.is_empty(), "{case}: {report:?}");
    assert!(content(&hosts.here(), "/d/f").expect("it is whole") == expected, "{case}");
    let left = hosts.objects().into_iter().max();
    assert_eq!(left, Some(1), "{case}");
    for store in &hosts.stores {
        let aside = std::fs::read_dir(store.path().join("aside")).map_or(0, Iterator::count);
        assert_eq!(aside, 0, "{case}");
    }
    outcome.is_ok()
}

#[test]
fn wherever_the_connection_ends_an_older_file_is_as_it_was_or_replaced() {
    let (first, spread) = (Placement::FirstTouch, Placement::RoundRobin);
    let (b, c) = (Placement::Node(NodeName::new("b")), Placement::Node(NodeName::new("c")));
    let pairs = [(&spread, &spread), (&b, &c), (&first, &spread), (&spread, &b)];
    let is_full = std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1");
    for (older, new) in pairs.into_iter().take(if is_full { 4 } else { 2 }) {
        for is_asking in [true, false] {
            let cut = |at| {
                let (questions, answers) = if is_asking { (at, usize::MAX) } else { (usize::MAX, at) };
                replace_while_cut(questions, answers, older, new)
            };
            let first_harmless = (0..1000).position(cut).expect("it goes well without a cut");
            assert!(first_harmless > 4, "{first_harmless}");
            // Behind it there is what removes the older file.
            assert!((1..8).all(|behind| cut(first_harmless + behind)));
        }
    }
}

#[test]
fn a_name_that_one_host_cannot_give_is_taken_back_on_all() {
    let hosts = Hosts::new();
    let (set, serving) = hosts.reached(usize::MAX, usize::MAX);
    let set = set.unwrap();
    let options =
        OpenOptions::read_write().segment_size(Some(SegmentSize::MIN)).placement(Placement::RoundRobin);
    for replacing in [false, true] {
        let here = StoreSet::from(hosts.stores[0].clone());
        if replacing {
            put(&here, "/f", b"older", Placement::FirstTouch, false).unwrap();
        }
        let mut file = set.create(&name("/f"), &options, None, replacing).unwrap();
        file.write_at(FileOffset(0), &pattern(5 * SEGMENT, 1)).unwrap();
        // Meanwhile somebody has a directory there.
        std::fs::create_dir_all(hosts.stores[2].path().join("names/f/g")).unwrap();
        let error = file.finish(5 * SEGMENT as u64).unwrap_err();
        assert!(
            matches!(&error, Error::NotAFile { store, .. } if store.to_string_lossy().starts_with("c:")),
            "{error:?}"
        );
        let older = usize::from(replacing);
        assert_eq!((hosts.names()[0], hosts.names()[1], hosts.objects()), (older, 0, vec![older, 0, 0]));
        assert!(!replacing || content(&here, "/f").unwrap() == b"older");
        std::fs::remove_dir_all(hosts.stores[2].path().join("names/f")).unwrap();
    }
    drop(set);
    serving.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_file_that_appears_meanwhile_is_not_overwritten() {
    let hosts = Hosts::new();
    let (set, _serving) = hosts.reached(usize::MAX, usize::MAX);
    let set = set.unwrap();
    for (text, placement) in [("/f", Placement::RoundRobin), ("/g", Placement::FirstTouch)] {
        let options = OpenOptions::read_write().segment_size(Some(SegmentSize::MIN)).placement(placement);
        let mut file = set.create(&name(text), &options, None, false).unwrap();
        file.write_at(FileOffset(0), &pattern(5 * SEGMENT, 1)).unwrap();
        let theirs = StoreSet::from(hosts.stores[1].clone());
        put(&theirs, text, b"theirs", Placement::FirstTouch, false).unwrap();
        let error = file.finish(5 * SEGMENT as u64).unwrap_err();
        assert!(
            matches!(&error, Error::Exists { store, .. } if store.to_string_lossy().starts_with("b:")),
            "{error:?}"
        );
        assert_eq!(content(&theirs, text).unwrap(), b"theirs");
        assert_eq!((hosts.names()[0], hosts.names()[2]), (0, 0), "{text}");
        assert!(content(&set, text).unwrap() == b"theirs");
    }
    assert_eq!(hosts.objects(), [0, 2, 0]);
}

#[test]
fn what_cannot_be_written_there_is_told_and_nothing_stays() {
    let hosts = Hosts::new();
    let (set, _serving) = hosts.reached(usize::MAX, usize::MAX);
    let set = set.unwrap();
    let options =
        OpenOptions::read_write().segment_size(Some(SegmentSize::MIN)).placement(Placement::RoundRobin);
    let mut file = set.create(&name("/f"), &options, None, false).unwrap();
    file.write_at(FileOffset(0), &pattern(3 * SEGMENT, 1)).unwrap();
    let objects = std::fs::read_dir(hosts.stores[1].path().join("objects")).unwrap();
    let object = objects.flatten().next().unwrap().path();
    // Its next segment has no place.
    // What was sent may still be arriving there.
    while std::fs::remove_dir_all(&object).is_err() {}
    // It is told at the latest when all that was sent has to have arrived.
    let written = file.write_at(FileOffset(3 * SEGMENT as u64), &pattern(3 * SEGMENT, 1));
    let error = written.and_then(|()| file.finish(6 * SEGMENT as u64)).unwrap_err();
    assert!(error.to_string().starts_with("on host b: ") && error.to_string().contains("/f"), "{error}");
    assert_eq!((hosts.names(), hosts.objects()), (vec![0; 3], vec![0; 3]));

    let error = put(&set, "/f", b"x", Placement::Node(NodeName::new("d")), false).unwrap_err();
    assert!(error.to_string().contains("node d") && error.to_string().contains("--hosts"), "{error}");
    let mut file = set.create(&name("/f"), &options, None, false).unwrap();
    let error = file.write_at(FileOffset(1 << 62), b"x").unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
}

/// Puts a store's manifest of the file `text` in the place of one that is `more` commits newer.
fn make_newer(store: &Store, text: &str, more: u64) {
    let id = store.lookup(&name(text)).expect("it is there");
    let path = store.path().join("objects").join(id.to_string()).join("manifest");
    let old = std::fs::read_to_string(&path).expect("it is text");
    let (_, body) = old.split_once('\n').expect("two parts");
    let mut manifest: svmio_svm::Manifest = serde_json::from_str(body).expect("a manifest");
    manifest.epoch += more;
    let body = serde_json::to_vec(&manifest).expect("it is JSON");
    let line = format!("svmio-manifest 1 crc32={:08x} bytes={}\n", crc32fast::hash(&body), body.len());
    std::fs::write(&path, [line.into_bytes(), body].concat()).expect("it can be written");
}

#[test]
fn a_segment_that_only_an_older_manifest_might_know_is_put_aside_and_told() {
    let hosts = Hosts::new();
    let (set, _serving) = hosts.reached(usize::MAX, usize::MAX);
    let set = set.unwrap();
    put(&set, "/f", &pattern(6 * SEGMENT, 1), Placement::RoundRobin, false).unwrap();
    make_newer(&hosts.stores[0], "/f", 1);
    make_newer(&hosts.stores[2], "/f", 1);
    let id = hosts.stores[1].lookup(&name("/f")).unwrap();
    let segment = hosts.stores[1].path().join("objects").join(id.to_string()).join("segment-0000000099");
    std::fs::write(&segment, vec![1; SEGMENT]).unwrap();
    for (set, place) in
        [(&set, format!("b:{}", segment.display())), (&hosts.here(), segment.display().to_string())]
    {
        let report = set.verify(&DirectoryName::root()).unwrap();
        assert!(report.is_clean() && report.repaired.is_empty(), "{report:?}");
        assert_eq!(report.put_aside, [(name("/f"), place.into())]);
    }
    std::fs::remove_file(&segment).unwrap();
    let report = set.verify(&DirectoryName::root()).unwrap();
    assert_eq!((report.put_aside.len(), report.repaired.len()), (0, 1), "{report:?}");
}
