use super::*;
use crate::locks::ThreadId;
use crate::presence::ProcessSlot;

const HOME: u32 = 3;

struct Memory(memmap2::MmapRaw);

impl Memory {
    fn new() -> Memory {
        let map = memmap2::MmapOptions::new().len(KeptLocks::BYTES).map_anon().unwrap();
        let map = memmap2::MmapRaw::from(map);
        // SAFETY: memory of the right size, of which nobody knows yet.
        unsafe { KeptLocks::init_at(map.as_mut_ptr()) }.unwrap();
        Memory(map)
    }

    fn kept(&self) -> KeptLocks<'_> {
        // SAFETY: made by `init_at`, and mapped as long as `self` lives.
        unsafe { KeptLocks::from_ptr(self.0.as_mut_ptr()) }.unwrap()
    }
}

fn owner(thread: u32) -> Owner {
    Owner { slot: ProcessSlot(0), thread: ThreadId(thread) }
}

fn alive(_: ProcessSlot) -> std::io::Result<bool> {
    Ok(true)
}

fn keep(kept: &KeptLocks<'_>, lock: u64, range: Range<u64>, mode: Mode) -> (PlaceNumber, LockToken) {
    let (place, token) = kept.reserve(owner(1), HOME, &alive).unwrap().unwrap();
    kept.keep((place, &token), Grant { home: HOME, lock }, &range, mode).unwrap();
    (place, token)
}

fn enter(
    kept: &KeptLocks<'_>,
    owner: Owner,
    place: PlaceNumber,
    range: &Range<u64>,
    mode: Mode,
) -> LockToken {
    kept.enter(owner, place, range, mode, &alive).unwrap().expect("there is room")
}

#[test]
fn what_is_kept_covers_what_lies_in_it_and_in_no_stricter_mode() {
    let memory = Memory::new();
    let kept = memory.kept();
    let (place, token) = keep(&kept, 1, 10..20, Mode::Shared);
    for (range, mode, home, covered) in [
        (10..20, Mode::Shared, HOME, true),
        (12..15, Mode::Shared, HOME, true),
        (12..15, Mode::Exclusive, HOME, false),
        (9..15, Mode::Shared, HOME, false),
        (15..21, Mode::Shared, HOME, false),
        (12..15, Mode::Shared, HOME + 1, false),
        (12..12, Mode::Shared, HOME, false),
    ] {
        assert_eq!(kept.find(home, &range, mode), covered.then_some(place), "{range:?} {mode:?}");
    }
    kept.release(token).unwrap();
    assert_eq!(kept.find(HOME, &(10..20), Mode::Shared), Some(place), "it stays when nobody uses it");
    let all = kept.enter_whole(owner(2), place, &alive).unwrap();
    kept.clear(place);
    kept.release(all).unwrap();
    assert_eq!(kept.find(HOME, &(10..20), Mode::Shared), None);
}

#[test]
fn readers_use_a_kept_lock_together_and_a_writer_of_another_part_beside_them() {
    let memory = Memory::new();
    let kept = memory.kept();
    let (place, first) = keep(&kept, 1, 0..100, Mode::Exclusive);
    kept.release(first).unwrap();
    let readers = [2, 3].map(|thread| enter(&kept, owner(thread), place, &(0..10), Mode::Shared));
    let writer = enter(&kept, owner(4), place, &(10..20), Mode::Exclusive);
    assert_eq!(kept.in_own_way(owner(4), HOME, &(90..110), Mode::Shared).unwrap(), Some(0..100));
    assert_eq!(kept.in_own_way(owner(5), HOME, &(90..110), Mode::Shared).unwrap(), None);
    readers.into_iter().chain([writer]).for_each(|token| kept.release(token).unwrap());
}

#[test]
fn places_are_given_out_once_and_run_out() {
    let memory = Memory::new();
    let kept = memory.kept();
    let mut tokens = Vec::new();
    for lock in 1..=PLACES as u64 {
        tokens.push(keep(&kept, lock, lock..u64::MAX, Mode::Exclusive).1);
    }
    assert!(kept.reserve(owner(2), HOME, &alive).unwrap().is_none());
    tokens.into_iter().for_each(|token| kept.release(token).unwrap());
    assert!(
        kept.reserve(owner(2), HOME, &alive).unwrap().is_none(),
        "what is kept is not given up for others"
    );
    kept.clear_all(owner(2), &alive).unwrap();
    assert!(kept.reserve(owner(2), HOME, &alive).unwrap().is_some());
}

#[test]
fn a_place_is_passed_on_when_it_has_something_else_or_is_for_another_home() {
    let memory = Memory::new();
    let kept = memory.kept();
    let grant = |home, lock| Grant { home, lock };
    let (place, reserved) = kept.reserve(owner(1), HOME, &alive).unwrap().unwrap();
    assert!(!kept.is_passed_on(place, grant(HOME, 1)), "it may still come to be kept");
    assert!(kept.is_passed_on(place, grant(HOME + 1, 1)));
    kept.release(reserved).unwrap();
    let (same, token) = keep(&kept, 2, 0..10, Mode::Shared);
    assert_eq!(same, place);
    assert!(kept.is_passed_on(place, grant(HOME, 1)));
    assert!(!kept.is_passed_on(place, grant(HOME, 2)));
    kept.release(token).unwrap();
}

#[test]
fn the_farthest_bytes_stay_in_their_stretch() {
    for place in [PlaceNumber(0), PlaceNumber(PLACES as u32 - 1)] {
        for range in [0..1, 0..u64::MAX, STRETCH * 3..STRETCH * 4, u64::MAX - 1..u64::MAX] {
            let part = part(place, &range);
            assert!(!part.is_empty() && part.start >= whole(place).start && part.end <= whole(place).end);
        }
    }
}

#[test]
fn nobody_waits_for_room_among_the_users() {
    let memory = Memory::new();
    let kept = memory.kept();
    let (first, token) = keep(&kept, 1, 0..100, Mode::Shared);
    kept.release(token).unwrap();
    let (second, token) = keep(&kept, 2, 200..300, Mode::Shared);
    kept.release(token).unwrap();
    let users = 0..LockTable::CAPACITY as u32;
    let use_first = |user| enter(&kept, owner(user), first, &(0..10), Mode::Shared);
    let tokens: Vec<_> = users.map(use_first).collect();
    for user in [7, 1000] {
        assert_eq!(kept.enter(owner(user), second, &(200..201), Mode::Shared, &alive).unwrap(), None);
        assert!(kept.reserve(owner(user), HOME, &alive).unwrap().is_none());
    }
    assert_eq!(kept.used_by(owner(7)).unwrap(), Some(0..100));
    assert_eq!(kept.used_by(owner(1000)).unwrap(), None);
    tokens.into_iter().for_each(|token| kept.release(token).unwrap());
    let token = enter(&kept, owner(7), second, &(200..201), Mode::Shared);
    assert_eq!(kept.used_by(owner(7)).unwrap(), Some(200..300));
    kept.release(token).unwrap();
}

#[test]
fn who_uses_what_was_taken_away_is_found_by_who_wants_some_of_it_and_his_place_is_not_given_to_others() {
    let memory = Memory::new();
    let kept = memory.kept();
    let (place, token) = keep(&kept, 1, 10..20, Mode::Exclusive);
    kept.users.narrow(&token, part(place, &(10..15)), Mode::Exclusive).unwrap();
    kept.take_away(place);
    let found = |home, range: Range<u64>| kept.in_the_way(home, &range, Mode::Shared).collect::<Vec<_>>();
    assert_eq!(found(HOME, 19..30), [place]);
    for (home, range) in [(HOME + 1, 10..20), (HOME, 20..30), (HOME, 12..12)] {
        assert_eq!(found(home, range), []);
    }
    assert!(!kept.is_kept_in_the_way(place, HOME, &(10..20), Mode::Exclusive));
    // Beside him, and where he is, as himself.
    let beside = kept.enter_after(owner(2), place, &(15..30), Mode::Exclusive, &alive).unwrap();
    kept.release(beside.unwrap()).unwrap();
    let himself = kept.enter_after(owner(1), place, &(12..30), Mode::Exclusive, &alive);
    let Err(LockError::WouldDeadlock { requested, held }) = himself else { panic!("{himself:?}") };
    assert_eq!((requested, held), (12..30, 10..20));
    kept.release(token).unwrap();
    let (next, token) = kept.reserve(owner(2), HOME, &alive).unwrap().unwrap();
    assert_ne!(next, place);
    kept.release(token).unwrap();
}
