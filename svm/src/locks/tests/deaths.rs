//! Processes die between any two stores to the lock table, and at other bad moments.

use std::cell::Cell;

use super::*;
use crate::killing;

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
    assert!(start.elapsed() < FOREVER, "{:?}", start.elapsed());
    table.release(token).unwrap();
    assert_eq!(table.header.queue.length(), 0);
    shared.assert_in_order();
}

#[test]
fn who_holds_a_lock_gets_the_room_of_the_dead_before_others_who_wait_for_it() {
    let shared = Shared::new();
    let table = shared.table();
    let own = table.acquire(owner(PARENT, 1), 0..1, Mode::Exclusive, &all_alive).unwrap();
    let fill = Child::run(|| {
        for at in 1..CAPACITY as u64 {
            let _kept = table.acquire(owner(CHILD, at as u32), at..at + 1, Mode::Exclusive, &all_alive);
        }
    });
    assert_eq!(fill.wait(), End::Finished);
    // It stands in the queue for ever: nobody tells it of the dead.
    let queued = Child::run(|| drop(table.acquire_all(owner(ProcessSlot(2), 1), &all_alive)));
    await_that(|| table.header.queue.length() == 1);
    let second = table.acquire(owner(PARENT, 1), 3..5, Mode::Exclusive, &|slot| Ok(slot != CHILD)).unwrap();
    assert!(table.claims().unwrap().iter().all(|claim| claim.owner.slot != CHILD));
    assert_eq!(queued.terminate(), End::Terminated);
    table.release(second).unwrap();
    table.release(own).unwrap();
    table.reap(ProcessSlot(2)).unwrap();
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
            killing::arm(point);
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
                killing::arm(first_point);
                let token = table.acquire(owner(CHILD, 1), 0..10, Mode::Exclusive, &all_alive);
                table.release(token.unwrap()).unwrap();
            });
            assert_eq!(first.wait(), End::KilledItself);
            let second = Child::run(|| {
                killing::arm(point);
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
            killing::arm(point);
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
            assert!(start.elapsed() < FOREVER, "{:?}", start.elapsed());
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
            killing::arm(point);
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
        let asked = Cell::new(0);
        let alive = |slot| {
            asked.set(asked.get() + 1);
            only_parent(slot)
        };
        let start = Instant::now();
        let token = table.acquire(owner(PARENT, 2), 15..20, Mode::Exclusive, &alive);
        table.release(token.unwrap()).unwrap();
        assert!(start.elapsed() < FOREVER, "{:?}", start.elapsed());
        assert!(asked.get() <= 1, "the first look for the dead finds it: {}", asked.get());
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
    for _ in 0..10 {
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
        assert!(start.elapsed() < FOREVER, "{:?}", start.elapsed());
    }
}
