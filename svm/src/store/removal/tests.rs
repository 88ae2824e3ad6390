//! Names that are taken from files, by several processes at once, and by such that are killed meanwhile.

use std::sync::Barrier;

use super::*;
use crate::DirectoryName;
use crate::attachment::{AttachError, How};
use crate::killing::{self, End};
use crate::open_options::OpenOptions;

fn setting() -> (tempfile::TempDir, Store, FileName) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::open(directory.path()).unwrap();
    (directory, store, FileName::new("/f").unwrap())
}

/// A file that was to go with its last user, who was killed.
fn abandoned(store: &Store, name: &FileName) -> FileId {
    let options = OpenOptions::read_write().create(true).exclusive(true);
    drop(store.open_file(name, &options).unwrap());
    let id = store.lookup(name).unwrap();
    let path = object::path(store.path(), id);
    let manifest = crate::manifest::Manifest::read(&path, "f").unwrap();
    crate::manifest::Manifest { temporary: true, ..manifest }.commit(&path, false).unwrap();
    let attached = attachment::attach(store, id, "f", How::default());
    assert!(matches!(attached, Err(AttachError::Abandoned)));
    id
}

#[test]
fn what_has_the_name_of_an_abandoned_file_by_now_stays() {
    let (_directory, store, name) = setting();
    let old = abandoned(&store, &name);
    assert!(store.remove_abandoned(&name, old).unwrap());
    let new = store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap();
    // Somebody else found the old one, too, and comes to remove it only now.
    assert!(!store.remove_abandoned(&name, old).unwrap());
    assert!(!store.remove_this(&name, old).unwrap());
    // Who makes a temporary file has it open.
    assert!(!store.remove_abandoned(&name, new.id()).unwrap());
    assert_eq!(store.lookup(&name).unwrap(), new.id());
    assert!(store.remove_this(&name, new.id()).unwrap());
    assert!(matches!(store.remove_this(&name, new.id()), Err(Error::NoSuchFile { .. })));
}

#[test]
fn two_that_find_an_abandoned_file_open_the_same_new_one() {
    let (_directory, store, name) = setting();
    for turn in 0..300 {
        abandoned(&store, &name);
        let meeting = Barrier::new(2);
        let open = || {
            meeting.wait();
            store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap()
        };
        let [one, other] = std::thread::scope(|scope| {
            let threads = [scope.spawn(open), scope.spawn(open)];
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!((one.id(), other.id()), (store.lookup(&name).unwrap(), one.id()), "turn {turn}");
        store.remove(&name).unwrap();
    }
}

#[test]
fn a_name_alone_goes_for_the_file_that_it_led_to() {
    let (_directory, store, name) = setting();
    drop(store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap());
    let id = store.lookup(&name).unwrap();
    fs::remove_dir_all(object::path(store.path(), id)).unwrap();
    assert!(!store.remove_this(&name, FileId::random().unwrap()).unwrap());
    assert!(!store.remove_abandoned(&name, id).unwrap());
    assert!(store.remove_this(&name, id).unwrap());
    assert!(matches!(store.lookup(&name), Err(Error::NoSuchFile { .. })));
}

#[test]
fn wherever_who_takes_a_name_is_killed_it_leads_nobody_to_the_file_that_had_it() {
    const TEST: &str =
        "store::removal::tests::wherever_who_takes_a_name_is_killed_it_leads_nobody_to_the_file_that_had_it";
    let (_directory, store, name) = setting();
    let (options, other) = (OpenOptions::read_write().create(true), FileName::new("/g").unwrap());
    if let Some((task, point)) = killing::task() {
        let (way, path) = task.split_once(' ').unwrap();
        let store = Store::open(std::path::Path::new(path)).unwrap();
        match way {
            "removing" => {
                killing::arm(point);
                store.remove(&name).unwrap();
            }
            "replacing" => {
                let new = store.create_unnamed(&name, &options).unwrap();
                killing::arm(point);
                drop(new.replace().unwrap());
            }
            _ => {
                drop(store.open_file(&other, &options).unwrap());
                killing::arm(point);
                store.rename(&other, &name, true).unwrap();
            }
        }
        return;
    }
    for (way, is_open) in
        ["removing", "replacing", "renaming"].into_iter().flat_map(|way| [(way, true), (way, false)])
    {
        let mut end = End::KilledItself;
        let mut taken = 0;
        for point in 1..100 {
            let file = store.open_file(&name, &options).unwrap();
            let id = file.id();
            let file = if is_open {
                Some(file)
            } else {
                file.keep();
                None
            };
            end = killing::run_anew(TEST, &format!("{way} {}", store.path().display()), point);
            let led = store.lookup(&name).ok();
            taken += u32::from(end == End::KilledItself && led != Some(id));
            let again = store.reopen(&name, &OpenOptions::read_write()).unwrap();
            if let Some(again) = &again {
                assert_eq!(Some(again.id()), led, "{way}, open: {is_open}, {point}");
            }
            drop((again, file));
            assert!(crate::verify(&store, &DirectoryName::root()).unwrap().is_clean());
            for name in [&name, &other] {
                match store.remove(name) {
                    Ok(()) | Err(Error::NoSuchFile { .. }) => {}
                    Err(e) => panic!("{e}"),
                }
            }
            if end == End::Finished {
                break;
            }
        }
        assert_eq!(end, End::Finished, "{way}");
        assert!(taken > 0, "{way}: it was killed only while the file had its name");
    }
}
