//! What homes are brought by order, looked at from within.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::cluster::tests::job::{self, Process};
use crate::cluster::tests::{hold_strict_pages, strict_pages};
use crate::cluster::{Order, Returned};
use crate::{CacheSettings, FileName, OpenOptions, SegmentSize};

const SEGMENT: u64 = 64 << 10;

/// A file of one segment, on the node of rank 0 of two.
fn open(process: &Process<'_>) -> Arc<File> {
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
    let file = Arc::new(process.open(&FileName::new("f").unwrap(), &options).unwrap());
    if process.rank() == 0 {
        file.write_at(FileOffset(0), &[5; SEGMENT as usize]).unwrap();
    }
    process.sync(&file).unwrap();
    file
}

/// Stores into the first byte, and gives the page up as if its home had ordered it, but does not tell the home.
fn store_and_obey(mapping: &StrictMapping, home: NodeIndex) -> Returned {
    // SAFETY: it lies in the mapping.
    unsafe { mapping.as_mut_ptr().write_volatile(6) };
    let (keeper, mut obeyed) = (&mapping.keeper, Returned::default());
    let order = Order { page: keeper.place(0), ticket: 1, keeps: false };
    keeper.obey(home, &order, &mut obeyed);
    obeyed
}

fn run(body: impl Fn(&Process<'_>, &Arc<File>) + Sync) {
    let (_directory, stores) = job::stores(2);
    job::run(&stores, &CacheSettings::default(), |process| {
        let file = open(process);
        body(process, &file);
        process.meet();
    });
}

#[test]
fn a_flush_waits_for_what_went_home_by_order() {
    run(|process, file| {
        if process.rank() == 1 {
            let mapping = StrictMapping::new(file, FileOffset(0)..FileOffset(SEGMENT)).unwrap();
            let (keeper, home) = (&mapping.keeper, NodeIndex(0));
            let obeyed = store_and_obey(&mapping, home);
            let (flushed, outcome) = mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(|| flushed.send(mapping.flush()).unwrap());
                assert!(outcome.recv_timeout(Duration::from_millis(50)).is_err(), "it is not there yet");
                let shared = keeper.file.shared().unwrap();
                let returning = shared.begin_return((home, keeper.number), 1, &obeyed);
                keeper.bring_back(shared, home, (1, &obeyed), returning).unwrap();
                outcome.recv().unwrap().unwrap();
            });
            process.meet();
            process.meet();
        } else {
            process.meet();
            let mut byte = [0];
            file.read_at(FileOffset(0), &mut byte).unwrap();
            assert_eq!(byte, [6]);
            process.meet();
        }
    });
}

#[test]
fn what_its_home_could_not_store_is_told_by_the_next_flush_once() {
    run(|process, file| {
        if process.rank() == 1 {
            let mapping = StrictMapping::new(file, FileOffset(0)..FileOffset(SEGMENT)).unwrap();
            let (keeper, home) = (&mapping.keeper, NodeIndex(0));
            let mut obeyed = store_and_obey(&mapping, home);
            // Bytes that no segment has.
            let beyond = PagePlace { segment: SegmentIndex(0), within: SEGMENT };
            obeyed.put(beyond, false, std::slice::from_ref(&(0..1)), &[1]);
            let shared = keeper.file.shared().unwrap();
            let returning = shared.begin_return((home, keeper.number), 1, &obeyed);
            keeper.bring_back(shared, home, (1, &obeyed), returning).unwrap();
            let error = mapping.flush().unwrap_err();
            assert!(error.to_string().contains("n0"), "{error}");
            mapping.flush().unwrap();
        }
    });
}

#[test]
fn what_is_on_its_way_to_a_lost_home_is_an_error_and_not_waited_for() {
    run(|process, file| {
        if process.rank() == 1 {
            let mapping = StrictMapping::new(file, FileOffset(0)..FileOffset(SEGMENT)).unwrap();
            let _ = store_and_obey(&mapping, NodeIndex(0));
            process.job.memberships[1].declare_lost(svmio_transport::Rank(0), "the test says so");
            let error = mapping.flush().unwrap_err();
            assert!(error.to_string().contains("n0"), "{error}");
            drop(mapping);
        }
    });
}

#[test]
fn homes_know_of_few_copies_that_have_gone() {
    const PAGE: u64 = 4096;
    const LIMIT: u64 = 2 << 20;
    const SEGMENTS: u64 = 12;
    let size = SegmentSize::new(LIMIT).unwrap();
    let (_directory, stores) = job::stores(2);
    job::run(&stores, &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = Arc::new(process.open(&FileName::new("f").unwrap(), &options).unwrap());
        // By turns here and there, each as long as the limit: all of one home's copies go while the other one is asked.
        for segment in (u64::from(process.rank())..SEGMENTS).step_by(2) {
            file.write_at(FileOffset(segment * LIMIT), &[5]).unwrap();
        }
        process.sync(&file).unwrap();
        let mapping = (process.rank() == 1).then(|| {
            let all = FileOffset(0)..FileOffset(SEGMENTS * LIMIT);
            let mapping = MappingOptions::new().limit(LIMIT).map_strictly(&file, all).unwrap();
            for at in (0..SEGMENTS * LIMIT).step_by(PAGE as usize) {
                // SAFETY: it lies in the mapping.
                unsafe { mapping.as_ptr().add(at as usize).read_volatile() };
            }
            mapping
        });
        process.meet();
        let (known, most) = (strict_pages(process, &file), (LIMIT / PAGE) as usize + 256);
        assert!(known <= most, "of {known} pages, where a mapping has {most}");
        process.meet();
        if let Some(mapping) = mapping {
            mapping.refresh().unwrap();
            // What is fetched ahead late may have word of some on its way; who looks on for ever is told by the job.
            while strict_pages(process, &file) >= 256 {
                std::thread::yield_now();
            }
            mapping.unmap().unwrap();
        }
        process.meet();
        assert_eq!(strict_pages(process, &file), 0);
    });
}

#[test]
fn a_home_that_does_not_answer_holds_up_no_loads_of_what_other_homes_have() {
    const PAGE: u64 = 4096;
    const SIZE: u64 = 2 << 20;
    let size = SegmentSize::new(SIZE).unwrap();
    let (_directory, stores) = job::stores(2);
    let (end, loaded) = mpsc::channel();
    let (end, loaded) = (Mutex::new(end), Mutex::new(loaded));
    job::run(&stores, &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = Arc::new(process.open(&FileName::new("f").unwrap(), &options).unwrap());
        file.write_at(FileOffset(u64::from(process.rank()) * SIZE), &[5; 1]).unwrap();
        process.sync(&file).unwrap();
        if process.rank() == 0 {
            process.meet();
            hold_strict_pages(process, &file, || {
                process.meet();
                let wait = loaded.lock().unwrap().recv_timeout(Duration::from_secs(30));
                wait.expect("the loads end while this home does not answer");
            });
            process.meet();
        } else {
            // Room for as many copies as there are of one home, and one thread that serves faults.
            let options = MappingOptions::new().limit(SIZE).handlers(1);
            let mapping = options.map_strictly(&file, FileOffset(0)..FileOffset(2 * SIZE)).unwrap();
            let load = |at: u64| {
                // SAFETY: it lies in the mapping.
                unsafe { mapping.as_ptr().add(at as usize).read_volatile() }
            };
            (0..SIZE).step_by(PAGE as usize).for_each(|at| _ = load(at));
            process.meet();
            process.meet();
            let before = mapping.statistics().evicted;
            (SIZE..2 * SIZE).step_by(PAGE as usize).for_each(|at| _ = load(at));
            end.lock().unwrap().send(()).unwrap();
            assert!(mapping.statistics().evicted >= before + 256, "{:?}", mapping.statistics());
            process.meet();
            mapping.unmap().unwrap();
        }
    });
}
