use super::*;

const PAGE: u64 = 1 << 16;
const ROOM: u64 = 64 << 20;

fn everywhere_one_home(_: u64) -> HomeAt {
    (Some(NodeIndex(1)), u64::MAX)
}

fn kept(_: u64) -> bool {
    true
}

/// Accesses of `length` bytes from `start` on, of a file of which nodes have `bytes` by turns, in segments of a
/// quarter of that; what is fetched ahead after each.
fn fetched_by_turns(bytes: u64, start: u64, length: u64, accesses: u64) -> Vec<(u64, u64)> {
    let home_at = |at: u64| (Some(NodeIndex((at / bytes % 3) as u32)), (at + 1).next_multiple_of(bytes / 4));
    let mut pattern = Pattern::default();
    let mut fetched = start;
    let one = |access: u64| {
        let access = start + access * length..start + (access + 1) * length;
        for range in pattern.next(&access, PAGE, ROOM, home_at, kept) {
            assert!(range.start == fetched.max(access.end) && range.end > range.start);
            fetched = range.end;
        }
        (access.end, fetched.max(access.end))
    };
    (0..accesses).map(one).collect()
}

#[test]
fn of_another_home_little_is_fetched_before_the_reader_is_there() {
    let bytes = 32 << 20;
    for length in [4096, 60_000, 1 << 20, 4 << 20, 5 << 20] {
        for start in [0, bytes / 2 + 12_288] {
            for (end, fetched) in fetched_by_turns(bytes, start, length, (3 * bytes).div_ceil(length)) {
                let next = end.next_multiple_of(bytes);
                assert!(fetched <= next.max(end + NEAR), "{length}: {fetched} after {end}");
                if end >= start + (8 << 20) {
                    assert!(fetched > end, "{length}: nothing after {end}");
                }
            }
        }
    }
}

#[test]
fn many_small_parts_of_several_homes_are_fetched_together() {
    let all = fetched_by_turns(256 << 10, 0, 4096, 4096);
    assert!(all.iter().skip(2048).all(|(end, fetched)| fetched - end >= NEAR / 2), "{all:?}");
}

#[test]
fn the_window_of_a_sequential_reader_grows_and_closes() {
    let mut pattern = Pattern::default();
    let mut fetched = 0;
    for access in 0..200 {
        let ranges =
            pattern.next(&(access * 4096..(access + 1) * 4096), PAGE, ROOM, everywhere_one_home, kept);
        for range in &ranges {
            assert!(range.start >= (access + 1) * 4096 && range.end > range.start);
            assert!(range.start >= fetched, "fetched twice");
            fetched = range.end;
        }
    }
    assert!((200 * 4096 + MOST / 2..=200 * 4096 + MOST).contains(&fetched));
    // Somewhere else: nothing can be foreseen.
    assert_eq!(pattern.next(&(1 << 40..(1 << 40) + 10), PAGE, ROOM, everywhere_one_home, kept), []);
    assert_eq!(pattern.next(&(1 << 30..(1 << 30) + 10), PAGE, ROOM, everywhere_one_home, kept), []);
}

#[test]
fn as_a_long_access_ends_the_next_one_is_under_way() {
    let mebibytes = |count: u64| count << 20;
    for (length, room, ahead) in
        [(4, 64, 8), (1, 64, 4), (8, 64, 16), (100, 64, 16), (8, 12, 12), (8, 2, 2), (1, 3, 3)]
    {
        let mut pattern = Pattern::default();
        let (length, ahead) = (mebibytes(length), mebibytes(ahead));
        let mut fetched = 0;
        for access in 0..50 {
            let access = access * length..(access + 1) * length;
            for range in pattern.next(&access, PAGE, mebibytes(room), everywhere_one_home, kept) {
                assert!(range.start == fetched.max(access.end), "fetched twice, or not at all");
                fetched = range.end;
            }
            if access.start / length >= 6 {
                assert!((access.end + ahead / 2..=access.end + ahead).contains(&fetched), "{fetched}");
            }
        }
    }
}

#[test]
fn strides_are_foreseen_and_each_range_once() {
    let mut pattern = Pattern::default();
    let mut all = Vec::new();
    for access in 0..100u64 {
        all.extend(pattern.next(
            &(access << 20..(access << 20) + 100),
            PAGE,
            ROOM,
            everywhere_one_home,
            kept,
        ));
    }
    assert!(all.len() > 60);
    assert!(all.windows(2).all(|pair| pair[0].start < pair[1].start));
    assert!(all.iter().all(|range| range.start % (1 << 20) == 0 && range.end - range.start == 100));
}

#[test]
fn random_accesses_fetch_nothing() {
    let mut pattern = Pattern::default();
    for access in [5u64, 90, 12, 70, 33, 8, 61] {
        assert_eq!(
            pattern.next(&(access * PAGE..access * PAGE + 10), PAGE, ROOM, everywhere_one_home, kept),
            []
        );
    }
}

#[test]
fn readers_have_their_share_of_the_cache_and_a_single_one_of_many_enough() {
    let (kib, mib) = (|count: u64| count << 10, |count: u64| count << 20);
    assert_eq!(room(mib(256), kib(64), 1), mib(64));
    assert_eq!(room(mib(256), kib(64), 4), mib(16));
    assert_eq!(room(mib(256), kib(64), 64), MOST);
    assert_eq!(room(mib(16), kib(64), 64), mib(1));
    assert_eq!(room(kib(512), kib(64), 8), kib(64));
    assert_eq!(room(kib(192), kib(64), 1), 0);
}

#[test]
fn where_the_cache_has_little_room_little_is_fetched_ahead_or_nothing() {
    for (room, most) in [(PAGE - 1, 0), (PAGE, PAGE), (3 * PAGE, 3 * PAGE)] {
        for (length, stride) in [(4096, 4096), (PAGE, PAGE), (100, 2 * PAGE), (10 * PAGE, 11 * PAGE)] {
            let mut pattern = Pattern::default();
            let mut is_any = false;
            for access in 0..200 {
                let access = access * stride..access * stride + length;
                let ranges = pattern.next(&access, PAGE, room, everywhere_one_home, kept);
                let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
                is_any |= bytes > 0;
                assert!(bytes <= most, "{bytes} bytes ahead of {length} with room for {room}");
                let is_near = ranges.iter().all(|range| length != stride || range.end <= access.end + most);
                assert!(is_near, "{ranges:?} after {access:?}");
            }
            // What is not fetched whole would make its reader wait all the same.
            assert_eq!(is_any, room >= if length == stride { PAGE } else { length.max(PAGE) });
        }
    }
}

#[test]
fn the_window_shrinks_while_pages_make_way_unread_and_grows_again() {
    let mut pattern = Pattern::default();
    let mut at = 0;
    // How far ahead pages are fetched at most, in so many accesses.
    let mut farthest = |accesses: u64, is_kept: bool| {
        let mut farthest = 0;
        for _ in 0..accesses {
            at += 4096;
            let access = at - 4096..at;
            for range in pattern.next(&access, PAGE, ROOM, everywhere_one_home, |_| is_kept) {
                assert!(range.start >= at && range.end > range.start);
                farthest = range.end - at;
            }
        }
        farthest
    };
    assert_eq!(farthest(2000, true), MOST);
    assert_eq!(farthest(2000, false), PAGE);
    assert_eq!(farthest(100_000, true), MOST);
}

#[test]
fn strides_are_asked_for_in_portions_and_shrink_while_they_make_way_unread() {
    for length in [4096, PAGE, 16 * PAGE] {
        let mut pattern = Pattern::default();
        let mut at = 0;
        // How many bytes are fetched ahead at most after one of so many accesses, and how often any.
        let mut most = |accesses: u64, is_kept: bool| {
            let (mut most, mut times) = (0, 0);
            for _ in 0..accesses {
                at += 32 * PAGE;
                let ranges = pattern.next(&(at..at + length), PAGE, ROOM, everywhere_one_home, |_| is_kept);
                assert!(ranges.iter().all(|range| range.start > at && range.start % (32 * PAGE) == 0));
                most = ranges.iter().map(|range| range.end - range.start).sum::<u64>().max(most);
                times += u64::from(!ranges.is_empty());
            }
            (most, times)
        };
        most(100, true);
        let (bytes, times) = most(1000, true);
        assert!(bytes >= 8 * length.min(PAGE), "{bytes} bytes of accesses of {length}");
        assert!(times * (NEAR / 2) <= 1010 * length.max(PAGE), "{times} times of accesses of {length}");
        most(100, false);
        assert_eq!(most(100, false).0, 2 * length.min(PAGE));
        most(100_000, true);
        assert_eq!(most(1000, true).0, bytes);
    }
}

#[test]
fn short_accesses_at_strides_are_fetched_ahead_whatever_the_page() {
    const STRIDE: u64 = 1 << 20;
    for page in [4096, 8192, PAGE] {
        let (mut pattern, mut ahead) = (Pattern::default(), 0);
        for access in (0..400).map(|number| number * STRIDE) {
            assert!(access < 8 * STRIDE || access < ahead, "{access} of pages of {page}");
            let ranges = pattern.next(&(access..access + 100), page, ROOM, everywhere_one_home, kept);
            ahead = ranges.last().map_or(ahead, |last| last.end);
        }
    }
}

#[test]
fn of_rows_that_adjoin_whole_ones_are_fetched_ahead() {
    const ROW: u64 = 13 * PAGE;
    let (mut pattern, mut ahead) = (Pattern { are_rows: true, ..Pattern::default() }, 0);
    for row in (0..100).map(|number| number * ROW) {
        assert!(row < 4 * ROW || row < ahead, "{row}");
        for range in pattern.next(&(row..row + ROW), PAGE, ROOM, everywhere_one_home, kept) {
            assert!(range.start % ROW == 0 && range.start > row && range.end <= range.start + ROW);
            ahead = range.end;
        }
    }
}
