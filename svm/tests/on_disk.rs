//! Stores on file systems of a disk, ext4 and XFS: pages that pieces get, and what becomes of them when the disk is full.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

mod mounts;

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use mounts::{with_store_on, with_store_on_disk, with_store_on_xfs};
use svmio_svm::{Blocks, ErrorKind, FileName, FileOffset, OpenOptions, Result, SegmentSize, Store, StoreSet};

const MIB: u64 = 1 << 20;
const ROW: u64 = 480;

fn new_file(store: &Store, name: &str) -> svmio_svm::File {
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::DEFAULT));
    store.open_file(&FileName::new(name).unwrap(), &options).unwrap()
}

/// Every other row of a `length` from `start` on, all of one value.
fn write_rows(file: &svmio_svm::File, start: u64, length: u64, value: u8) -> Result<()> {
    let rows = Blocks { start, length: ROW, stride: 2 * ROW, count: length / ROW / 2 };
    let bounds = FileOffset(rows.start)..FileOffset(rows.end());
    let mut write = file.write_strided(bounds, rows.bytes())?;
    // SAFETY: the same row again and again.
    unsafe { write.put(&rows, [value; ROW as usize].as_ptr(), 0) }?;
    write.finish()
}

/// The storage of the first segment of the store's only file.
fn first_segment(store: &Store) -> PathBuf {
    let mut objects = std::fs::read_dir(store.path().join("objects")).unwrap();
    let object = objects.next().expect("a file").unwrap().path();
    assert!(objects.next().is_none(), "one file only");
    object.join("segment-0000000000")
}

/// Bytes of storage that it takes.
fn used(store: &Store) -> u64 {
    std::fs::metadata(first_segment(store)).unwrap().blocks() * 512
}

/// Small disks, with blocks of a page, and smaller ones; and a large one that is nearly full.
fn with_disks(test: impl Fn(&Store) + Sync) {
    [4096, 1024].into_iter().for_each(|block| with_store_on_disk(32 * MIB, block, &test));
    with_store_on_xfs(32 * MIB, &test);
}

/// Disks with room.
fn with_large_disks(test: impl Fn(&Store) + Sync) {
    with_store_on_disk(256 * MIB, 4096, &test);
    with_store_on_xfs(256 * MIB, &test);
}

/// How many system calls of this thread have written something in `work`.
fn writing_calls(work: impl FnOnce()) -> u64 {
    let count = || {
        let told = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let count = told.lines().find_map(|line| line.strip_prefix("syscw: "));
        count.expect("see proc_pid_io(5)").parse::<u64>().unwrap()
    };
    let before = count();
    work();
    count() - before
}

/// Another file that has a part in the storage of the store's only one.
fn share_storage(store: &Store) -> std::fs::File {
    let segment = std::fs::File::open(first_segment(store)).unwrap();
    let copy = store.path().join("copy");
    let copy =
        std::fs::File::options().read(true).write(true).create(true).truncate(true).open(copy).unwrap();
    rustix::fs::ioctl_ficlone(&copy, &segment).unwrap();
    copy
}

/// Takes all room that there is; says how much that was.
fn fill(store: &Store) -> u64 {
    let filling = std::fs::File::create(store.path().join("filling")).unwrap();
    let mut filled = 0;
    while rustix::io::pwrite(&filling, &[1; 4096], filled).is_ok() {
        filled += 4096;
    }
    filling.sync_all().unwrap();
    filled
}

#[test]
fn pieces_are_stored_without_system_calls_where_no_other_file_has_their_storage() {
    with_large_disks(|store| {
        let file = new_file(store, "/pieces");
        for value in [1, 2] {
            let calls = writing_calls(|| write_rows(&file, 0, 4 * MIB, value).unwrap());
            assert!(calls < 10, "{calls} calls");
        }
        // Piece by piece, as by a type that is not regular.
        let calls = writing_calls(|| {
            let bounds = FileOffset(0)..FileOffset(4 * MIB);
            let mut write = file.write_strided(bounds, MIB).unwrap();
            for at in (0..4 * MIB - 8).step_by(1000) {
                // SAFETY: there are as many bytes.
                unsafe { write.put(&Blocks::one(at, 8), [3; 8].as_ptr(), 8) }.unwrap();
            }
            write.finish().unwrap();
        });
        assert!(calls < 10, "{calls} calls");
        let mut read = vec![0; 4 * MIB as usize];
        file.read_at(FileOffset(0), &mut read).unwrap();
        for (at, byte) in (0..).zip(read).take(4_000_000) {
            let old = if (at / ROW).is_multiple_of(2) { 2 } else { 0 };
            assert_eq!(byte, if at % 1000 < 8 { 3 } else { old }, "at {at}");
        }
    });
}

#[test]
fn a_file_that_shares_storage_keeps_its_bytes_and_is_nobodys_death() {
    with_store_on_xfs(256 * MIB, |store| {
        let file = new_file(store, "/shared");
        write_rows(&file, 0, 4 * MIB, 1).unwrap();
        let rows = 4 * MIB / ROW / 2;
        file.sync_data().unwrap();
        let copy = share_storage(store);
        let calls = writing_calls(|| write_rows(&file, 0, 2 * MIB, 2).unwrap());
        assert!(calls >= rows / 2, "{calls} calls for {} pieces that were shared", rows / 2);
        // What has been brought to the disk is its own again.
        file.sync_data().unwrap();
        let calls = writing_calls(|| write_rows(&file, 0, MIB, 3).unwrap());
        assert!(calls < 10, "{calls} calls");
        fill(store);
        let outcome = write_rows(&file, 2 * MIB, 2 * MIB, 4);
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NoSpace);
        drop(copy);
        let copied = std::fs::read(store.path().join("copy")).unwrap();
        for (at, byte) in (0..).zip(&copied[..4_000_000]) {
            assert_eq!(*byte, if (at / ROW).is_multiple_of(2) { 1 } else { 0 }, "at {at}");
        }
    });
}

/// With room when it is mapped and none when it is written again, also where others have got a part in it meanwhile.
#[test]
fn what_was_mapped_with_room_is_written_again_without() {
    for is_shared in [false, true] {
        with_store_on_xfs(160 * MIB, |store| {
            let file = new_file(store, "/again");
            write_rows(&file, 0, 8 * MIB, 1).unwrap();
            file.sync_data().unwrap();
            let _copy = is_shared.then(|| share_storage(store));
            fill(store);
            let written = write_rows(&file, 0, 8 * MIB, 2);
            assert_eq!(written.map_err(|error| error.kind()).err(), is_shared.then_some(ErrorKind::NoSpace));
        });
    }
}

/// Once the write has begun, which does not ask again for each piece.
#[test]
fn where_there_is_little_room_what_comes_to_be_shared_is_nobodys_death_either() {
    with_store_on_xfs(32 * MIB, |store| {
        let file = new_file(store, "/shared");
        let rows = Blocks { start: 0, length: ROW, stride: 2 * ROW, count: 2400 };
        write_rows(&file, 0, rows.end() + ROW, 1).unwrap();
        file.sync_data().unwrap();
        let mut write = file.write_strided(FileOffset(0)..FileOffset(rows.end()), rows.bytes()).unwrap();
        // SAFETY: the same row again and again.
        let mut put = |rows: &Blocks| unsafe { write.put(rows, [2; ROW as usize].as_ptr(), 0) };
        put(&Blocks { count: 10, ..rows }).unwrap();
        let _copy = share_storage(store);
        fill(store);
        assert_eq!(
            put(&Blocks { start: 10 * rows.stride, count: 2390, ..rows }).unwrap_err().kind(),
            ErrorKind::NoSpace
        );
    });
}

#[test]
fn what_many_pieces_are_written_to_gets_storage_in_large_pages_and_what_few_are_does_not() {
    with_large_disks(|store| {
        let file = new_file(store, "/few");
        write_rows(&file, 5 * MIB, 64 << 10, 1).unwrap();
        assert!(used(store) < 200 << 10, "{} bytes", used(store));
        drop(file);
        store.remove(&FileName::new("/few").unwrap()).unwrap();
        let file = new_file(store, "/many");
        write_rows(&file, 0, MIB, 1).unwrap();
        assert!((2 * MIB..3 * MIB).contains(&used(store)), "{} bytes", used(store));
        // What is written in a row takes what it needs, also again.
        for value in 1..4 {
            file.write_at(FileOffset(5 * MIB), &vec![value; 500_000]).unwrap();
        }
        file.flush().unwrap();
        assert!(used(store) < 3 * MIB, "{} bytes", used(store));
    });
}

#[test]
fn a_disk_that_is_full_is_an_error_and_what_was_written_stays() {
    with_disks(|store| {
        let file = new_file(store, "/full");
        let (mut steps, length) = (0, 100 * 2 * ROW);
        let error = loop {
            let value = (steps % 250) as u8 + 1;
            let written = write_rows(&file, steps * length, length, value)
                .and_then(|()| write_rows(&file, steps * length + ROW, length, value));
            match written {
                Ok(()) => steps += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(steps * length > 16 * MIB, "{} bytes", steps * length);
        // Again, into what is there.
        for step in 0..steps {
            write_rows(&file, step * length, length, (step % 250) as u8 + 2).unwrap();
        }
        file.flush().unwrap();
        let mut read = vec![0; (steps * length) as usize];
        file.read_at(FileOffset(0), &mut read).unwrap();
        for (number, row) in (0..).zip(read.chunks(ROW as usize)) {
            let value = (number * ROW / length % 250) as u8 + if number % 2 == 0 { 2 } else { 1 };
            assert!(row.iter().all(|byte| *byte == value), "row {number}");
        }
    });
}

/// Pages that the kernel has read in one large one with holes beside them.
#[test]
fn stores_into_what_is_there_need_no_room_on_a_full_disk() {
    for stride in [4 << 10, 64 << 10] {
        with_disks(|store| stores_need_no_room(store, stride));
    }
}

fn stores_need_no_room(store: &Store, stride: u64) {
    let file = new_file(store, "/holes");
    let pieces = 0..(12 << 20) / stride;
    for number in pieces.clone() {
        file.write_at(FileOffset(number * stride), &[1; 100]).unwrap();
    }
    file.sync_data().unwrap();
    // Nothing of it stays in memory.
    let segment = std::fs::File::open(first_segment(store)).unwrap();
    rustix::fs::fadvise(&segment, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mut read = vec![0; 12 << 20];
    file.read_at(FileOffset(0), &mut read).unwrap();
    for number in pieces.clone() {
        file.read_at(FileOffset(number * stride), &mut read[..100]).unwrap();
    }
    let filled = fill(store);
    assert!(filled > 8 * MIB, "{filled} bytes");
    for number in pieces.clone() {
        file.write_at(FileOffset(number * stride), &[2; 100]).unwrap();
    }
    file.flush().unwrap();
    file.read_at(FileOffset(0), &mut read[..((pieces.end - 1) * stride + 100) as usize]).unwrap();
    for (at, byte) in (0..(pieces.end - 1) * stride + 100).zip(&read) {
        assert_eq!(*byte, if at % stride < 100 { 2 } else { 0 }, "at {at}");
    }
}

/// What was written is committed, again and again, after another file has filled the store to the last byte.
fn commits_when_full(store: &Store) {
    let (file, other) = (new_file(store, "/good"), new_file(store, "/other"));
    file.write_at(FileOffset(0), &vec![1; MIB as usize]).unwrap();
    let full = (0..).find_map(|chunk| other.write_at(FileOffset(chunk * MIB), &vec![2; MIB as usize]).err());
    assert_eq!(full.unwrap().kind(), ErrorKind::NoSpace);
    let mut filler = std::fs::File::create(store.path().join("filler")).unwrap();
    let mut fill = || while filler.write_all(&[3; 512]).is_ok() {};
    for round in 0..10 {
        fill();
        file.write_at(FileOffset(round), &[4]).unwrap();
        file.set_size(MIB - round).unwrap();
        file.commit(true).unwrap_or_else(|error| panic!("{round}: {error}"));
        other.commit(true).unwrap_or_else(|error| panic!("{round}: {error}"));
    }
    let (committed, other_committed) = (file.size(), other.size());
    assert!(committed == MIB - 9 && other_committed > MIB);
    drop((file, other));
    // Memory of the kernel's run before: what was committed is left.
    for object in std::fs::read_dir(store.path().join("objects")).unwrap() {
        std::fs::remove_file(object.unwrap().path().join("state")).unwrap();
    }
    for (name, size) in [("/good", committed), ("/other", other_committed)] {
        let stores = StoreSet::from(store.clone());
        assert_eq!(stores.look(&FileName::new(name).unwrap()).unwrap().size(), size, "{name}");
    }
}

#[test]
fn what_was_written_is_committed_when_the_store_is_full() {
    with_disks(commits_when_full);
    with_store_on("size=20m", commits_when_full);
}
