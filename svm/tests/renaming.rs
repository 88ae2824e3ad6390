//! Files that get other names.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use svmio_svm::{DirectoryName, Error, File, FileName, FileOffset, OpenOptions, Store};
use tempfile::TempDir;

/// Whatever is waited for comes within this, or the test fails.
const LIMIT: Duration = Duration::from_secs(60);

fn setting() -> (TempDir, Store) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::open(directory.path()).unwrap();
    (directory, store)
}

fn name(text: &str) -> FileName {
    FileName::new(text).unwrap()
}

fn put(store: &Store, to: &str, content: &[u8]) -> File {
    let file = store.open_file(&name(to), &OpenOptions::read_write().create(true)).unwrap();
    file.write_at(FileOffset(0), content).unwrap();
    file.commit(true).unwrap();
    file
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    file.read_at(FileOffset(0), &mut bytes).unwrap();
    bytes
}

fn content_of(store: &Store, of: &str) -> Vec<u8> {
    content(&store.open_file(&name(of), &OpenOptions::reading()).unwrap())
}

/// Fails the test where `act` waits for ever.
fn within_limit(act: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let acting = thread::spawn(move || {
        act();
        done.send(()).unwrap();
    });
    match ended.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it waits for ever"),
        _ => acting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// How many files the store holds, with or without a name.
fn objects(store: &Store) -> usize {
    let count = |of| std::fs::read_dir(store.path().join(of)).unwrap().count();
    count("objects") + count("deleted")
}

#[test]
fn a_file_gets_another_name_and_keeps_what_it_is() {
    let (_directory, store) = setting();
    drop(put(&store, "/a/b/c", b"content"));
    let id = store.lookup(&name("/a/b/c")).unwrap();
    store.rename(&name("/a/b/c"), &name("/x/y"), false).unwrap();
    assert_eq!(store.lookup(&name("/x/y")).unwrap(), id);
    assert!(matches!(store.lookup(&name("/a/b/c")), Err(Error::NoSuchFile { .. })));
    // The directories went with their last file.
    let is_there = |name| store.directory_modified(&DirectoryName::new(name).unwrap()).unwrap().is_some();
    assert!(!is_there("/a") && is_there("/x") && !is_there("/x/y"));
    assert_eq!(content_of(&store, "/x/y"), b"content");
    assert!(svmio_svm::verify(&store, &DirectoryName::root()).unwrap().is_clean());
    store.rename(&name("/x/y"), &name("/x/y"), false).unwrap();
    for (from, to) in [("/none", "/z"), ("/x", "/z"), ("/x/y", "/x/y/z"), ("/x/y", "/x")] {
        let error = store.rename(&name(from), &name(to), true).unwrap_err();
        assert!(matches!(error, Error::NoSuchFile { .. } | Error::NotAFile { .. }), "{from} {to}: {error}");
    }
    assert_eq!(content_of(&store, "/x/y"), b"content");
}

#[test]
fn one_of_that_name_is_replaced_if_that_is_meant() {
    let (_directory, store) = setting();
    drop(put(&store, "/new", b"new"));
    let old = put(&store, "/old", b"old");
    let refused = store.rename(&name("/new"), &name("/old"), false);
    assert!(matches!(refused, Err(Error::Exists { .. })));
    store.rename(&name("/new"), &name("/old"), true).unwrap();
    assert_eq!((content_of(&store, "/old"), content(&old)), (b"new".to_vec(), b"old".to_vec()));
    drop(old);
    assert_eq!(objects(&store), 1);
}

#[test]
fn who_has_it_open_or_keeps_it_does_not_take_it_for_what_has_its_name_now() {
    let (_directory, store) = setting();
    let options = OpenOptions::read_write();
    let open = put(&store, "/open", b"first");
    put(&store, "/kept", b"second").keep();
    for from in ["/open", "/kept"] {
        store.rename(&name(from), &name(&format!("{from}-on")), false).unwrap();
        assert!(store.reopen(&name(from), &options).unwrap().is_none(), "{from}");
        drop(put(&store, from, b"another"));
    }
    open.write_at(FileOffset(0), b"FIRST, goes on").unwrap();
    open.commit(true).unwrap();
    assert_eq!(content_of(&store, "/open-on"), b"FIRST, goes on");
    assert_eq!(content_of(&store, "/kept-on"), b"second");
    assert_eq!(
        (content_of(&store, "/open"), content_of(&store, "/kept")),
        (b"another".into(), b"another".into())
    );
    drop(open);
    assert!(svmio_svm::verify(&store, &DirectoryName::root()).unwrap().is_clean());
}

#[test]
fn whoever_renames_removes_and_makes_files_at_the_same_time_nothing_is_lost_or_left() {
    const TURNS: usize = 300;
    let (_directory, store) = setting();
    drop(put(&store, "/d/one", b"one"));
    drop(put(&store, "/d/two", b"two"));
    let together = Barrier::new(3);
    let either = |from: &str, to: &str| {
        together.wait();
        for _ in 0..TURNS {
            match store.rename(&name(from), &name(to), true) {
                Ok(()) | Err(Error::NoSuchFile { .. }) => {}
                Err(e) => panic!("{from} to {to}: {e}"),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| either("/d/one", "/e/two"));
        scope.spawn(|| either("/e/two", "/d/one"));
        together.wait();
        for turn in 0..TURNS {
            drop(put(&store, "/d/one", b"one"));
            if turn % 3 == 0 {
                match store.remove(&name("/e/two")) {
                    Ok(()) | Err(Error::NoSuchFile { .. }) => {}
                    Err(e) => panic!("{e}"),
                }
            }
        }
    });
    let files = store.files(&DirectoryName::root()).unwrap();
    assert_eq!(files.len(), objects(&store), "{files:?}");
    for (name, _) in files {
        let found = content(&store.open_file(&name, &OpenOptions::reading()).unwrap());
        assert!([&b"one"[..], b"two"].contains(&&found[..]), "{name}: {found:?}");
    }
    assert!(svmio_svm::verify(&store, &DirectoryName::root()).unwrap().is_clean());
}

#[test]
fn a_file_that_has_both_names_keeps_the_new_one() {
    let (_directory, store) = setting();
    drop(put(&store, "/d/one", b"content"));
    let names = store.path().join("names");
    std::fs::copy(names.join("d/one"), names.join("other")).unwrap();
    let refused = store.rename(&name("/d/one"), &name("/other"), false);
    assert!(matches!(refused, Err(Error::Exists { .. })));
    within_limit(move || {
        store.rename(&name("/d/one"), &name("/other"), true).unwrap();
        assert!(matches!(store.lookup(&name("/d/one")), Err(Error::NoSuchFile { .. })));
        assert_eq!(content_of(&store, "/other"), b"content");
        assert_eq!(objects(&store), 1);
        assert!(svmio_svm::verify(&store, &DirectoryName::root()).unwrap().is_clean());
    });
}

#[test]
fn a_file_is_opened_while_it_takes_the_place_of_another_and_neither_waits_for_ever() {
    const TURNS: usize = 300;
    let (_directory, store) = setting();
    let (new, old) = (name("/new"), name("/old"));
    drop(put(&store, "/old", b"content"));
    within_limit(move || {
        let (together, is_done) = (Barrier::new(2), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                // Relaxed: nothing else hangs on it.
                while !is_done.load(Ordering::Relaxed) {
                    match store.open_file(&new, &OpenOptions::reading()) {
                        Ok(_) | Err(Error::NoSuchFile { .. }) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            });
            together.wait();
            for _ in 0..TURNS {
                drop(put(&store, "/new", b"content"));
                store.rename(&new, &old, true).unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert_eq!(content_of(&store, "/old"), b"content");
        assert_eq!(objects(&store), 1);
    });
}
