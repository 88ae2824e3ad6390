//! A home without space: what was written under a lock and cannot get there does not come there later, over newer
//! bytes; and who could not write finds what is there.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use svmio_svm::{CacheSettings, ErrorKind, File, FileName, FileOffset, NodeIndex, NodeName, OpenOptions};
use svmio_svm::{SegmentIndex, SegmentSize, Store};

use super::job::{self, Process};
use super::{SEGMENT, exclusive, set_word, word};

/// Runs `body` as three ranks on three nodes. The store of the first is a small file system of its own, and has one
/// segment of the file that all have open, without storage; `fill` takes all its space, and gives it back.
fn with_full_home(body: impl Fn(&Process<'_>, &File, &dyn Fn(bool)) + Sync) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("directories can be made in /dev/shm");
    let path = |number: u32| directory.path().join(format!("n{number}"));
    in_own_mounts(|| {
        (0..3).for_each(|number| std::fs::create_dir(path(number)).expect("it can be made"));
        mount("tmpfs", path(0), "tmpfs", MountFlags::empty(), c"size=4m,mode=0700")
            .expect("it can be mounted");
        let open = |number| Store::open_for(&path(number), &NodeName::new(format!("n{number}")));
        let stores: Vec<_> = (0..3).map(|number| open(number).expect("a new store opens")).collect();
        let filler = Filler { path: path(0).join("filler"), is_there: Mutex::new(false) };
        job::run(&stores, &CacheSettings::default(), |process| {
            let name = FileName::new("f").expect("it is a name");
            let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
            let file = process.open(&name, &options).expect("the file opens");
            if process.rank() == 0 {
                file.place(&[(SegmentIndex(0), NodeIndex(0))], 1).expect("it can be placed");
                file.set_size(1000).expect("it can be set");
            }
            process.sync(&file).expect("all see it");
            body(process, &file, &|is_full| filler.set(is_full));
        });
    });
}

struct Filler {
    path: PathBuf,
    is_there: Mutex<bool>,
}

impl Filler {
    fn set(&self, is_full: bool) {
        let mut is_there = self.is_there.lock().expect("nobody panics with it");
        if is_full && !*is_there {
            fill(&self.path);
        } else if !is_full && *is_there {
            std::fs::remove_file(&self.path).expect("it can be removed");
        }
        *is_there = is_full;
    }
}

fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).expect("it can be made");
    let full =
        std::iter::repeat_with(|| std::io::Write::write_all(&mut file, &[1; 4096])).find(Result::is_err);
    assert!(full.is_some_and(|result| result.is_err_and(|e| e.kind() == std::io::ErrorKind::StorageFull)));
}

/// Runs `test` where its mounts are nobody else's.
fn in_own_mounts(test: impl FnOnce() + Send) {
    let inside = || {
        // SAFETY: a mount namespace, and the working directory that goes with it, become this thread's own; descriptors
        // and memory stay shared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
            .expect("tests with mounts of their own must run as root");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .expect("it is this thread's");
        test();
    };
    let outcome = std::thread::scope(|scope| scope.spawn(inside).join());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn what_cannot_be_brought_home_is_an_error_of_the_release_and_does_not_come_later() {
    with_full_home(|process, file, fill| {
        if process.rank() == 1 {
            fill(true);
            let held = exclusive(file, 0, 8);
            set_word(file, 0, 1);
            assert_eq!(held.release().unwrap_err().kind(), ErrorKind::NoSpace);
            fill(false);
        }
        process.meet();
        if process.rank() == 2 {
            let held = exclusive(file, 0, 8);
            assert_eq!(word(file, 0), 0);
            set_word(file, 0, 2);
            held.release().unwrap();
        }
        process.meet();
        // Rank 1 knows.
        file.flush().unwrap();
        process.sync(file).unwrap();
        assert_eq!(word(file, 0), 2);
    });
}

#[test]
fn what_cannot_be_brought_home_when_a_kept_lock_goes_back_is_an_error_of_the_next_flush_and_does_not_come_later()
 {
    with_full_home(|process, file, fill| {
        if process.rank() == 1 {
            for _ in 0..2 {
                exclusive(file, 0, 8).release().unwrap();
            }
            // Beside the lock, without one: it waits for its time.
            file.write_at(FileOffset(100), &[9]).unwrap();
            fill(true);
            let held = exclusive(file, 0, 8);
            set_word(file, 0, 1);
            held.release().unwrap();
        }
        process.meet();
        if process.rank() == 2 {
            let held = exclusive(file, 0, 8);
            assert_eq!(word(file, 0), 0);
            fill(false);
            set_word(file, 0, 2);
            held.release().unwrap();
        }
        process.meet();
        if process.rank() == 1 {
            let error = file.flush().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoSpace);
            assert!(error.to_string().contains("/f: bytes that this node wrote under a lock"), "{error}");
        }
        // Told once.
        process.sync(file).unwrap();
        assert_eq!(word(file, 0), 2);
        let mut byte = [0];
        file.read_at(FileOffset(100), &mut byte).unwrap();
        assert_eq!(byte, [9]);
    });
}

#[test]
fn what_a_long_write_could_not_bring_home_is_not_read_where_it_was_written_either() {
    with_full_home(|process, file, fill| {
        if process.rank() == 1 {
            assert_eq!(word(file, 0), 0);
            fill(true);
            let error = file.write_at(FileOffset(0), &[1; SEGMENT as usize]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoSpace);
            assert_eq!(word(file, 0), 0);
            fill(false);
        }
        process.sync(file).unwrap();
        assert_eq!(word(file, 0), 0);
    });
}

#[test]
fn what_was_not_brought_home_when_the_file_was_closed_does_not_come_later() {
    with_full_home(|process, file, fill| {
        if process.rank() == 1 {
            fill(true);
            file.write_at(FileOffset(0), &[1; 8]).unwrap();
        }
        process.meet();
        assert!(process.team.close(file, false).is_err(), "all are told");
        process.meet();
        if process.rank() == 1 {
            fill(false);
        }
        process.meet();
        let again = process.open(&FileName::new("f").unwrap(), &OpenOptions::read_write()).unwrap();
        process.sync(&again).unwrap();
        assert_eq!(word(&again, 0), 0, "rank {}", process.rank());
        process.close(again).unwrap();
    });
}
