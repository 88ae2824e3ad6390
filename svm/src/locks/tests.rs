//! The lock table under everything that can happen to it, with forked processes that are killed
//! between any two of its stores. What takes whole programs is in `tests/locks.rs`.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// Makes the process that armed it kill itself at the n-th point where it may be killed.
pub(super) mod kill {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    static POINTS_LEFT: AtomicU32 = AtomicU32::new(0);

    /// For the forked children only: the other tests run in threads of the same process.
    pub(super) fn arm(point: u32) {
        POINTS_LEFT.store(point, Relaxed);
    }

    pub(in super::super) fn point() {
        if POINTS_LEFT.load(Relaxed) != 0 && POINTS_LEFT.fetch_sub(1, Relaxed) == 1 {
            // SAFETY: kills this process, at once.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }
}

/// A table, and a word to talk about it, in memory that forked children share.
struct Shared {
    map: memmap2::MmapRaw,
}

const PARENT: ProcessSlot = ProcessSlot(0);
const CHILD: ProcessSlot = ProcessSlot(1);
/// The longest that anybody may be held up by a death.
const SOON: Duration = Duration::from_secs(1);

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
        assert!(start.elapsed() < 10 * SOON, "it never came about");
        thread::yield_now();
    }
}

/// A forked process, killed at the latest when its test ends.
struct Child {
    pid: libc::pid_t,
    ended: Cell<bool>,
}

impl Child {
    fn run(work: impl FnOnce()) -> Child {
        // SAFETY: the child calls nothing that a lock of another thread could hold up for good: the
        // C library keeps its allocator usable over a fork. It ends without unwinding.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", io::Error::last_os_error()),
            0 => {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                // SAFETY: ends the child without running what its parent has set up for its end.
                unsafe { libc::_exit(i32::from(outcome.is_err())) }
            }
            pid => Child { pid, ended: Cell::new(false) },
        }
    }

    /// Ends it by another signal than it uses itself at a kill point.
    fn terminate(self) -> End {
        // SAFETY: a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid, libc::SIGTERM) }, 0);
        self.wait()
    }

    fn is_asleep(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap();
        let (_, state) = status.rsplit_once(") ").unwrap();
        state.starts_with('S')
    }

    /// How it ended, if it has.
    fn ended(&self, flags: libc::c_int) -> Option<End> {
        let mut status = 0;
        // SAFETY: a child of this process, and room for its status.
        match unsafe { libc::waitpid(self.pid, &mut status, flags) } {
            0 => None,
            pid => {
                assert_eq!(pid, self.pid, "waitpid: {}", io::Error::last_os_error());
                self.ended.set(true);
                if libc::WIFEXITED(status) {
                    assert_eq!(libc::WEXITSTATUS(status), 0, "the child panicked");
                    Some(End::Finished)
                } else if libc::WTERMSIG(status) == libc::SIGKILL {
                    Some(End::KilledItself)
                } else {
                    assert_eq!(libc::WTERMSIG(status), libc::SIGTERM);
                    Some(End::Terminated)
                }
            }
        }
    }

    fn wait(self) -> End {
        self.ended(0).unwrap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended.get() {
            // SAFETY: a child that has not been waited for.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            self.ended(0);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Finished,
    KilledItself,
    Terminated,
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
fn a_circle_that_closes_only_through_a_dead_process_is_no_deadlock() {
    let shared = Shared::new();
    let table = shared.table();
    let own = table.acquire(owner(PARENT, 1), 0..10, Mode::Exclusive, &all_alive).unwrap();
    let child = Child::run(|| {
        let _kept = table.acquire(owner(CHILD, 1), 10..20, Mode::Exclusive, &all_alive);
        let _never = table.acquire(owner(CHILD, 1), 0..1, Mode::Exclusive, &all_alive);
    });
    await_that(|| table.waiting() == 1);
    let error = table.acquire(owner(PARENT, 1), 10..11, Mode::Exclusive, &all_alive).unwrap_err();
    assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error}");
    assert_eq!(child.terminate(), End::Terminated);
    let others = table.acquire(owner(PARENT, 1), 10..11, Mode::Exclusive, &only_parent).unwrap();
    table.release(others).unwrap();
    table.release(own).unwrap();
    shared.assert_in_order();
}

#[test]
fn what_a_dead_process_holds_is_not_in_the_way_of_a_try() {
    let shared = Shared::new();
    let table = shared.table();
    let child = Child::run(|| drop(table.acquire_all(owner(CHILD, 1), &all_alive)));
    assert_eq!(child.wait(), End::Finished);
    let try_it =
        |alive: &Liveness<'_>| table.try_acquire(owner(PARENT, 1), 0..1, Mode::Exclusive, alive).unwrap();
    assert_eq!(try_it(&all_alive), None);
    let token = try_it(&only_parent).unwrap();
    table.release(token).unwrap();
    shared.assert_in_order();
}

#[test]
fn the_next_in_a_slot_clears_what_its_predecessor_left() {
    let shared = Shared::new();
    let table = shared.table();
    let child = Child::run(|| drop(table.acquire_all(owner(CHILD, 1), &all_alive)));
    assert_eq!(child.wait(), End::Finished);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| table.acquire_all(owner(PARENT, 1), &all_alive));
        await_that(|| table.waiting() == 1);
        table.reap(CHILD).unwrap();
        table.release(waiter.join().unwrap()).unwrap();
    });
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
fn who_finds_the_table_full_is_let_in_by_and_by_in_order() {
    let shared = Shared::new();
    let table = shared.table();
    let byte = |at: u64, thread| {
        table.acquire(owner(PARENT, thread), at..at + 1, Mode::Exclusive, &all_alive).unwrap()
    };
    let mut held: Vec<LockToken> = (0..CAPACITY as u64).map(|at| byte(at, 0)).collect();
    let full = table.try_acquire(owner(PARENT, 1), 1000..1001, Mode::Shared, &all_alive);
    assert_eq!(full.unwrap(), None);
    let order = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for late in 1..=40 {
            let order = &order;
            scope.spawn(move || {
                let token = byte(1000, late);
                order.lock().unwrap().push(late);
                table.release(token).unwrap();
            });
            await_that(|| table.header.queue.length() == late);
        }
        held.drain(..).for_each(|token| table.release(token).unwrap());
    });
    assert_eq!(order.into_inner().unwrap(), (1..=40).collect::<Vec<u32>>());
    shared.assert_in_order();
}

#[test]
fn the_dead_in_the_queue_for_room_and_in_a_full_table_are_passed_over() {
    let shared = Shared::new();
    let table = shared.table();
    let fill = Child::run(|| {
        for at in 0..CAPACITY as u64 {
            let range = at..at + 1;
            let _kept = table.acquire(owner(CHILD, 0), range, Mode::Exclusive, &all_alive);
        }
    });
    assert_eq!(fill.wait(), End::Finished);
    for queued in 1..=3 {
        let child = Child::run(|| drop(table.acquire_all(owner(CHILD, 1), &all_alive)));
        await_that(|| table.header.queue.length() == queued);
        assert_eq!(child.terminate(), End::Terminated);
    }
    let start = Instant::now();
    let token = table.acquire(owner(PARENT, 1), 3..5, Mode::Exclusive, &only_parent).unwrap();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    table.release(token).unwrap();
    assert_eq!(table.header.queue.length(), 0);
    shared.assert_in_order();
}

/// Runs `scene` with each point in turn at which its child may be killed, until the child gets
/// past the last one alive; there must be at least `at_least` such points.
fn at_every_kill_point(at_least: u32, scene: impl Fn(&Shared, u32) -> End) {
    let mut point = 1;
    loop {
        let shared = Shared::new();
        let end = scene(&shared, point);
        shared.assert_in_order();
        if end != End::KilledItself {
            break;
        }
        point += 1;
    }
    assert!(point > at_least, "only {} points", point - 1);
}

#[test]
fn a_death_anywhere_in_acquiring_and_releasing_is_repaired() {
    at_every_kill_point(9, |shared, point| {
        let table = shared.table();
        let standing_by = table.acquire(owner(PARENT, 1), 50..60, Mode::Exclusive, &all_alive).unwrap();
        let child = Child::run(|| {
            kill::arm(point);
            let token = table.acquire(owner(CHILD, 1), 0..10, Mode::Exclusive, &all_alive);
            table.release(token.unwrap()).unwrap();
        });
        let end = child.wait();
        table.release(standing_by).unwrap();
        end
    });
}

#[test]
fn a_death_anywhere_in_a_repair_is_repaired() {
    for first_point in 1..=9 {
        at_every_kill_point(2, |shared, point| {
            let table = shared.table();
            let standing_by = table.acquire(owner(PARENT, 1), 50..60, Mode::Exclusive, &all_alive).unwrap();
            let first = Child::run(|| {
                kill::arm(first_point);
                let token = table.acquire(owner(CHILD, 1), 0..10, Mode::Exclusive, &all_alive);
                table.release(token.unwrap()).unwrap();
            });
            assert_eq!(first.wait(), End::KilledItself);
            let second = Child::run(|| {
                kill::arm(point);
                let alive = |slot| Ok(slot != CHILD);
                let token = table.acquire(owner(ProcessSlot(2), 1), 10..20, Mode::Exclusive, &alive);
                table.release(token.unwrap()).unwrap();
            });
            let end = second.wait();
            table.release(standing_by).unwrap();
            end
        });
    }
}

#[test]
fn a_death_anywhere_in_handing_over_does_not_hold_up_those_who_wait() {
    at_every_kill_point(4, |shared, point| {
        let table = shared.table();
        let child = Child::run(|| {
            let token = table.acquire(owner(CHILD, 1), 0..10, Mode::Exclusive, &all_alive).unwrap();
            shared.word().store(1, Ordering::Release);
            shared.await_word(2);
            kill::arm(point);
            table.release(token).unwrap();
        });
        shared.await_word(1);
        let child_lives = AtomicU32::new(1);
        let alive = |slot| Ok(slot == PARENT || slot == CHILD && child_lives.load(Ordering::Relaxed) == 1);
        thread::scope(|scope| {
            let waiters: Vec<_> = [Mode::Shared, Mode::Exclusive, Mode::Shared]
                .into_iter()
                .zip(1..)
                .map(|(mode, number)| {
                    let waiter = scope.spawn(move || {
                        let token = table.acquire(owner(PARENT, number), 5..15, mode, &alive);
                        table.release(token.unwrap()).unwrap();
                    });
                    await_that(|| table.waiting() == number as usize);
                    waiter
                })
                .collect();
            shared.word().store(2, Ordering::Release);
            let end = child.wait();
            child_lives.store(0, Ordering::Relaxed);
            let start = Instant::now();
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
            end
        })
    });
}

#[test]
fn a_death_anywhere_in_beginning_to_wait_does_not_hold_up_those_behind() {
    at_every_kill_point(5, |shared, point| {
        let table = shared.table();
        let held = table.acquire(owner(PARENT, 1), 0..10, Mode::Exclusive, &all_alive).unwrap();
        let child = Child::run(|| {
            kill::arm(point);
            let token = table.acquire(owner(CHILD, 1), 0..20, Mode::Exclusive, &all_alive);
            table.release(token.unwrap()).unwrap();
        });
        let end = loop {
            if let Some(end) = child.ended(libc::WNOHANG) {
                break end;
            }
            if table.waiting() == 1 {
                break child.terminate();
            }
            thread::yield_now();
        };
        thread::scope(|scope| {
            let behind = scope.spawn(|| {
                let token = table.acquire(owner(PARENT, 2), 15..20, Mode::Exclusive, &only_parent);
                table.release(token.unwrap()).unwrap();
            });
            let start = Instant::now();
            behind.join().unwrap();
            assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        });
        table.release(held).unwrap();
        end
    });
}

/// A process is killed when it has been woken to lock the mutex, but has not yet done so; and before
/// it could, another has locked it. Then the mutex does not know any more that somebody waits.
#[test]
fn the_death_of_one_about_to_lock_the_mutex_does_not_hold_up_the_next() {
    let shared = Shared::new();
    let mutex = &shared.table().mutex;
    for _ in 0..20 {
        let guard = mutex.lock().unwrap().0;
        let queue_up = || {
            let child = Child::run(|| drop(mutex.lock().unwrap()));
            await_that(|| child.is_asleep());
            child
        };
        let first = queue_up();
        let second = queue_up();
        // It wakes the first one; and this thread is quicker, mostly.
        drop(guard);
        let guard = mutex.lock().unwrap().0;
        first.terminate();
        drop(guard);
        let start = Instant::now();
        await_that(|| second.ended(libc::WNOHANG).is_some());
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    }
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
