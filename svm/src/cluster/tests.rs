//! Files over nodes, looked at from within: processes that die, and files that other processes have open.

mod closing;
mod crowded_locks;
mod flushing;
#[path = "../../tests/job/mod.rs"]
pub(crate) mod job;
mod joining;
mod late_writes;
mod locked_holes;
mod natively;
mod opening;
mod orders;
mod pinned;
mod releases;
mod sizes;
mod taken_away;
mod turns;
mod undeclared;
mod untold;
mod waiting_for_oneself;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use svmio_transport::Rank;
use svmio_transport::message::MessageSettings;

use super::keeping::{HomeLock, Source};
use super::pages::Coming;
use super::{NodeIndex, SharedFile};
use crate::attachment::{self, How};
use crate::cache::{Fetch, PageNumber};
use crate::locks::Mode;
use crate::warnings::told_by;
use crate::{Blocks, CacheSettings, File, FileName, FileOffset, LockMode, OpenOptions, SegmentSize, Store};
use job::Process;

const SEGMENT: u64 = 4 << 20;
const PAGE: u64 = 4096;

/// Two ranks on one node, and one on another.
fn job(stores: &[Store], pages: u64, body: impl Fn(&Process<'_>) + Sync) {
    let cache = CacheSettings { page: PAGE, capacity: pages * PAGE };
    job::run([&stores[0], &stores[0], &stores[1]], &cache, body);
}

/// A file of ones, on the node of rank 2.
fn open(process: &Process<'_>, name: &FileName) -> File {
    let size = SegmentSize::new(SEGMENT).unwrap();
    let options = OpenOptions::read_write().create(true).segment_size(Some(size));
    let file = process.open(name, &options).unwrap();
    if process.rank() == 2 {
        file.write_at(FileOffset(0), &[1; SEGMENT as usize]).unwrap();
    }
    process.sync(&file).unwrap();
    file
}

/// `file` once more, as the cluster's modules have it.
fn shared(process: &Process<'_>, store: &Store, file: &File) -> Arc<SharedFile> {
    let how = How::through(process.cluster.id());
    let attachment = attachment::attach(store, file.id(), "f", how).ok().unwrap();
    Arc::new(SharedFile::new(Arc::clone(&process.cluster), attachment))
}

/// A lock on the first bytes, as far as node `home` is their home.
fn home_lock(shared: &Arc<SharedFile>, home: u32) -> HomeLock {
    let locked = HomeLock::acquire(shared, NodeIndex(home), &(0..100), Mode::Exclusive, Source::KeptOrHomes);
    locked.unwrap().expect("there is room among those who use kept locks")
}

fn read<const BYTES: usize>(file: &File, at: u64) -> [u8; BYTES] {
    let mut bytes = [99; BYTES];
    assert_eq!(file.read_at(FileOffset(at), &mut bytes).unwrap(), BYTES);
    bytes
}

#[test]
fn what_was_written_to_a_removed_file_that_others_have_open_goes_home_to_make_room() {
    let (_directory, stores) = job::stores(2);
    job(&stores, 1, |process| {
        let names = ["f", "removed"].map(|text| FileName::new(text).unwrap());
        let [file, removed] = names.each_ref().map(|name| open(process, name));
        let outcome = if process.rank() == 0 { process.cluster.remove(&names[1]) } else { Ok(()) };
        process.team.outcome_of(0, outcome).unwrap();
        if process.rank() == 1 {
            removed.write_at(FileOffset(10), b"wanted still").unwrap();
        }
        process.meet();
        if process.rank() == 0 {
            // Rank 1 is another process.
            attachment::overlook(stores[0].shared_path(), removed.id());
            file.write_at(FileOffset(0), b"in the way").unwrap();
        }
        process.meet();
        assert_eq!(&read::<12>(&removed, 10), b"wanted still");
        process.close(file).unwrap();
    });
}

#[test]
fn pages_fetched_while_a_process_died_over_writing_pieces_are_fetched_again_after_a_sync() {
    let (_directory, stores) = job::stores(2);
    job(&stores, 64, |process| {
        let file = open(process, &FileName::new("f").unwrap());
        let mut access = None;
        let data = vec![7; 2 << 20];
        let put = |access: &mut crate::StridedWrite<'_>, start, count| {
            let blocks = Blocks { start, length: PAGE, stride: 2 * PAGE, count };
            // SAFETY: there are as many bytes, and they stay until all is over.
            unsafe { access.put(&blocks, data.as_ptr(), PAGE as isize) }.unwrap();
        };
        if process.rank() == 0 {
            let bounds = FileOffset(0)..FileOffset(SEGMENT);
            let access = access.insert(file.write_strided(bounds, data.len() as u64).unwrap());
            put(access, 0, 1);
        }
        process.meet();
        if process.rank() == 1 {
            assert_eq!(read(&file, 0), [1]);
        }
        process.meet();
        if process.rank() == 0 {
            put(access.as_mut().unwrap(), 2 * PAGE, 500);
            // The process goes no further.
            std::mem::forget(access.take());
        }
        if process.rank() == 2 {
            while read(&file, 0) != [7] {
                std::thread::yield_now();
            }
        }
        process.meet();
        if process.rank() == 0 {
            process.cluster.cache.pretend_death();
        }
        process.meet();
        if process.rank() == 1 {
            file.refresh().unwrap();
            assert_eq!(read(&file, 0), [7]);
        }
        process.meet();
    });
}

#[test]
fn a_place_for_kept_locks_whose_owner_died_before_he_kept_anything_is_used_again() {
    let (_directory, stores) = job::stores(2);
    job(&stores, 64, |process| {
        let file = open(process, &FileName::new("f").unwrap());
        if process.rank() == 0 {
            let shared = shared(process, &stores[0], &file);
            let lock = || home_lock(&shared, 1);
            lock().release().unwrap();
            // From the second time on it is kept.
            lock().pretend_death();
            lock().release().unwrap();
        }
        process.meet();
    });
}

#[test]
fn a_place_whose_owner_died_before_he_kept_anything_is_used_for_another_home() {
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    job::run(&stores, &cache, |process| {
        let file = open(process, &FileName::new("f").unwrap());
        if process.rank() == 0 {
            let shared = shared(process, &stores[0], &file);
            let lock = |home| home_lock(&shared, home);
            lock(2).release().unwrap();
            lock(2).pretend_death();
            // The same place, for a lower home; and then the range that was to be kept in it.
            lock(1).release().unwrap();
            let lower = lock(1);
            lock(2).release().unwrap();
            lower.release().unwrap();
        }
        process.meet();
    });
}

#[test]
fn of_pages_that_a_home_may_still_write_is_warned_once() {
    let (_directory, stores) = job::stores(2);
    job(&stores, 64, |process| {
        let file = open(process, &FileName::new("f").unwrap());
        process.meet();
        if process.rank() == 1 {
            let cluster = &process.cluster;
            let how = How::through(cluster.id());
            let attachment = attachment::attach(&stores[0], file.id(), "f", how).ok().unwrap();
            let shared = SharedFile::new(Arc::clone(cluster), attachment);
            let begun = |page| match cluster.cache.begin_fetch(&shared.key(PageNumber(page))).unwrap() {
                Fetch::Begun(ticket) => ticket,
                other => panic!("{other:?}"),
            };
            let tickets = (0..3).map(begun).collect();
            process.job.declare_lost(Rank(2), "the test says so");
            let error = cluster.check_home(NodeIndex(1)).unwrap_err();
            let told = told_by(|| shared.abandon(tickets, Coming::IntoCache, &error));
            let [told] = &told[..] else { panic!("{told:?}") };
            let file = format!("file {}", file.id());
            assert!(
                ["node n0: ", &file, "n1", "No data is lost"].iter().all(|part| told.contains(part)),
                "{told}"
            );
        }
        process.meet();
    });
}

#[test]
fn buffers_for_messages_are_as_the_settings_say_and_for_agents_no_smaller_than_needed() {
    let larger = MessageSettings { eager_buffer: 200 << 10, eager_buffers: 5, ..MessageSettings::default() };
    let smaller =
        MessageSettings { eager_buffer: 1 << 10, staging_buffers: 2, asynchronous: false, ..larger.clone() };
    for (told, eager_buffer) in [(larger, 200 << 10), (smaller, 64 << 10)] {
        let (_directory, stores) = job::stores(2);
        job::run_with(&stores, &CacheSettings::default(), &told, |process| {
            let context = process.cluster.context();
            for messenger in [&context.requests, context.client.answers()] {
                assert!(messenger.settings().asynchronous, "an agent waits for nobody who computes");
                assert_eq!(messenger.settings().staging_buffers, told.staging_buffers);
                for buffers in messenger.buffers() {
                    assert_eq!((buffers.eager_buffer, buffers.eager_buffers), (eager_buffer, 5));
                }
            }
            let has_peer = !context.requests.buffers().is_empty();
            assert!(has_peer || process.rank() > 0, "the others have asked it to join");
        });
    }
}

#[test]
fn a_lock_that_was_not_kept_after_all_outlives_the_leader_in_whose_name_it_was_asked_for() {
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: PAGE, capacity: 64 * PAGE };
    let (stage, is_held) = (AtomicU32::new(0), AtomicBool::new(false));
    let wait_for = |wanted| {
        while stage.load(SeqCst) < wanted {
            std::thread::yield_now();
        }
    };
    // Rank 1 leads the node of rank 3; the file's home is the node of rank 2.
    job::run([0, 1, 2, 1].map(|node| &stores[node]), &cache, |process| {
        let file = open(process, &FileName::new("f").unwrap());
        let lock = || file.lock(FileOffset(0)..FileOffset(100), LockMode::Exclusive).unwrap();
        match process.rank() {
            0 => {
                wait_for(3);
                let held = lock();
                assert!(!is_held.load(SeqCst), "two have it");
                held.release().unwrap();
            }
            2 => {
                let shared = shared(process, &stores[2], &file);
                let (state, presence) = shared.attachment().writable().unwrap();
                let claims = || state.locks().unwrap().claims().unwrap();
                let first = lock();
                // The second request gets its lock for keeping, but for that of rank 0 after it.
                for asked in 1..=3 {
                    stage.store(asked, SeqCst);
                    while claims().len() <= asked as usize {
                        std::thread::yield_now();
                    }
                }
                first.release().unwrap();
                wait_for(4);
                let agent = process.cluster.agent.as_ref().unwrap();
                assert!(agent.has_place(file.id(), Rank(1)));
                process.job.declare_lost(Rank(1), "the test says so");
                while agent.has_place(file.id(), Rank(1)) {
                    std::thread::yield_now();
                }
                let alive = |slot| state.is_alive(presence, slot, shared.attachment().own()).unwrap();
                let are_alive = claims().iter().all(|claim| alive(claim.owner.slot));
                stage.store(5, SeqCst);
                assert!(are_alive, "the place of a lock was given away");
            }
            3 => std::thread::scope(|scope| {
                wait_for(1);
                scope.spawn(|| lock().release().unwrap());
                wait_for(2);
                let held = lock();
                is_held.store(true, SeqCst);
                stage.store(4, SeqCst);
                wait_for(5);
                is_held.store(false, SeqCst);
                held.release().unwrap();
            }),
            _ => {}
        }
        process.meet();
    });
}

/// Of how many pages of a file the agent of this process, the leader of its node, knows something that concerns strict
/// mappings.
pub(crate) fn strict_pages(process: &Process<'_>, file: &File) -> usize {
    process.cluster.agent.as_ref().unwrap().strict_pages(file.id())
}

/// Runs something while that agent answers no questions about the file's pages that are mapped strictly.
pub(crate) fn hold_strict_pages(process: &Process<'_>, file: &File, meanwhile: impl FnOnce()) {
    process.cluster.agent.as_ref().unwrap().hold_strict_pages(file.id(), meanwhile);
}
