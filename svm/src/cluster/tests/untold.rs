//! Changes of processes that are killed before they tell of them.

use std::time::{Duration, Instant};

use svmio_transport::Rank;

use super::job::{self, Process};
use super::{PAGE, SharedFile, read};
use crate::attachment::{self, How};
use crate::locks::Mode;
use crate::{CacheSettings, File, FileName, FileOffset, OpenOptions, SegmentSize, Store};

const SEGMENT: u64 = 1 << 20;

/// The file that all have, with a segment of ones on the node of rank 1, of which rank 0 has two pages in its cache.
fn open_and_read(process: &Process<'_>) -> File {
    open_and_read_named(process, "f")
}

fn open_and_read_named(process: &Process<'_>, name: &str) -> File {
    let options = OpenOptions::read_write().create(true);
    let options = options.segment_size(Some(SegmentSize::new(SEGMENT).unwrap()));
    let file = process.open(&FileName::new(name).unwrap(), &options).unwrap();
    if process.rank() == 1 {
        file.write_at(FileOffset(0), &[1; SEGMENT as usize]).unwrap();
    }
    process.sync(&file).unwrap();
    if process.rank() == 0 {
        assert_eq!([0, 40].map(|page| read(&file, page * PAGE)), [[1]; 2]);
    }
    process.meet();
    file
}

/// A reader on the first node; the home's leader on the second one, and where the writer is.
fn check(node_of_writer: usize) {
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run([&stores[0], &stores[1], &stores[node_of_writer]], &cache, |process| {
        let file = open_and_read(process);
        if process.rank() == 2 {
            process.cluster.set_long_write(Some(1));
            let straight = process.cluster.statistics().straight.writes;
            file.write_at(FileOffset(0), &[2; PAGE as usize]).unwrap();
            let expected = u64::from(node_of_writer != 1);
            assert_eq!(process.cluster.statistics().straight.writes - straight, expected);
            process.job.declare_lost(Rank(2), "the test says so");
            // It goes no further, and so tells nobody.
            std::mem::forget(file);
            process.meet();
        } else {
            process.meet();
            if process.rank() == 0 {
                find(process, &file, 2);
                assert_eq!(read(&file, 40 * PAGE), [1]);
            }
        }
        process.meet();
    });
}

/// Looks for what is new until the first byte is `expected`: the home hears of a loss when it is told.
fn find(process: &Process<'_>, file: &File, expected: u8) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        file.refresh().unwrap();
        if read(file, 0) == [expected] {
            return;
        }
        let versions = process.cluster.statistics().requests.get("versions").copied();
        assert!(
            Instant::now() < deadline,
            "it is never found to be old, for all that is asked: {versions:?}"
        );
        std::thread::yield_now();
    }
}

#[test]
fn what_a_lost_process_wrote_straight_and_did_not_tell_of_is_found_by_others() {
    check(2);
}

#[test]
fn what_a_lost_process_of_the_home_stored_and_did_not_tell_of_is_found_by_others() {
    check(1);
}

/// The file once more, as another process of the node of `store` has it.
fn open_as_another(process: &Process<'_>, store: &Store, file: &File) -> File {
    attachment::overlook(store.shared_path(), file.id());
    let how = How::through(process.cluster.id());
    let attachment = attachment::attach(store, file.id(), "f", how).ok().unwrap();
    let shared = SharedFile::new(process.cluster.clone(), attachment.clone());
    File::new_shared(attachment, &OpenOptions::read_write(), shared).unwrap()
}

/// A process of the home dies with a lock under which it has written, and that it is lost nobody has said yet. Rank 1,
/// its neighbour, then does what is given.
fn check_dead_holder(afterwards: impl Fn(&Process<'_>, &Store, &File) + Sync) {
    let (_directory, stores) = job::stores(2);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run([&stores[0], &stores[1], &stores[1]], &cache, |process| {
        let file = open_and_read(process);
        if process.rank() == 2 {
            let dying = open_as_another(process, &stores[1], &file);
            std::mem::forget(dying.lock(FileOffset(0)..FileOffset(PAGE), Mode::Exclusive).unwrap());
            dying.write_at(FileOffset(0), &[2; PAGE as usize]).unwrap();
            // As the kernel does when the process is killed.
            dying.attachment().writable().unwrap().1.leave().unwrap();
            std::mem::forget(dying);
        }
        process.meet();
        if process.rank() == 1 {
            afterwards(process, &stores[1], &file);
        }
        process.meet();
        if process.rank() == 0 {
            let lock = file.lock(FileOffset(0)..FileOffset(PAGE), Mode::Shared).unwrap();
            assert_eq!(read(&file, 0), [2]);
            lock.release().unwrap();
        }
        process.meet();
    });
}

#[test]
fn who_gets_the_lock_of_a_dead_process_of_the_home_finds_what_it_stored() {
    check_dead_holder(|_, _, _| {});
}

#[test]
fn also_where_another_process_of_the_home_has_had_it_in_between() {
    check_dead_holder(|_, _, file| {
        file.lock(FileOffset(0)..FileOffset(PAGE), Mode::Exclusive).unwrap().release().unwrap();
    });
}

#[test]
fn also_where_another_process_has_taken_the_place_of_the_dead_one() {
    check_dead_holder(|process, store, file| drop(open_as_another(process, store, file)));
}

#[test]
fn what_was_written_straight_and_not_told_of_is_found_when_all_have_closed_and_opened_again() {
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run(&stores, &cache, |process| {
        let file = open_and_read(process);
        if process.rank() == 2 {
            process.cluster.set_long_write(Some(1));
            let straight = process.cluster.statistics().straight.writes;
            let another = open_as_another(process, &stores[2], &file);
            another.write_at(FileOffset(0), &[2; PAGE as usize]).unwrap();
            assert_eq!(process.cluster.statistics().straight.writes - straight, 1);
            // It goes no further, and so tells nobody.
            std::mem::forget(another);
        }
        process.close(file).unwrap();
        process.meet();
        let file = process.open(&FileName::new("f").unwrap(), &OpenOptions::read_write()).unwrap();
        if process.rank() == 0 {
            assert_eq!([0, 40].map(|page| read(&file, page * PAGE)), [[2], [1]]);
        }
        process.close(file).unwrap();
    });
}

#[test]
fn what_a_lost_process_of_the_home_stored_is_found_though_nobody_had_the_file_open_when_it_was_lost() {
    let (_directory, stores) = job::stores(2);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run([&stores[0], &stores[1], &stores[1]], &cache, |process| {
        let closed = open_and_read(process);
        let open = open_and_read_named(process, "g");
        let id = closed.id();
        if process.rank() == 2 {
            for file in [&closed, &open] {
                let another = open_as_another(process, &stores[1], file);
                another.write_at(FileOffset(0), &[2; PAGE as usize]).unwrap();
                // It goes no further, and so tells nobody.
                std::mem::forget(another);
            }
        }
        process.meet();
        process.close(closed).unwrap();
        if process.rank() == 2 {
            process.job.declare_lost(Rank(2), "the test says so");
            std::mem::forget(open);
            process.meet();
        } else {
            process.meet();
            if process.rank() == 0 {
                // Then the home's agent has dealt with the loss, beginning with files that nobody has open.
                find(process, &open, 2);
                let attached = attachment::attach(&stores[0], id, "f", How::through(process.cluster.id()));
                let attached = attached.ok().unwrap();
                let shared = SharedFile::new(process.cluster.clone(), attached.clone());
                let again = File::new_shared(attached, &OpenOptions::read_write(), shared).unwrap();
                again.refresh().unwrap();
                assert_eq!([0, 40].map(|page| read(&again, page * PAGE)), [[2], [1]]);
            }
        }
        process.meet();
    });
}
