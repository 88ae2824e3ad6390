//! Whose turn it is to work on a link.
//!
//! A lock whose waiters wait as all others wait for the fabric: they give the core away, and in virtual time they let
//! time pass. So it may be held where an ordinary lock may not: in a call that waits for the back end. It must not be
//! held while waiting for a peer's program; only the first send to a peer, which has not opened its messenger yet,
//! waits for that (up to 30 s) with the turn of a link that is of no use before.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[cfg(not(all(test, loom)))]
use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, Ordering},
};

#[cfg(all(test, loom))]
use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::back_end::{BackEnd, Wait};

/// How long is waited where the fabric does not wait any more.
const PAUSE: Duration = Duration::from_micros(50);

/// How a waiter waits, and how it is told to look again.
pub(super) trait Waiting {
    /// Returns when `ready` has returned true, or before: once a fabric is closed, nobody waits for it.
    fn wait(&self, ready: &mut dyn FnMut() -> bool);
    /// Lets others have the core, after a wait that was in vain.
    fn pause(&self);
    /// Has all waiters look again.
    fn wake(&self);
}

impl Waiting for dyn BackEnd {
    fn wait(&self, ready: &mut dyn FnMut() -> bool) {
        // How it ended, `ready` knows itself.
        let _ = self.wait_until(Wait { deadline: None, attends: None, ready });
    }

    fn pause(&self) {
        self.sleep(PAUSE);
    }

    fn wake(&self) {
        BackEnd::wake(self);
    }
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody waits.
const WANTED: u32 = 2;

/// A value that one thread at a time works on.
pub(super) struct Turn<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `state` lets one thread at a time reach the value, so it only has to be fit to move between threads.
unsafe impl<T: Send> Send for Turn<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Turn<T> {}

impl<T> Turn<T> {
    pub(super) fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits until it is free.
    #[inline]
    pub(super) fn take<'a, W: Waiting + ?Sized>(&'a self, waiting: &'a W) -> Guard<'a, T, W> {
        // Acquire: pairs with the Release of whoever had it before.
        if self.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.take_slowly(waiting);
        }
        Guard { turn: self, waiting }
    }

    #[cold]
    fn take_slowly<W: Waiting + ?Sized>(&self, waiting: &W) {
        // Whoever swaps says at once that it waits; if it was free, it is ours, and the mark only costs a wake-up
        // for nobody when it is released. Acquire as in `take`.
        let mut is_ours = false;
        let mut ready = || {
            is_ours = is_ours || self.state.swap(WANTED, Ordering::Acquire) == FREE;
            is_ours
        };
        loop {
            waiting.wait(&mut ready);
            // Only the swap says whose turn it is, not that a wait has ended.
            if ready() {
                return;
            }
            waiting.pause();
        }
    }
}

/// Whoever holds it has the turn.
pub(super) struct Guard<'a, T, W: Waiting + ?Sized> {
    turn: &'a Turn<T>,
    waiting: &'a W,
}

#[cfg(not(all(test, loom)))]
impl<T, W: Waiting + ?Sized> Deref for Guard<'_, T, W> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `state` says that the value is ours as long as the guard lives.
        unsafe { &*self.turn.value.get() }
    }
}

#[cfg(not(all(test, loom)))]
impl<T, W: Waiting + ?Sized> DerefMut for Guard<'_, T, W> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; the guard is borrowed exclusively.
        unsafe { &mut *self.turn.value.get() }
    }
}

#[cfg(all(test, loom))]
impl<T, W: Waiting + ?Sized> Deref for Guard<'_, T, W> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: as without loom, which checks it.
        self.turn.value.with(|value| unsafe { &*value })
    }
}

#[cfg(all(test, loom))]
impl<T, W: Waiting + ?Sized> DerefMut for Guard<'_, T, W> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as without loom, which checks it.
        self.turn.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T, W: Waiting + ?Sized> Drop for Guard<'_, T, W> {
    #[inline]
    fn drop(&mut self) {
        // Release: the next one sees what was done.
        if self.turn.state.swap(FREE, Ordering::Release) == WANTED {
            self.waiting.wake();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::{Turn, Waiting};

    /// A fabric that is closed: no wait waits. Whoever has the turn gives it back after some attempts of others.
    #[derive(Default)]
    struct Closed<'a> {
        pauses: Cell<u32>,
        give_back: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
    }

    impl Waiting for Closed<'_> {
        fn wait(&self, _: &mut dyn FnMut() -> bool) {}

        fn pause(&self) {
            self.pauses.set(self.pauses.get() + 1);
            if self.pauses.get() == 3
                && let Some(give_back) = self.give_back.take()
            {
                give_back();
            }
        }

        fn wake(&self) {}
    }

    #[test]
    fn nobody_has_the_turn_beside_another_one_where_waits_end_early() {
        let turn = Turn::new(0);
        let (first, second) = (Closed::default(), Closed::default());
        let held = turn.take(&first);
        second.give_back.replace(Some(Box::new(move || drop(held))));
        *turn.take(&second) += 1;
        assert_eq!(second.pauses.get(), 3);
        assert_eq!(*turn.take(&second), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::{Turn, Waiting};

    /// Waits until it is ready, or ends each wait early.
    struct Yielding {
        ends_early: bool,
    }

    impl Waiting for Yielding {
        fn wait(&self, ready: &mut dyn FnMut() -> bool) {
            while !self.ends_early && !ready() {
                thread::yield_now();
            }
        }

        fn pause(&self) {
            thread::yield_now();
        }

        fn wake(&self) {}
    }

    fn one_at_a_time(ends_early: bool) {
        loom::model(move || {
            let waiting = Yielding { ends_early };
            let turn = Arc::new(Turn::new(0));
            let other = Arc::clone(&turn);
            let thread = thread::spawn(move || *other.take(&Yielding { ends_early }) += 1);
            *turn.take(&waiting) += 1;
            thread.join().unwrap();
            assert_eq!(*turn.take(&waiting), 2);
        });
    }

    #[test]
    fn loom_one_at_a_time_has_the_turn() {
        one_at_a_time(false);
    }

    #[test]
    fn loom_one_at_a_time_has_the_turn_where_waits_end_early() {
        one_at_a_time(true);
    }
}
