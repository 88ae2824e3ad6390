//! Processes die between any two stores to the cache, with fetches and flushes under way, and at random.

use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Instant;

use super::*;
use crate::killing::{self, Child, End};
use crate::warnings;

/// Whoever is held up for longer than this, a death holds up for ever. What a death takes is [`LOOK_AFTER`], but where
/// much else runs a thread is late to everything.
const FOREVER: Duration = Duration::from_secs(60);
const WHOLE: usize = PAGE as usize;

/// A word to talk about with forked children.
struct Word(memmap2::MmapRaw);

impl Word {
    fn new() -> Word {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        Word(memmap2::MmapRaw::map_raw(&file).unwrap())
    }

    fn get(&self) -> &AtomicU32 {
        // SAFETY: mapped as long as `self` lives, aligned, used as this word only.
        unsafe { AtomicU32::from_ptr(self.0.as_mut_ptr().cast()) }
    }

    fn await_value(&self, value: u32) {
        let start = Instant::now();
        while self.get().load(Acquire) < value {
            assert!(start.elapsed() < FOREVER, "it never came about");
            thread::yield_now();
        }
    }
}

/// A child that has the cache open for itself, and is killed once it has said so by the word.
fn die_after(cache: &PageCache, work: impl FnOnce(&PageCache)) {
    let (word, (pid, fd)) = (Word::new(), cache.whereabouts());
    let child = Child::run(|| {
        let own = PageCache::open(pid, fd).unwrap();
        work(&own);
        word.get().store(1, Release);
        loop {
            thread::park();
        }
    });
    word.await_value(1);
    assert_eq!(child.terminate(), End::Terminated);
}

#[test]
fn the_fetch_of_a_dead_process_holds_up_nobody_and_its_frame_is_not_used_again() {
    let cache = cache_of(2);
    let mut lost = None;
    let (word, (pid, fd)) = (Word::new(), cache.whereabouts());
    let child = Child::run(|| {
        let own = PageCache::open(pid, fd).unwrap();
        let ticket = own.fetch_begun(&key(1, 0));
        word.get().store(1 + u32::from(ticket.offset == cache.memory.frame_offset(1)), Release);
        loop {
            thread::park();
        }
    });
    word.await_value(1);
    lost.replace(cache.memory.frame_offset(u64::from(word.get().load(Acquire) - 1)));
    let ReadOutcome::Coming(seen) = cache.read_into(&key(1, 0), 0, &mut [0]) else { panic!() };
    let start = Instant::now();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            cache.wait_for_change(seen).unwrap();
            loop {
                match cache.begin_fetch(&key(1, 0)).unwrap() {
                    Fetch::Coming(seen) => cache.wait_for_change(seen).unwrap(),
                    Fetch::Begun(ticket) => break ticket,
                    other => panic!("{other:?}"),
                }
            }
        });
        assert_eq!(child.terminate(), End::Terminated);
        let ticket = waiter.join().unwrap();
        assert!(start.elapsed() < FOREVER, "{:?}", start.elapsed());
        assert_ne!(Some(ticket.offset), lost);
        cache.deliver(&ticket, &[3; WHOLE]);
        assert_eq!(cache.finish_fetch(ticket, 1).unwrap(), Fetched::Kept);
    });
    let ticket = cache.fetch_begun(&key(1, 5));
    assert_ne!(Some(ticket.offset), lost);
    cache.abandon_fetch(ticket, false).unwrap();
    cache.assert_in_order();
}

#[test]
fn of_frames_that_a_dead_process_leaves_is_warned_once() {
    let cache = cache_of(40);
    die_after(&cache, |own| (0..20).for_each(|page| drop(own.fetch_begun(&key(7, page)))));
    let told = warnings::told_by(|| {
        for page in 0..20 {
            let ticket = cache.fetch_begun(&key(7, page));
            cache.abandon_fetch(ticket, false).unwrap();
        }
    });
    let [told] = &told[..] else { panic!("{told:?}") };
    let node = format!("node {}: ", crate::NodeName::current());
    let parts = [&*node, &format!("file {}", key(7, 0).file), "until the job ends", "No data is lost"];
    assert!(parts.iter().all(|part| told.contains(part)), "{told}");
}

#[test]
fn a_page_that_was_fetched_while_a_process_died_over_writing_it_is_not_kept() {
    let cache = cache_of(4);
    let (pages, other) = (PageSet::of(std::iter::once(0..1)), key(2, 9));
    // Fetched before the bytes were home.
    let fetch_old = |page: &PageKey| {
        let ticket = cache.fetch_begun(page);
        cache.deliver(&ticket, &[1; WHOLE]);
        assert_eq!(cache.finish_fetch(ticket, 1).unwrap(), Fetched::Kept);
    };
    let (begun, fetched) = (Word::new(), Word::new());
    let (pid, fd) = cache.whereabouts();
    let child = Child::run(|| {
        let own = PageCache::open(pid, fd).unwrap();
        let _under_way = own.begin_past();
        own.expire(key(1, 0).file, &pages).unwrap();
        begun.get().store(1, Release);
        fetched.await_value(1);
        loop {
            thread::park();
        }
    });
    begun.await_value(1);
    fetch_old(&key(1, 0));
    assert_eq!(cache.write_from(&other, 5, &[3; 5]), WriteOutcome::Cached);
    cache.bury_writers().unwrap();
    assert_eq!(cache.read_into(&key(1, 0), 0, &mut [0]), ReadOutcome::Copied, "it lives, and will see to it");
    fetched.get().store(1, Release);
    assert_eq!(child.terminate(), End::Terminated);
    cache.bury_writers().unwrap();
    assert_eq!(cache.read_into(&key(1, 0), 0, &mut [0]), ReadOutcome::Missing);
    assert_eq!(cache.read_into(&other, 5, &mut [0; 5]), ReadOutcome::Copied, "what is dirty stays");
    // Once is enough.
    fetch_old(&key(1, 0));
    cache.bury_writers().unwrap();
    assert_eq!(cache.read_into(&key(1, 0), 0, &mut [0]), ReadOutcome::Copied);
    cache.assert_in_order();
}

#[test]
fn who_takes_the_slot_of_a_dead_writer_sees_to_what_it_left() {
    let cache = cache_of(4);
    die_after(&cache, |own| std::mem::forget(own.begin_past()));
    let ticket = cache.fetch_begun(&key(1, 0));
    cache.deliver(&ticket, &[1; WHOLE]);
    assert_eq!(cache.finish_fetch(ticket, 1).unwrap(), Fetched::Kept);
    let successor = open_again(&cache);
    assert_eq!(successor.own.slot, ProcessSlot(1));
    assert_eq!(cache.read_into(&key(1, 0), 0, &mut [0]), ReadOutcome::Missing);
    drop(successor.begin_past());
    assert_eq!(cache.memory.header().writing.load(Relaxed), 0);
}

#[test]
fn the_bytes_that_a_dead_process_was_writing_back_are_dirty_again() {
    let cache = cache_of(1);
    let page = key(1, 0);
    die_after(&cache, |own| {
        assert_eq!(own.write_from(&page, 10, &[1; 10]), WriteOutcome::Cached);
        assert_eq!(own.write_from(&page, 50, &[2; 10]), WriteOutcome::Cached);
        let _under_way = own.flush_begun(&page);
        assert_eq!(own.write_from(&page, 15, &[3; 10]), WriteOutcome::Cached);
    });
    assert_eq!(cache.all_dirty().unwrap(), [page]);
    assert_eq!(cache.overwrite_from(&page, 52, &[4; 2], None), Overwrite::Done(None));
    let flush = cache.flush_begun(&page);
    assert_eq!(flush.runs, [(10, 15), (50, 2), (54, 6)]);
    assert_eq!(flush.bytes, [[1; 5].as_slice(), &[3; 10], &[2; 8]].concat());
    cache.finish_flush(flush).unwrap();
    assert_eq!(cache.all_dirty().unwrap(), []);
    cache.assert_in_order();
}

#[test]
fn who_takes_the_slot_of_a_dead_process_is_not_taken_for_it() {
    let cache = cache_of(3);
    die_after(&cache, |own| {
        let _under_way = own.fetch_begun(&key(1, 0));
    });
    let successor = open_again(&cache);
    assert_eq!(successor.own.slot, ProcessSlot(1));
    let ticket = cache.fetch_begun(&key(1, 0));
    successor.abandon_fetch(ticket, false).unwrap();
}

/// What is known of a byte of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// Its value, if it is valid.
    value: Option<u8>,
    /// Dirty or flushing.
    unsaved: bool,
}

fn known(cache: &PageCache, key: &PageKey) -> Vec<Known> {
    let set = cache.lock(key).unwrap();
    let Some(frame) = set.page(key) else {
        return vec![Known { value: None, unsaved: false }; WHOLE];
    };
    let mut bytes = Vec::new();
    cache.memory.append_to(&mut bytes, frame.number, &(0..PAGE));
    let within = |map: byte_map::ByteMap<'_>, at: usize| map.contains(&(at as u32..at as u32 + 1));
    (0..WHOLE)
        .map(|at| Known {
            value: within(frame.valid(), at).then_some(bytes[at]),
            unsaved: within(frame.dirty(), at) || within(frame.flushing(), at),
        })
        .collect()
}

/// What the children do who are killed over it: every operation, on pages of three kinds.
#[derive(Default)]
struct Script {
    ticket: Option<FetchTicket>,
    flush: Option<Flush>,
}

impl Script {
    const STEPS: u32 = 24;
    const PAGES: [u64; 2] = [0, 1];

    fn step(&mut self, cache: &PageCache, step: u32) {
        let (one, two) = (key(1, 0), key(1, 1));
        let cached = |outcome| assert_eq!(outcome, WriteOutcome::Cached);
        match step {
            0 => cached(cache.write_from(&one, 100, &[1; 300])),
            1 => cached(cache.write_from(&one, 1000, &[2; 300])),
            2 => cached(cache.write_from(&one, 50, &[3; 1000])),
            3 => self.flush = Some(cache.flush_begun(&one)),
            4 => cached(cache.write_from(&one, 200, &[4; 20])),
            5 => cached(cache.write_from(&one, 3000, &[5; 20])),
            6 => cache.fail_flush(self.flush.take().unwrap()).unwrap(),
            7 => self.ticket = Some(cache.fetch_begun(&one)),
            8 => {
                let ticket = self.ticket.take().unwrap();
                cache.deliver(&ticket, &[6; WHOLE]);
                assert_eq!(cache.finish_fetch(ticket, 1).unwrap(), Fetched::Kept);
            }
            9 => assert!(matches!(cache.overwrite_from(&one, 900, &[7; 150], None), Overwrite::Done(_))),
            10 => self.flush = Some(cache.flush_begun(&one)),
            11 => cache.finish_flush(self.flush.take().unwrap()).unwrap(),
            12 => cached(cache.write_from(&one, 2000, &[8; 64])),
            13 => assert_eq!(cache.discard(&one, &(1990..2030)).unwrap(), Discarded::Dirty),
            14 => cache.retain(one.file, &all_pages(), |_, _| false).unwrap(),
            15 => self.ticket = Some(cache.fetch_begun(&two)),
            16 => {
                let ticket = self.ticket.take().unwrap();
                cache.deliver(&ticket, &[9; WHOLE]);
                assert_eq!(cache.finish_fetch(ticket, 2).unwrap(), Fetched::Kept);
            }
            17 => cached(cache.write_from(&two, 0, &[10; WHOLE])),
            18 => cache.truncate(one.file, u64::from(PAGE) + 77).unwrap(),
            19 => self.flush = Some(cache.flush_begun(&two)),
            20 => cache.forget(one.file).unwrap(),
            21 => cached(cache.write_from(&one, 300, &[11; 30])),
            22 => drop(cache.begin_past()),
            23 => cache.expire(one.file, &PageSet::of(std::iter::once(0..2))).unwrap(),
            _ => unreachable!(),
        }
    }

    /// What is known after each number of steps, with nobody dying.
    fn expected() -> Vec<Vec<Vec<Known>>> {
        let cache = cache_of(4);
        let mut script = Script::default();
        (0..=Self::STEPS)
            .map(|done| {
                if done > 0 {
                    script.step(&cache, done - 1);
                }
                Self::PAGES.map(|page| known(&cache, &key(1, page))).to_vec()
            })
            .collect()
    }
}

#[test]
fn a_death_anywhere_leaves_each_byte_as_it_was_or_as_it_should_be() {
    let expected = Script::expected();
    let mut point = 1;
    loop {
        let (cache, word) = (cache_of(4), Word::new());
        let (pid, fd) = cache.whereabouts();
        let child = Child::run(|| {
            let own = PageCache::open(pid, fd).unwrap();
            let mut script = Script::default();
            killing::arm(point);
            for step in 0..Script::STEPS {
                script.step(&own, step);
                word.get().store(step + 1, Release);
            }
        });
        let end = child.wait();
        let done = word.get().load(Acquire) as usize;
        if end == End::Finished {
            assert_eq!(done, Script::STEPS as usize);
            break;
        }
        let start = Instant::now();
        for (index, page) in Script::PAGES.into_iter().enumerate() {
            let (before, after) = (&expected[done][index], &expected[done + 1][index]);
            for (at, found) in known(&cache, &key(1, page)).into_iter().enumerate() {
                let possible = [before[at], after[at]];
                let context = format!("point {point}, step {done}, page {page}, byte {at}: {found:?}");
                if let Some(value) = found.value {
                    assert!(possible.iter().any(|p| p.value == Some(value)), "{context} of {possible:?}");
                }
                if possible[0].unsaved == possible[1].unsaved {
                    assert_eq!(found.unsaved, possible[0].unsaved, "{context} of {possible:?}");
                }
                assert!(!found.unsaved || found.value.is_some(), "{context}");
                // What is taken for the home's is not something that was written and never got there.
                if found.value.is_some() && !found.unsaved {
                    assert!(possible.contains(&found), "{context} of {possible:?}");
                }
            }
        }
        cache.assert_in_order();
        // And all goes on: what is dirty can be flushed, any page written and fetched.
        for page in cache.all_dirty().unwrap() {
            let flush = cache.flush_begun(&page);
            cache.finish_flush(flush).unwrap();
        }
        assert_eq!(cache.all_dirty().unwrap(), []);
        for page in 0..3 {
            assert_eq!(cache.write_from(&key(2, page), 9, &[1]), WriteOutcome::Cached);
            let flush = cache.flush_begun(&key(2, page));
            cache.finish_flush(flush).unwrap();
            let ticket = cache.fetch_begun(&key(2, page));
            cache.deliver(&ticket, &[1; WHOLE]);
            assert_eq!(cache.finish_fetch(ticket, 1).unwrap(), Fetched::Kept);
        }
        assert!(start.elapsed() < FOREVER, "{:?}", start.elapsed());
        point += 1;
    }
    assert!(point > 200, "only {point} points");
}

#[test]
fn what_was_written_survives_a_writer_that_is_killed_at_any_time() {
    const STRIPE: usize = 64;
    let (cache, word) = (cache_of(40), Word::new());
    let (pid, fd) = cache.whereabouts();
    let pages = 3;
    let mut written_before = 0u32;
    for round in 0..60u32 {
        let child = Child::run(|| {
            let own = PageCache::open(pid, fd).unwrap();
            for value in written_before + 1.. {
                for page in 0..pages {
                    let bytes = [value as u8; STRIPE];
                    assert_eq!(own.write_from(&key(1, page), 128, &bytes), WriteOutcome::Cached);
                    let bytes = value.to_le_bytes();
                    assert_eq!(own.write_from(&key(1, page), 1000, &bytes), WriteOutcome::Cached);
                    if (page + u64::from(value)) % 3 == 0
                        && let FlushState::Begun(flush) = own.begin_flush(&key(1, page)).unwrap()
                    {
                        own.fail_flush(flush).unwrap();
                    }
                }
                word.get().store(value, Release);
            }
        });
        word.await_value(written_before + 1);
        // Meanwhile other bytes of the same pages are written, a little longer in each round.
        for n in 0..round * 5 {
            let page = key(1, u64::from(n) % pages);
            assert_eq!(cache.write_from(&page, 2000 + n, &[1]), WriteOutcome::Cached);
        }
        assert_eq!(child.terminate(), End::Terminated);
        let start = Instant::now();
        let written = word.get().load(Acquire);
        for page in 0..pages {
            let mut bytes = [0; 4];
            assert_eq!(cache.read_into(&key(1, page), 1000, &mut bytes), ReadOutcome::Copied);
            let found = u32::from_le_bytes(bytes);
            assert!(found == written || found == written + 1, "{found} of {written}");
            let flush = cache.flush_begun(&key(1, page));
            assert!(flush.runs.iter().any(|(at, length)| *at <= 128 && 128 + STRIPE as u32 <= at + length));
            assert!(flush.runs.contains(&(1000, 4)));
            cache.fail_flush(flush).unwrap();
        }
        assert!(start.elapsed() < FOREVER, "{:?}", start.elapsed());
        cache.assert_in_order();
        written_before = written + 1;
        word.get().store(written_before, Release);
    }
}
