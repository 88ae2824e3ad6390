//! The lock table in one process and its forked children. What takes whole programs is in the
//! crate's `tests/locks`.

mod deaths;

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::killing::{Child, End};

/// A table, and a word to talk about it, in memory that forked children share.
struct Shared {
    map: memmap2::MmapRaw,
}

const PARENT: ProcessSlot = ProcessSlot(0);
const CHILD: ProcessSlot = ProcessSlot(1);
/// Whoever is held up for longer than this, a death holds up for ever. What a death takes is a period, but where much
/// else runs a thread is late to everything.
const FOREVER: Duration = Duration::from_secs(60);

impl Shared {
    fn new() -> Self {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LockTable::BYTES as u64 + 64).unwrap();
        let map = memmap2::MmapRaw::map_raw(&file).unwrap();
        // SAFETY: freshly mapped.
        unsafe { LockTable::init_at(map.as_mut_ptr(), LockTable::BYTES).unwrap() };
        Shared { map }
    }

    fn table(&self) -> &LockTable {
        // SAFETY: mapped as long as `self` lives, and used as a table only.
        unsafe { LockTable::from_ptr(self.map.as_mut_ptr(), LockTable::BYTES).unwrap() }
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: there are 64 bytes behind the table, and they are used as this word only.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().add(LockTable::BYTES).cast()) }
    }

    fn await_word(&self, value: u32) {
        await_that(|| self.word().load(Ordering::Acquire) == value);
    }

    /// The table must be empty, in order, and usable.
    #[track_caller]
    fn assert_in_order(&self) {
        let table = self.table();
        table.assert_consistent();
        let all = table
            .try_acquire(owner(PARENT, 99), 0..u64::MAX, Mode::Exclusive, &only_parent)
            .unwrap()
            .expect("only the dead are in the way");
        assert_eq!(table.claims().unwrap().len(), 1);
        table.release(all).unwrap();
        assert_eq!(table.claims().unwrap(), []);
        table.assert_consistent();
    }
}

impl LockTable {
    fn assert_consistent(&self) {
        let _locked = Locked::new(self).unwrap();
        let occupied = (0..CAPACITY).filter(|index| self.entries[*index].state() != State::Free);
        assert!(occupied.eq(self.header.live()));
    }

    fn acquire_all(&self, owner: Owner, alive: &Liveness<'_>) -> LockToken {
        self.acquire(owner, 0..u64::MAX, Mode::Exclusive, alive).unwrap()
    }

    fn waiting(&self) -> usize {
        let claims = self.claims().unwrap();
        let waiting = |claim: &&Claim| claim.standing == Standing::Waiting;
        claims.iter().filter(waiting).count()
    }
}

fn owner(slot: ProcessSlot, thread: u32) -> Owner {
    Owner { slot, thread: ThreadId(thread) }
}

fn all_alive(_: ProcessSlot) -> io::Result<bool> {
    Ok(true)
}

fn only_parent(slot: ProcessSlot) -> io::Result<bool> {
    Ok(slot == PARENT)
}

#[track_caller]
fn await_that(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < FOREVER, "it never came about");
        thread::yield_now();
    }
}

#[test]
fn a_table_is_recognised_and_nothing_else_is() {
    let shared = Shared::new();
    let memory = shared.map.as_mut_ptr();
    // SAFETY: mapped memory, only looked at or refused.
    unsafe {
        assert!(matches!(LockTable::from_ptr(memory, LockTable::BYTES - 1), Err(LockError::Memory { .. })));
        assert!(matches!(
            LockTable::from_ptr(memory.add(8), LockTable::BYTES),
            Err(LockError::Memory { .. })
        ));
        assert!(LockTable::from_ptr(memory, LockTable::BYTES).is_ok());
        memory.write(memory.read() ^ 1);
        assert!(matches!(LockTable::from_ptr(memory, LockTable::BYTES), Err(LockError::NotATable)));
    }
}

#[test]
fn trying_tells_at_once_whether_it_would_wait() {
    let shared = Shared::new();
    let table = shared.table();
    let try_it =
        |thread, range, mode| table.try_acquire(owner(PARENT, thread), range, mode, &all_alive).unwrap();
    let reader = try_it(1, 0..10, Mode::Shared).unwrap();
    let other_reader = try_it(2, 5..15, Mode::Shared).unwrap();
    assert_eq!(try_it(3, 14..20, Mode::Exclusive), None);
    let writer = try_it(3, 15..20, Mode::Exclusive).unwrap();
    assert_eq!(try_it(4, 0..u64::MAX, Mode::Shared), None);
    for token in [reader, other_reader, writer] {
        table.release(token).unwrap();
    }
    shared.assert_in_order();
}

#[test]
fn an_empty_range_is_granted_without_an_entry_and_an_inverted_one_refused() {
    let shared = Shared::new();
    let table = shared.table();
    let all = table.acquire_all(owner(PARENT, 1), &all_alive);
    let empty = table.acquire(owner(PARENT, 1), 7..7, Mode::Exclusive, &all_alive).unwrap();
    assert_eq!(table.claims().unwrap().len(), 1);
    table.release(empty).unwrap();
    #[expect(clippy::reversed_empty_ranges)]
    let inverted = table.acquire(owner(PARENT, 1), 8..7, Mode::Shared, &all_alive);
    assert!(matches!(inverted, Err(LockError::Inverted(_))));
    table.release(all).unwrap();
    shared.assert_in_order();
}

#[test]
fn a_thread_is_told_that_it_would_wait_for_itself() {
    let shared = Shared::new();
    let table = shared.table();
    let own = table.acquire(owner(PARENT, 1), 0..10, Mode::Shared, &all_alive).unwrap();
    let error = table.acquire(owner(PARENT, 1), 5..20, Mode::Exclusive, &all_alive).unwrap_err();
    assert_eq!(
        error.to_string(),
        "waiting for bytes 5..20 would never end: this thread itself holds bytes 0..10, \
         which must be released first"
    );
    table.release(own).unwrap();
    shared.assert_in_order();
}

#[test]
fn a_lock_that_is_made_anothers_is_in_his_own_way() {
    let shared = Shared::new();
    let table = shared.table();
    let (before, after) = (owner(PARENT, 1), owner(CHILD, 2));
    let token = table.acquire(before, 0..10, Mode::Exclusive, &all_alive).unwrap();
    table.set_owner(&token, after).unwrap();
    assert_eq!(table.claims().unwrap().iter().map(|claim| claim.owner).collect::<Vec<_>>(), [after]);
    let error = table.acquire(after, 5..20, Mode::Exclusive, &all_alive).unwrap_err();
    assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error}");
    table.reap(PARENT).unwrap();
    table.release(token).unwrap();
    let gone = table.acquire(before, 0..10, Mode::Exclusive, &all_alive).unwrap();
    table.reap(PARENT).unwrap();
    assert!(matches!(table.set_owner(&gone, after), Err(LockError::TakenAway)));
    shared.assert_in_order();
}

#[test]
fn an_owner_whose_lock_was_taken_away_is_told() {
    let shared = Shared::new();
    let table = shared.table();
    let token = table.acquire_all(owner(PARENT, 1), &all_alive);
    table.reap(PARENT).unwrap();
    let next = table.acquire_all(owner(PARENT, 2), &all_alive);
    assert!(matches!(table.release(token), Err(LockError::TakenAway)));
    table.release(next).unwrap();
    shared.assert_in_order();
}

#[test]
fn who_cannot_tell_who_lives_withdraws_and_says_so() {
    let shared = Shared::new();
    let table = shared.table();
    let held = table.acquire_all(owner(CHILD, 1), &all_alive);
    let error = table
        .acquire(owner(PARENT, 1), 0..1, Mode::Shared, &|_| Err(io::ErrorKind::NotFound.into()))
        .unwrap_err();
    assert!(matches!(error, LockError::Liveness { slot: CHILD, .. }), "{error}");
    assert_eq!(table.claims().unwrap().len(), 1);
    table.release(held).unwrap();
    shared.assert_in_order();
}

#[test]
fn a_release_wakes_the_next_one_at_once() {
    let shared = Shared::new();
    let table = shared.table();
    let sleeps = |entry: &Entry| entry.state() == State::Sleeping;
    // Who wakes by itself asks whether the owner of this one lives.
    let bystander = table.acquire(owner(CHILD, 1), 100..101, Mode::Exclusive, &all_alive).unwrap();
    let acquire = |thread, alive: &Liveness<'_>| {
        table.acquire(owner(PARENT, thread), 0..10, Mode::Exclusive, alive).unwrap()
    };
    let wakes_by_itself = || {
        let asked = AtomicU32::new(0);
        let held = acquire(1, &all_alive);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let alive = |_| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    Ok(true)
                };
                acquire(2, &alive)
            });
            await_that(|| table.entries.iter().any(sleeps));
            table.release(held).unwrap();
            table.release(waiter.join().unwrap()).unwrap();
        });
        asked.into_inner() > 0
    };
    // It does where this thread was held up for a period, and that may be so many times on a busy machine.
    let woken = (0..300).filter(|_| !wakes_by_itself()).take(10).count();
    assert_eq!(woken, 10, "they wake by themselves");
    table.release(bystander).unwrap();
    shared.assert_in_order();
}

#[test]
fn room_wakes_the_one_whose_turn_it_is_at_once() {
    let shared = Shared::new();
    let table = shared.table();
    let byte = |slot, at, alive: &Liveness<'_>| {
        // Who holds a lock does not wait for room.
        table.acquire(owner(slot, at as u32), at..at + 1, Mode::Exclusive, alive)
    };
    // Who wakes by itself asks whether the owner of this one lives.
    let bystander = byte(CHILD, 0, &all_alive).unwrap();
    let most: Vec<_> = (2..CAPACITY as u64).map(|at| byte(PARENT, at, &all_alive).unwrap()).collect();
    let wakes_by_itself = || {
        let (asked, thread) = (AtomicU32::new(0), AtomicU32::new(0));
        let last = byte(PARENT, 1, &all_alive).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                // SAFETY: it only tells the number of this thread.
                thread.store(unsafe { libc::gettid() }.unsigned_abs(), Ordering::Relaxed);
                let alive = |_| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    Ok(true)
                };
                byte(PARENT, 1000, &alive).unwrap()
            });
            let is_asleep = || {
                let status = format!("/proc/self/task/{}/stat", thread.load(Ordering::Relaxed));
                std::fs::read_to_string(status).is_ok_and(|status| status.contains(") S "))
            };
            await_that(|| table.header.queue.length() == 1 && is_asleep());
            table.release(last).unwrap();
            table.release(waiter.join().unwrap()).unwrap();
        });
        asked.into_inner() > 0
    };
    // As above.
    let woken = (0..300).filter(|_| !wakes_by_itself()).take(10).count();
    assert_eq!(woken, 10, "they wake by themselves");
    most.into_iter().chain([bystander]).for_each(|token| table.release(token).unwrap());
    shared.assert_in_order();
}

#[test]
fn who_holds_a_lock_does_not_wait_for_room() {
    let shared = Shared::new();
    let table = shared.table();
    let byte = |at: u64, thread, alive: &Liveness<'_>| {
        table.acquire(owner(PARENT, thread), at..at + 1, Mode::Exclusive, alive)
    };
    let mut held: Vec<LockToken> =
        (0..CAPACITY as u64).map(|at| byte(at, at as u32, &all_alive).unwrap()).collect();
    let error = byte(1000, 7, &all_alive).unwrap_err();
    assert!(
        matches!(&error, LockError::NoRoom { requested, held }
        if *requested == (1000..1001) && *held == (7..8)),
        "{error}"
    );
    assert_eq!(table.header.queue.length(), 0);
    thread::scope(|scope| {
        let other = scope.spawn(|| byte(2000, 1000, &all_alive).unwrap());
        await_that(|| table.header.queue.length() == 1);
        assert!(matches!(byte(1000, 7, &all_alive), Err(LockError::NoRoom { .. })), "also where others wait");
        held.drain(..).for_each(|token| table.release(token).unwrap());
        table.release(other.join().unwrap()).unwrap();
    });
    shared.assert_in_order();
}

#[test]
fn who_must_not_wait_for_room_is_told_that_there_is_none() {
    let shared = Shared::new();
    let table = shared.table();
    let byte =
        |at: u64, thread| table.acquire(owner(PARENT, thread), at..at + 1, Mode::Exclusive, &all_alive);
    let if_room = |slot, range, alive: &Liveness<'_>| {
        table.acquire_if_room(owner(slot, 1000), range, Mode::Exclusive, alive).unwrap()
    };
    let mut held: Vec<LockToken> = (1..CAPACITY as u64).map(|at| byte(at, at as u32).unwrap()).collect();
    held.push(if_room(CHILD, 1000..1001, &all_alive).unwrap());
    assert_eq!(if_room(PARENT, 2000..2001, &all_alive), None);
    assert!(if_room(PARENT, 7..7, &all_alive).is_some_and(|token| token == LockToken(None)));
    thread::scope(|scope| {
        let other = scope.spawn(|| byte(3000, 2000).unwrap());
        await_that(|| table.header.queue.length() == 1);
        held.drain(..2).for_each(|token| table.release(token).unwrap());
        table.release(other.join().unwrap()).unwrap();
    });
    let token = if_room(PARENT, 2000..2001, &all_alive).unwrap();
    table.release(token).unwrap();
    held.drain(..).for_each(|token| table.release(token).unwrap());
    shared.assert_in_order();
}

#[test]
fn who_finds_the_table_full_is_let_in_by_and_by_in_order() {
    // Who has room and does not run for a period is skipped: from then on they come in another order.
    let mut in_time = 0;
    for _ in 0..100 {
        let (start, arrivals) = let_in_by_and_by();
        let prompt = arrivals.iter().take_while(|(_, at)| at.duration_since(start) < sleep::PERIOD);
        let order: Vec<u32> = prompt.map(|(late, _)| *late).collect();
        assert_eq!(order, (1..=order.len() as u32).collect::<Vec<u32>>());
        in_time += order.len();
        if in_time >= 40 {
            return;
        }
    }
    panic!("this machine is too busy to tell: only {in_time} came within a period");
}

/// When a full table had room again, and who of those that had found it full was let in when.
fn let_in_by_and_by() -> (Instant, Vec<(u32, Instant)>) {
    let shared = Shared::new();
    let table = shared.table();
    let byte = |at: u64, thread| {
        table.acquire(owner(PARENT, thread), at..at + 1, Mode::Exclusive, &all_alive).unwrap()
    };
    let mut held: Vec<LockToken> = (0..CAPACITY as u64).map(|at| byte(at, 0)).collect();
    let full = table.try_acquire(owner(PARENT, 1), 1000..1001, Mode::Shared, &all_alive);
    assert_eq!(full.unwrap(), None);
    let (mut start, arrivals) = (Instant::now(), std::sync::Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for late in 1..=40 {
            let arrivals = &arrivals;
            scope.spawn(move || {
                let token = byte(1000, late);
                arrivals.lock().unwrap().push((late, Instant::now()));
                table.release(token).unwrap();
            });
            await_that(|| table.header.queue.length() == late);
        }
        start = Instant::now();
        held.drain(..).for_each(|token| table.release(token).unwrap());
    });
    shared.assert_in_order();
    (start, arrivals.into_inner().unwrap())
}

#[test]
fn an_uncontended_lock_costs_no_system_call() {
    let shared = Shared::new();
    let table = shared.table();
    let child = Child::run(|| {
        // SAFETY: from now on the kernel kills this process if it calls anything but read, write
        // and exit.
        let outcome = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
        assert_eq!(outcome, 0, "this test needs a kernel with seccomp");
        for round in 0..1000 {
            let token = table.acquire(owner(CHILD, 1), round..round + 10, Mode::Exclusive, &all_alive);
            table.release(token.unwrap()).unwrap();
        }
        // SAFETY: ends the only thread, by the one call that is allowed.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    assert_eq!(child.wait(), End::Finished);
    assert_eq!(table.claims().unwrap(), []);
}
