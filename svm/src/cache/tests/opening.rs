//! Making and opening caches, waiting, and the cases that are easier to read one by one.

use super::*;
use std::os::fd::AsRawFd;
use std::time::Instant;

#[test]
fn what_is_no_cache_is_not_opened() {
    let pid = std::process::id();
    let foreign = tempfile::tempfile().unwrap();
    assert!(PageCache::open(pid, foreign.as_raw_fd()).is_err());
    foreign.set_len(1 << 20).unwrap();
    let error = PageCache::open(pid, foreign.as_raw_fd()).err().unwrap().to_string();
    assert!(error.contains("not the page cache"), "{error}");
    assert!(PageCache::open(pid, 1_000_000).is_err());
    let settings = CacheSettings { page: 5000, capacity: 1 << 20 };
    let error = PageCache::create(&settings).err().unwrap().to_string();
    assert!(error.contains("SVMIO_CACHE_PAGE"), "{error}");
}

#[test]
fn an_unused_cache_takes_little_memory() {
    use std::os::unix::fs::MetadataExt;
    let cache = PageCache::create(&CacheSettings::default()).unwrap();
    let stored = || cache.file().metadata().unwrap().blocks() * 512;
    assert!(stored() < 1 << 20, "{}", stored());
    let before = stored();
    let page = vec![7; cache.page() as usize];
    for number in 0..10 {
        assert_eq!(cache.write_from(&key(1, number), 0, &page), WriteOutcome::Cached);
    }
    assert_eq!(stored() - before, 10 * page.len() as u64, "no bits for what is one run");
}

#[test]
fn the_memory_of_who_made_it_is_not_needed() {
    let first = cache_of(4);
    assert_eq!(first.write_from(&key(1, 1), 100, b"kept"), WriteOutcome::Cached);
    let second = open_again(&first);
    assert_eq!((second.bytes(), second.page()), (first.bytes(), PAGE));
    drop(first);
    let mut bytes = [0; 4];
    assert_eq!(second.read_into(&key(1, 1), 100, &mut bytes), ReadOutcome::Copied);
    assert_eq!(&bytes, b"kept");
    assert_eq!(second.read_into(&key(1, 1), 99, &mut bytes), ReadOutcome::Missing);
    let third = open_again(&second);
    assert_eq!(third.all_dirty().unwrap(), [key(1, 1)]);
}

#[test]
fn two_nodes_that_write_into_one_page_both_win() {
    let cache = cache_of(1);
    let page = key(1, 0);
    assert_eq!(cache.write_from(&page, 10, &[1; 10]), WriteOutcome::Cached);
    assert_eq!(cache.write_from(&page, 30, &[2; 10]), WriteOutcome::Cached);
    let flush = cache.flush_begun(&page);
    assert_eq!(flush.runs, [(10, 10), (30, 10)]);
    assert_eq!(flush.bytes, [[1; 10], [2; 10]].concat());
    assert_eq!(cache.write_from(&page, 15, &[3; 10]), WriteOutcome::Cached);
    assert!(matches!(cache.begin_flush(&page).unwrap(), FlushState::Elsewhere(_)));
    assert!(matches!(cache.overwrite_from(&page, 12, &[9], None), Overwrite::Busy(_)));
    assert!(matches!(cache.begin_fetch(&page).unwrap(), Fetch::Busy(_)));
    cache.finish_flush(flush).unwrap();
    assert_eq!(cache.begin_fetch(&page).unwrap(), Fetch::Crowded(page));
    let flush = cache.flush_begun(&page);
    assert_eq!(flush.runs, [(15, 10)]);
    cache.fail_flush(flush).unwrap();
    assert_eq!(cache.all_dirty().unwrap(), [page]);
    let flush = cache.flush_begun(&page);
    cache.finish_flush(flush).unwrap();
    assert!(cache.all_dirty().unwrap().is_empty());
    let ticket = cache.fetch_begun(&page);
    cache.deliver(&ticket, &[8; PAGE as usize]);
    let mut byte = [0];
    // SAFETY: room for one byte.
    let fetched = unsafe { cache.finish_fetch_into(ticket, 5, 20..21, byte.as_mut_ptr()) };
    assert_eq!((fetched.unwrap(), byte), (Fetched::Kept, [8]));
    let expected = Statistics { hits: 1, misses: 1, evictions: 1, write_backs: 2 };
    assert_eq!(cache.statistics(), expected);
}

#[test]
fn the_least_recently_used_page_goes() {
    let cache = cache_of(3);
    for page in 0..3 {
        let ticket = cache.fetch_begun(&key(1, page));
        cache.deliver(&ticket, &[page as u8; PAGE as usize]);
        assert_eq!(cache.finish_fetch(ticket, page).unwrap(), Fetched::Kept);
    }
    let mut byte = [0];
    assert_eq!(cache.read_into(&key(1, 0), 5, &mut byte), ReadOutcome::Copied);
    assert_eq!(cache.write_from(&key(1, 7), 0, &[1]), WriteOutcome::Cached);
    let there = [0, 1, 2].map(|page| cache.read_into(&key(1, page), 0, &mut byte));
    assert_eq!(there, [ReadOutcome::Copied, ReadOutcome::Missing, ReadOutcome::Copied]);
    let mut versions = Vec::new();
    let note = |page: PageNumber, version| {
        versions.push((page.0, version));
        true
    };
    cache.retain(key(1, 0).file, &all_pages(), note).unwrap();
    versions.sort_unstable();
    assert_eq!(versions, [(0, Some(0)), (2, Some(2)), (7, None)]);
}

#[test]
fn whoever_waits_is_woken_by_the_end_of_a_fetch() {
    let cache = cache_of(1);
    let ticket = cache.fetch_begun(&key(1, 0));
    let other = open_again(&cache);
    let Fetch::Coming(seen) = other.begin_fetch(&key(1, 0)).unwrap() else { panic!() };
    assert_eq!(other.read_into(&key(1, 0), 0, &mut [0]), ReadOutcome::Coming(seen));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            loop {
                match other.read_into(&key(1, 0), 0, &mut [0]) {
                    ReadOutcome::Coming(seen) => other.wait_for_change(seen).unwrap(),
                    outcome => break outcome,
                }
            }
        });
        cache.deliver(&ticket, &[1; PAGE as usize]);
        assert_eq!(cache.finish_fetch(ticket, 0).unwrap(), Fetched::Kept);
        assert_eq!(waiter.join().unwrap(), ReadOutcome::Copied);
    });
    // What has changed already is not waited for.
    let start = Instant::now();
    (0..1000).for_each(|_| other.wait_for_change(seen).unwrap());
    assert!(start.elapsed() < 500 * LOOK_AFTER);
    assert_ne!(cache.set_version(&key(1, 0)), seen);
}

#[test]
fn an_abandoned_frame_is_used_again_unless_it_may_still_be_written() {
    let cache = cache_of(1);
    let ticket = cache.fetch_begun(&key(1, 0));
    cache.abandon_fetch(ticket, false).unwrap();
    let ticket = cache.fetch_begun(&key(1, 0));
    cache.abandon_fetch(ticket, true).unwrap();
    assert_eq!(cache.begin_fetch(&key(1, 0)).unwrap(), Fetch::NoRoom);
    assert_eq!(cache.write_from(&key(1, 1), 0, &[1]), WriteOutcome::NoRoom);
}

/// What the home read before it got newer bytes, or before others changed theirs, must not become the page.
#[test]
fn a_fetch_during_which_something_newer_came_is_discarded() {
    let page = key(1, 1);
    let flushed = |cache: &PageCache| {
        assert_eq!(cache.write_from(&page, 0, &[1]), WriteOutcome::Cached);
        let flush = cache.flush_begun(&page);
        cache.finish_flush(flush).unwrap();
    };
    let overwritten =
        |cache: &PageCache| assert_eq!(cache.overwrite_from(&page, 5, &[1; 3], None), Overwrite::Done(None));
    let refreshed =
        |cache: &PageCache| cache.retain(page.file, &all_pages(), |_, version| version.is_some()).unwrap();
    let forgotten = |cache: &PageCache| cache.forget(page.file).unwrap();
    let truncated = |cache: &PageCache| cache.truncate(page.file, u64::from(PAGE) + 9).unwrap();
    let cut_off = |cache: &PageCache| cache.truncate(page.file, u64::from(PAGE)).unwrap();
    let events: [&dyn Fn(&PageCache); 6] =
        [&flushed, &overwritten, &refreshed, &forgotten, &truncated, &cut_off];
    for (number, event) in events.into_iter().enumerate() {
        let cache = cache_of(3);
        let ticket = cache.fetch_begun(&page);
        cache.deliver(&ticket, &[9; PAGE as usize]);
        event(&cache);
        // Who comes now does not wait for it.
        let newer = cache.fetch_begun(&page);
        assert_ne!(newer.offset, ticket.offset, "event {number}");
        assert_eq!(cache.finish_fetch(ticket, 1).unwrap(), Fetched::Discarded, "event {number}");
        cache.deliver(&newer, &[8; PAGE as usize]);
        assert_eq!(cache.finish_fetch(newer, 2).unwrap(), Fetched::Kept, "event {number}");
        let mut byte = [0];
        assert_eq!(cache.read_into(&page, 100, &mut byte), ReadOutcome::Copied);
        assert_eq!(byte, [8], "event {number}");
    }
    let elsewhere = |cache: &PageCache| {
        cache.forget(key(2, 1).file).unwrap();
        cache.truncate(page.file, 2 * u64::from(PAGE)).unwrap();
        cache.retain(page.file, &all_pages(), |_, _| true).unwrap();
        assert_eq!(cache.overwrite_from(&key(1, 2), 0, &[1], None), Overwrite::Done(None));
    };
    let cache = cache_of(3);
    let ticket = cache.fetch_begun(&page);
    elsewhere(&cache);
    assert_eq!(cache.finish_fetch(ticket, 1).unwrap(), Fetched::Kept);
}

/// Others may change bytes at the home between these being there and the answer.
#[test]
fn a_page_that_keeps_bytes_on_their_way_home_is_not_as_new_as_its_fetch() {
    let version = |cache: &PageCache| {
        let mut found = Vec::new();
        cache.retain(key(1, 0).file, &all_pages(), |_, version| (found.push(version), true).1).unwrap();
        found
    };
    let fetched = |cache: &PageCache, page: &PageKey, version| {
        let ticket = cache.fetch_begun(page);
        cache.deliver(&ticket, &[9; PAGE as usize]);
        assert_eq!(cache.finish_fetch(ticket, version).unwrap(), Fetched::Kept);
    };
    let (cache, page) = (cache_of(2), key(1, 0));
    assert_eq!(cache.write_from(&page, 10, &[1; 5]), WriteOutcome::Cached);
    let flush = cache.flush_begun(&page);
    fetched(&cache, &page, 7);
    assert_eq!(version(&cache), [None], "five bytes were not taken from the home");
    cache.finish_flush(flush).unwrap();
    assert_eq!(version(&cache), [None]);
    let (cache, page) = (cache_of(2), key(1, 0));
    assert_eq!(cache.write_from(&page, 10, &[1; 5]), WriteOutcome::Cached);
    fetched(&cache, &page, 7);
    assert_eq!(version(&cache), [Some(7)], "what is not on its way comes home after all that was there");
    let flush = cache.flush_begun(&page);
    cache.finish_flush(flush).unwrap();
    assert_eq!(version(&cache), [Some(7)]);
    // Past the cache.
    let (cache, page) = (cache_of(2), key(1, 0));
    assert_eq!(cache.announce_from(&page, 10, &[2; 5]), Overwrite::Done(None));
    fetched(&cache, &page, 8);
    assert_eq!(version(&cache), [Some(8)]);
    assert_eq!(cache.overwrite_from(&page, 10, &[2; 5], None), Overwrite::Done(Some(8)));
    assert_eq!(version(&cache), [None], "five bytes may be older than those that came");
    let (cache, page) = (cache_of(2), key(1, 0));
    fetched(&cache, &page, 9);
    assert_eq!(cache.announce_from(&page, 10, &[2; 5]), Overwrite::Done(Some(9)));
    assert_eq!(cache.overwrite_from(&page, 10, &[2; 5], Some(9)), Overwrite::Done(Some(9)));
    assert_eq!(version(&cache), [Some(9)], "nothing came meanwhile");
    assert_eq!(cache.announce_from(&page, 10, &[2; 5]), Overwrite::Done(Some(9)));
    cache.retain(page.file, &all_pages(), |_, _| false).unwrap();
    fetched(&cache, &page, 10);
    assert_eq!(cache.overwrite_from(&page, 10, &[2; 5], Some(9)), Overwrite::Done(Some(10)));
    assert_eq!(version(&cache), [None], "a newer page came");
}

#[test]
fn what_is_dirty_outlives_a_refresh_and_what_is_cut_off_reads_as_zero() {
    let (cache, page) = (cache_of(2), key(1, 0));
    let ticket = cache.fetch_begun(&page);
    cache.deliver(&ticket, &[9; PAGE as usize]);
    assert_eq!(cache.finish_fetch(ticket, 1).unwrap(), Fetched::Kept);
    assert_eq!(cache.write_from(&page, 100, &[1; 100]), WriteOutcome::Cached);
    cache.truncate(page.file, 150).unwrap();
    let mut bytes = [7; 4];
    assert_eq!(cache.read_into(&page, 148, &mut bytes), ReadOutcome::Copied);
    assert_eq!(bytes, [1, 1, 0, 0]);
    cache.retain(page.file, &all_pages(), |_, _| false).unwrap();
    assert_eq!(cache.read_into(&page, 148, &mut bytes), ReadOutcome::Missing);
    assert_eq!(cache.read_into(&page, 100, &mut [0; 50]), ReadOutcome::Copied);
    assert_eq!(cache.flush_begun(&page).runs, [(100, 50)]);
}

#[test]
fn what_is_given_up_does_not_go_home_and_is_fetched_anew() {
    let (cache, page) = (cache_of(2), key(1, 0));
    assert_eq!(cache.write_from(&page, 100, &[1; 100]), WriteOutcome::Cached);
    let flush = cache.flush_begun(&page);
    assert_eq!(cache.write_from(&page, 300, &[2; 10]), WriteOutcome::Cached);
    assert!(matches!(cache.discard(&page, &(150..310)).unwrap(), Discarded::Busy(_)));
    assert_eq!(cache.discard(&page, &(200..305)).unwrap(), Discarded::Dirty);
    cache.fail_flush(flush).unwrap();
    assert_eq!(cache.discard(&page, &(0..150)).unwrap(), Discarded::Dirty);
    assert_eq!(cache.discard(&page, &(0..150)).unwrap(), Discarded::Nothing);
    assert_eq!(cache.discard(&key(1, 1), &(0..150)).unwrap(), Discarded::Nothing);
    assert_eq!(cache.valid_bytes(&page, &(140..400)).unwrap(), [(150, vec![1; 50]), (305, vec![2; 5])]);
    assert_eq!(cache.read_into(&page, 100, &mut [0]), ReadOutcome::Missing);
    assert_eq!(cache.flush_begun(&page).runs, [(150, 50), (305, 5)]);
}
