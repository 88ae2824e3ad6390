//! What cannot be had.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use svmio_svm::mapping::{Advice, Bound, StrictMapping};
use svmio_svm::{Error, ErrorKind, LockMode};
use svmio_transport::Rank;

use super::*;

/// Whether the kernel can read so many bytes from there: it is told of a signal by an error.
pub(super) fn kernel_reads(at: *const u8, bytes: usize) -> bool {
    let (from, to) = std::io::pipe().expect("a pipe can be had");
    // SAFETY: the kernel looks whether the bytes can be read.
    let written = unsafe { libc::write(std::os::fd::AsRawFd::as_raw_fd(&to), at.cast(), bytes) };
    drop(from);
    written == bytes as isize
}

#[test]
fn a_page_whose_home_is_lost_is_told_of_and_poisoned_soon() {
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = filled_by_the_second(process);
        if process.rank() == 0 {
            let told: Arc<Mutex<Vec<(u64, String)>>> = Arc::default();
            let tell = Arc::clone(&told);
            let options = MappingOptions::new().on_loss(move |lost| {
                tell.lock().unwrap().push((lost.range.start.0, lost.error.to_string()));
            });
            let mapping = map(&file, SEGMENT, &options);
            store(&mapping, 3, 6);
            process.job.memberships[0].declare_lost(Rank(1), "the test says so");
            let begun = Instant::now();
            assert!(kernel_reads(mapping.as_ptr(), 100), "what is here stays");
            let lost = 7 * PAGE;
            assert!(!kernel_reads(mapping.as_ptr().wrapping_add(lost as usize), 8));
            assert!(begun.elapsed() < Duration::from_secs(60));
            let told = told.lock().unwrap().clone();
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].0 == lost && told[0].1.contains("n1"), "{told:?}");
            assert!(!kernel_reads(mapping.as_ptr().wrapping_add(lost as usize + 99), 8), "it stays so");
            // What cannot go home is kept, and told.
            for _ in 0..2 {
                let error = mapping.sync(all(SEGMENT)).unwrap_err();
                assert!(error.to_string().contains("n1"), "{error}");
                assert_eq!(load(&mapping, 3), 6);
            }
            let _ = mapping.refresh().unwrap_err();
            let _ = mapping.unmap().unwrap_err();
        }
    });
}

#[test]
fn what_was_stored_under_a_lock_that_went_with_the_leader_does_not_come_home() {
    let (_directory, stores) = job::stores(2);
    job::run([&stores[0], &stores[1], &stores[1]], &cache(), |process| {
        let file = open(process, &small_segments());
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[5; SEGMENT as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        let mapping = map(&file, SEGMENT, &MappingOptions::new());
        let exclusive = || mapping.lock(all(8), LockMode::Exclusive).unwrap();
        let mut held = None;
        if process.rank() == 2 {
            // Until its node keeps it.
            for _ in 0..3 {
                let lock = exclusive();
                store(&mapping, 1, 7);
                lock.release().unwrap();
            }
            let asked = || process.cluster.statistics().requests.get("lock").copied();
            let before = asked();
            held = Some(exclusive());
            assert_eq!(asked(), before, "its node keeps the lock");
            store(&mapping, 0, 1);
        }
        process.meet();
        let leader = Rank(1);
        if process.rank() == 0 {
            for told in [0, 2] {
                process.job.memberships[told].declare_lost(leader, "the test says so");
            }
            let lock = exclusive();
            store(&mapping, 0, 2);
            lock.release().unwrap();
        }
        process.meet();
        if let Some(held) = held {
            let error = held.release().unwrap_err();
            assert!(error.to_string().contains("n1"), "{error}");
        }
        process.meet();
        if process.rank() == 0 {
            assert_eq!(load(&mapping, 0), 2, "what the next holder stored");
        }
        process.meet();
        if process.rank() == 2 {
            // It goes on, with what is at home.
            let lock = exclusive();
            assert_eq!([load(&mapping, 0), load(&mapping, 1)], [2, 7]);
            lock.release().unwrap();
        }
        process.meet();
    });
}

#[test]
fn values_that_were_changed_under_a_lock_that_went_with_the_leader_do_not_go_home() {
    let (_directory, stores) = job::stores(2);
    job::run([&stores[0], &stores[1], &stores[1]], &cache(), |process| {
        // However few they are, they go past the cache.
        process.cluster.set_long_write(Some(1));
        let file = open(process, &small_segments());
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[5; SEGMENT as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        let bound = Bound::<u8>::new(&file, FileOffset(0), 8).unwrap();
        let mut held = None;
        if process.rank() == 2 {
            // Until its node keeps the lock.
            for _ in 0..3 {
                bound.exclusive().unwrap().release().unwrap();
            }
            let asked = || process.cluster.statistics().requests.get("lock").copied();
            let before = asked();
            let mut guard = bound.exclusive().unwrap();
            assert_eq!(asked(), before, "its node keeps the lock");
            guard.fill(1);
            held = Some(guard);
        }
        process.meet();
        if process.rank() == 0 {
            for told in [0, 2] {
                process.job.memberships[told].declare_lost(Rank(1), "the test says so");
            }
            let mut guard = bound.exclusive().unwrap();
            guard.fill(2);
            guard.release().unwrap();
        }
        process.meet();
        if let Some(held) = held {
            let error = held.release().unwrap_err();
            assert!(error.to_string().contains("n1"), "{error}");
        }
        process.meet();
        if process.rank() == 0 {
            assert_eq!(bound.shared().unwrap()[..], [2; 8], "what the next holder changed");
        }
        process.meet();
    });
}

#[test]
fn what_was_lost_is_tried_again_after_a_refresh_in_a_mapping_of_many_segments() {
    // Of more segments than a refresh asks for one by one, and than are kept open.
    const SEGMENTS: u64 = 1100;
    let (directory, stores) = job::stores(1);
    let file = Arc::new(stores[0].open_file(&FileName::new("f").unwrap(), &small_segments()).unwrap());
    let mapping = Mapping::new(&file, all(SEGMENTS * SEGMENT)).unwrap();
    for segment in 0..SEGMENTS {
        file.write_at(FileOffset(segment * SEGMENT), &[7]).unwrap();
    }
    let object = directory.path().join("n0/objects").join(file.id().to_string());
    let (there, away) = (object.join("segment-0000000000"), directory.path().join("away"));
    std::fs::rename(&there, &away).unwrap();
    assert!(!kernel_reads(mapping.as_ptr(), 8));
    std::fs::rename(&away, &there).unwrap();
    assert!(!kernel_reads(mapping.as_ptr(), 8), "nobody has asked for it");
    mapping.refresh().unwrap();
    assert!(kernel_reads(mapping.as_ptr(), 8));
    assert_eq!(load(&mapping, 0), 7);
}

const DIES: &str = "failures::a_thread_that_touches_what_is_lost_gets_sigbus";

#[test]
fn a_thread_that_touches_what_is_lost_gets_sigbus() {
    if std::env::var_os("SVMIO_TEST_DIES").is_none() {
        let test = std::env::current_exe().unwrap();
        let mut command = Command::new(test);
        let output =
            command.args([DIES, "--exact", "--nocapture"]).env("SVMIO_TEST_DIES", "1").output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
        return;
    }
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = filled_by_the_second(process);
        if process.rank() == 0 {
            let mapping = map(&file, SEGMENT, &MappingOptions::new());
            process.job.memberships[0].declare_lost(Rank(1), "the test says so");
            load(&mapping, 0);
        }
    });
}

/// A log of losses that is written to the standard error.
struct ToStderr;

impl tracing::Subscriber for ToStderr {
    fn enabled(&self, of: &tracing::Metadata<'_>) -> bool {
        of.target().ends_with("::losses")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut |_: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            text += &format!("{value:?}")
        });
        eprintln!("{text}");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

const HOLDS: &str = "failures::who_holds_what_the_log_is_written_to_goes_on";

#[test]
fn who_holds_what_the_log_is_written_to_goes_on() {
    if std::env::var_os("SVMIO_TEST_HOLDS").is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([HOLDS, "--exact", "--nocapture"]).env("SVMIO_TEST_HOLDS", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        let told =
            said.lines().filter(|line| line.contains("a page of /mapped that is touched cannot be had"));
        assert_eq!(told.count(), 1, "{said}");
        return;
    }
    // SAFETY: it only has this process end that would wait for ever.
    unsafe { libc::alarm(60) };
    tracing::subscriber::set_global_default(ToStderr).unwrap();
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = filled_by_the_second(process);
        if process.rank() == 0 {
            let mapping = map(&file, SEGMENT, &MappingOptions::new().loss_limit(Duration::from_millis(50)));
            process.job.memberships[0].declare_lost(Rank(1), "the test says so");
            let held = std::io::stderr().lock();
            assert!(!kernel_reads(mapping.as_ptr(), 8));
            drop(held);
            // It is told of when this has returned, at the latest.
            let _ = mapping.unmap();
        }
    });
}

#[test]
fn a_process_that_may_not_serve_faults_hears_of_the_way_out() {
    let (_directory, stores) = job::stores(1);
    let file = Arc::new(stores[0].open_file(&FileName::new("f").unwrap(), &small_segments()).unwrap());
    let nobody = std::thread::spawn(move || {
        let nobody = rustix::thread::Uid::from_raw(65534);
        // Of this thread alone.
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("the test runs as root");
        let strict = StrictMapping::new(&file, all(SEGMENT)).map(|_| ()).unwrap_err();
        assert!(matches!(strict, Error::FaultsRefused { .. }), "{strict:?}");
        let error = Mapping::new(&file, all(SEGMENT)).map(|_| ()).unwrap_err();
        assert_eq!(file.size(), 0, "a file that is not mapped stays as it is");
        error
    });
    let error = nobody.join().unwrap();
    assert!(matches!(error, Error::FaultsRefused { .. }) && error.kind() == ErrorKind::Access, "{error:?}");
    let text = error.to_string();
    for word in ["/f", "n0", "vm.unprivileged_userfaultfd", "/dev/userfaultfd", "read_at and write_at"] {
        assert!(text.contains(word), "{word} in {text}");
    }
}

#[test]
fn ranges_that_cannot_be_are_errors() {
    let (_directory, stores) = job::stores(1);
    let name = FileName::new("f").unwrap();
    let file = Arc::new(stores[0].open_file(&name, &small_segments()).unwrap());
    let range = |start, end| FileOffset(start)..FileOffset(end);
    let bad = |result: svmio_svm::Result<()>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::BadRange { .. }) && error.to_string().contains("/f"), "{error}");
    };
    bad(Mapping::new(&file, range(5, 5)).map(drop));
    let far = Mapping::new(&file, range(0, u64::MAX)).map(drop).unwrap_err();
    assert!(matches!(far, Error::TooLarge { .. }), "{far}");
    let mapping = Mapping::new(&file, range(100, 2 * PAGE)).unwrap();
    bad(mapping.sync(range(99, 200)));
    bad(mapping.sync(range(100, 2 * PAGE + 1)));
    bad(mapping.advise(range(0, 10), Advice::WillNeed));
    bad(mapping.fetch(range(0, 10)).map(drop));
    bad(mapping.lock(range(0, 10), LockMode::Shared).map(drop));
    drop(mapping);
    let reading = Arc::new(stores[0].open_file(&name, &OpenOptions::reading()).unwrap());
    bad(Mapping::new(&reading, range(0, 2 * PAGE + 1)).map(drop));
    let prepared = MappingOptions::new().prepare(&reading, range(0, 4 * PAGE)).unwrap();
    for (coming, told) in
        [(0, format!("has {} bytes", 2 * PAGE)), (3 * PAGE, format!("is to have {} bytes", 3 * PAGE))]
    {
        let error = prepared.check_size(coming).unwrap_err();
        assert!(error.to_string().contains(&told), "{error}");
    }
    prepared.check_size(4 * PAGE).unwrap();
    let mapping = Mapping::new(&reading, range(0, 2 * PAGE)).unwrap();
    assert!(!mapping.is_writable());
    assert_eq!(load(&mapping, 5), 0);
    let writing = Arc::new(stores[0].open_file(&name, &OpenOptions::writing()).unwrap());
    let error = Mapping::new(&writing, range(0, 1)).map(drop).unwrap_err();
    assert!(matches!(error, Error::NotOpenedFor { what: "reading", .. }), "{error}");
}
