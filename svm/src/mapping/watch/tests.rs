use std::collections::BTreeSet;
use std::sync::mpsc;

use super::*;

fn fault(page: u64) -> PageFault {
    PageFault { page, was_there: false, is_store: false }
}

/// Nothing is ever to be read from it.
fn silent() -> Arc<OwnedFd> {
    Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap())
}

#[test]
fn faults_that_are_left_are_taken_in_their_order_and_wake_nobody_after_that() {
    let watch = Watch::new(silent(), 1, 1).unwrap();
    let left = |page: u64, is_alone: bool| Some(Left { fault: fault(page), is_alone });
    watch.leave((1..3).map(fault));
    watch.leave_alone((3..5).map(fault));
    watch.leave((5..6).map(fault));
    let first = watch.take().unwrap();
    assert_eq!(Some(first), left(1, false));
    watch.pass_on(first);
    assert_eq!(watch.first(), left(1, false));
    // What has failed with others stays to be served on its own.
    assert_eq!(watch.take_together(), [1, 2, 5].map(fault));
    assert_eq!(watch.take_together(), []);
    assert_eq!([watch.take(), watch.take(), watch.take()], [left(3, true), left(4, true), None]);
    assert_eq!(watch.first(), None);
    assert_eq!(rustix::io::read(&watch.left, &mut [0; 8]), Err(rustix::io::Errno::AGAIN));
}

#[test]
fn faults_that_are_left_are_taken_once_each_whoever_watches_and_wake_nobody_after_that() {
    const FAULTS: u64 = 50_000;
    for (threads, most) in [(1, 1), (4, 1), (4, 2), (3, usize::MAX)] {
        let (watch, is_stopping) = (&Watch::new(silent(), most, threads).unwrap(), &AtomicBool::new(false));
        let (took, taken) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let took = took.clone();
                scope.spawn(move || {
                    let mut place = watch.enter(is_stopping, None);
                    while !is_stopping.load(Ordering::Acquire) {
                        let Some(left) = watch.take() else {
                            watch.wait().unwrap();
                            continue;
                        };
                        drop(place);
                        took.send(left.fault.page).unwrap();
                        place = watch.enter(is_stopping, None);
                    }
                });
            }
            (0..FAULTS / 5).for_each(|some| watch.leave((some * 5..some * 5 + 5).map(fault)));
            let all: BTreeSet<u64> = taken.iter().take(FAULTS as usize).collect();
            assert_eq!(all.len() as u64, FAULTS);
            is_stopping.store(true, Ordering::Release);
            watch.stop().unwrap();
        });
        assert_eq!(taken.try_recv().ok(), None);
        let told = rustix::io::read(&watch.left, &mut [0; 8]);
        assert_eq!(told, Err(rustix::io::Errno::AGAIN));
    }
}

#[test]
fn who_sleeps_hears_of_faults_only_where_nobody_is_awake_or_about_to_be() {
    let (watch, is_stopping) = (&Watch::new(silent(), 2, 2).unwrap(), &AtomicBool::new(false));
    let hears = || watch.state().asleep.first().map(|bed| bed.hears.load(Ordering::Relaxed));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let _place = watch.enter(is_stopping, None);
            watch.wait().unwrap();
        });
        while watch.state().asleep.is_empty() {
            std::thread::yield_now();
        }
        let mut heard = vec![hears()];
        let place = watch.enter(is_stopping, None);
        heard.push(hears());
        let held_up = watch.held_up();
        heard.push(hears());
        drop(held_up);
        heard.push(hears());
        drop(place);
        heard.push(hears());
        let promise = watch.promise();
        heard.push(hears());
        let place = watch.enter(is_stopping, Some(promise));
        heard.push(hears());
        let promise = watch.promise();
        drop(place);
        heard.push(hears());
        drop(promise);
        heard.push(hears());
        watch.stop().unwrap();
        sleeper.join().unwrap();
        let expected = [true, false, true, false, true, false, false, false, true];
        assert_eq!(heard, expected.map(Some));
    });
    let state = watch.state();
    assert_eq!((state.watching, state.awake, state.asleep.len()), (0, 0, 0));
}

#[test]
fn who_waits_for_a_place_hears_of_faults_where_all_that_have_one_are_held_up() {
    let (watch, is_stopping) = (&Watch::new(silent(), 2, 3).unwrap(), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let places = [watch.enter(is_stopping, None), watch.enter(is_stopping, None)];
        let outsider = scope.spawn(|| drop(watch.enter(is_stopping, None)));
        while watch.state().outside == 0 {
            std::thread::yield_now();
        }
        let held_up = [watch.held_up(), watch.held_up()];
        let since = std::time::Instant::now();
        while !outsider.is_finished() && since.elapsed() < std::time::Duration::from_secs(20) {
            std::thread::yield_now();
        }
        let has_got_in = outsider.is_finished();
        drop((held_up, places));
        assert!(has_got_in);
    });
    let state = watch.state();
    assert_eq!((state.watching, state.awake, state.outside), (0, 0, 0));
}

#[test]
fn a_fault_is_found_whoever_sleeps_and_whoever_is_at_work() {
    const FAULTS: u64 = 20_000;
    const HOW: EventfdFlags = EventfdFlags::CLOEXEC.union(EventfdFlags::NONBLOCK);
    for (threads, most) in [(1, 1), (4, 1), (4, 2), (3, usize::MAX)] {
        let faults = &Arc::new(eventfd(0, HOW.union(EventfdFlags::SEMAPHORE)).unwrap());
        let watch = &Watch::new(Arc::<OwnedFd>::clone(faults), most, threads).unwrap();
        let is_stopping = &AtomicBool::new(false);
        let (took, taken) = mpsc::channel();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let took = took.clone();
                scope.spawn(move || {
                    let mut place = watch.enter(is_stopping, None);
                    for turn in thread.. {
                        if is_stopping.load(Ordering::Acquire) {
                            break;
                        }
                        if rustix::io::read(faults, &mut [0; 8]).is_err() {
                            watch.wait().unwrap();
                            continue;
                        }
                        let held_up = (turn % 4 == 0).then(|| watch.held_up());
                        if turn % 4 < 2 {
                            took.send(()).unwrap();
                            drop(held_up);
                            continue;
                        }
                        drop(place);
                        let promise = (turn % 4 == 2).then(|| watch.promise());
                        took.send(()).unwrap();
                        place = watch.enter(is_stopping, promise);
                    }
                });
            }
            let are_found = |number: u64| {
                // Now and then two at a time.
                let count = if number.is_multiple_of(5) { 2 } else { 1 };
                (0..count).for_each(|_| assert!(rustix::io::write(faults, &1u64.to_ne_bytes()).is_ok()));
                (0..count).all(|_| taken.recv_timeout(std::time::Duration::from_secs(20)).is_ok())
            };
            let missed = (0..FAULTS).find(|number| !are_found(*number));
            is_stopping.store(true, Ordering::Release);
            watch.stop().unwrap();
            assert_eq!(missed, None, "{threads} threads, {most} places");
        });
    }
}

#[test]
fn who_finds_no_bed_makes_one_or_does_without() {
    let (watch, is_stopping) = (&Watch::new(silent(), 1, 3).unwrap(), &AtomicBool::new(false));
    let _place = watch.enter(is_stopping, None);
    let taken = watch.state().free.pop();
    assert!(taken.is_some());
    watch.leave((1..2).map(fault));
    watch.wait().unwrap();
    watch.wait_without_bed().unwrap();
    let state = watch.state();
    assert_eq!((state.awake, state.asleep.len(), state.free.len()), (1, 0, 1));
}

const KEEPS: &str = "mapping::watch::tests::no_segment_is_closed_for_a_bed_that_is_not_needed";

/// In a process of its own, whose descriptors are counted.
#[test]
fn no_segment_is_closed_for_a_bed_that_is_not_needed() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    if std::env::var_os("SVMIO_TEST_KEEPS").is_none() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.args([KEEPS, "--exact"]).env("SVMIO_TEST_KEEPS", "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
        return;
    }
    const SEGMENTS: u64 = 20;
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = crate::Store::open(directory.path()).unwrap();
    let options = crate::OpenOptions::read_write().create(true).segment_size(Some(crate::SegmentSize::MIN));
    let file = store.open_file(&crate::FileName::new("f").unwrap(), &options).unwrap();
    let write = || {
        for segment in 0..SEGMENTS {
            file.write_at(crate::FileOffset(segment * crate::SegmentSize::MIN.bytes()), &[1]).unwrap();
        }
        crate::mapping_cache::made_by_this_thread()
    };
    let made = write();
    assert!(made >= SEGMENTS);
    let (watch, is_stopping) = (&Watch::new(silent(), 1, 3).unwrap(), &AtomicBool::new(false));
    let _place = watch.enter(is_stopping, None);
    let taken = watch.state().free.pop();
    assert!(taken.is_some());
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), ..getrlimit(Resource::Nofile) }).unwrap();
    let all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    assert!(!all.is_empty());
    watch.leave((1..2).map(fault));
    watch.wait().unwrap();
    assert_eq!(write(), made, "segments were closed");
}
