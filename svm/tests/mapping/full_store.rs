//! Stores without space: an error, and neither a signal nor a lost store.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use svmio_svm::{ErrorKind, LockMode, NodeIndex, NodeName, SegmentIndex};

use super::*;

const BYTES: u64 = 8 * SEGMENT;

/// Runs `body` with the stores of so many nodes, the first of which is a small file system of its own, and what takes
/// all of its space.
fn with_small_store(nodes: u32, body: impl Fn(&[Store], &(dyn Fn(bool) + Sync)) + Send + Sync) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = |number: u32| directory.path().join(format!("n{number}"));
    let inside = || {
        // SAFETY: a mount namespace, and the working directory that goes with it, become this thread's own; descriptors
        // and memory stay shared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
            .expect("tests with mounts of their own must run as root");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        (0..nodes).for_each(|number| std::fs::create_dir(path(number)).unwrap());
        mount("tmpfs", path(0), "tmpfs", MountFlags::empty(), c"size=4m,mode=0700").unwrap();
        let open = |number| Store::open_for(&path(number), &NodeName::new(format!("n{number}"))).unwrap();
        let stores: Vec<_> = (0..nodes).map(open).collect();
        let filler: PathBuf = path(0).join("filler");
        body(&stores, &|is_full| {
            if is_full { fill(&filler) } else { std::fs::remove_file(&filler).unwrap() }
        });
    };
    std::thread::scope(|scope| scope.spawn(inside).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    let written = || std::io::Write::write_all(&mut file, &[1; 4096]);
    let full = std::iter::repeat_with(written).find(Result::is_err);
    assert!(full.is_some_and(|result| result.is_err_and(|e| e.kind() == std::io::ErrorKind::StorageFull)));
}

#[test]
fn what_is_stored_while_the_own_store_is_full_is_kept_and_gets_there_later() {
    with_small_store(1, |stores, set_full| {
        let file = Arc::new(stores[0].open_file(&FileName::new("f").unwrap(), &small_segments()).unwrap());
        file.write_at(FileOffset(0), &[1]).unwrap();
        set_full(true);
        // The first segment is there, with storage for a page.
        let mapping = map(&file, BYTES, &MappingOptions::new());
        let places = || (0..BYTES).step_by(PAGE as usize / 2);
        places().for_each(|at| store(&mapping, at + 9, (at / 1000) as u8 + 1));
        for _ in 0..2 {
            let error = mapping.flush().unwrap_err();
            assert!(error.kind() == ErrorKind::NoSpace && error.to_string().contains("/f"), "{error}");
            assert!(places().all(|at| load(&mapping, at + 9) == (at / 1000) as u8 + 1));
        }
        set_full(false);
        mapping.sync(all(BYTES)).unwrap();
        drop(mapping);
        let mut bytes = vec![0; BYTES as usize];
        assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), bytes.len());
        assert!(places().all(|at| bytes[at as usize + 9] == (at / 1000) as u8 + 1));
        assert_eq!(bytes[0], 1);
    });
}

#[test]
fn what_a_full_home_does_not_take_is_kept_but_for_what_was_stored_under_a_lock() {
    with_small_store(2, |stores, set_full| {
        on_nodes(stores, |process| {
            let file = open(process, &small_segments());
            if process.rank() == 0 {
                file.place(&[(SegmentIndex(0), NodeIndex(0))], 1).unwrap();
                file.set_size(SEGMENT).unwrap();
            }
            process.sync(&file).unwrap();
            if process.rank() == 0 {
                set_full(true);
            }
            process.meet();
            if process.rank() == 1 {
                let mapping = map(&file, SEGMENT, &MappingOptions::new());
                let range = FileOffset(PAGE)..FileOffset(PAGE + 100);
                store(&mapping, 5, 1);
                let lock = mapping.lock(range.clone(), LockMode::Exclusive).unwrap();
                store(&mapping, PAGE + 5, 3);
                store(&mapping, PAGE + 200, 2);
                let error = lock.release().unwrap_err();
                assert!(error.kind() == ErrorKind::NoSpace && error.to_string().contains("n0"), "{error}");
                assert_eq!(mapping.flush().unwrap_err().kind(), ErrorKind::NoSpace);
                set_full(false);
                mapping.flush().unwrap();
                let _lock = mapping.lock(range, LockMode::Shared).unwrap();
                assert_eq!([5, PAGE + 5, PAGE + 200].map(|at| load(&mapping, at)), [1, 0, 2]);
            }
            process.sync(&file).unwrap();
            let byte = |at| {
                let mut byte = [9];
                file.read_at(FileOffset(at), &mut byte).unwrap();
                byte[0]
            };
            assert_eq!([5, PAGE + 5, PAGE + 200].map(byte), [1, 0, 2]);
        });
    });
}

#[test]
fn a_byte_that_may_have_come_home_with_what_failed_comes_home_again_also_where_it_is_as_it_was() {
    with_small_store(2, |stores, set_full| {
        on_nodes(stores, |process| {
            let file = open(process, &small_segments());
            if process.rank() == 0 {
                // Its second page has no storage, and does not get any.
                file.write_at(FileOffset(0), &[0; PAGE as usize]).unwrap();
                file.set_size(SEGMENT).unwrap();
            }
            process.sync(&file).unwrap();
            if process.rank() == 0 {
                set_full(true);
            }
            process.meet();
            if process.rank() == 1 {
                let mapping = map(&file, SEGMENT, &MappingOptions::new());
                store(&mapping, 5, 1);
                store(&mapping, PAGE + 200, 2);
                assert_eq!(mapping.flush().unwrap_err().kind(), ErrorKind::NoSpace);
                store(&mapping, 5, 0);
                set_full(false);
                mapping.flush().unwrap();
            }
            process.sync(&file).unwrap();
            let byte = |at| {
                let mut byte = [9];
                file.read_at(FileOffset(at), &mut byte).unwrap();
                byte[0]
            };
            assert_eq!([5, PAGE + 200].map(byte), [0, 2]);
        });
    });
}
