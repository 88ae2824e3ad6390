//! Whose turn it is to work on a link.
//!
//! A lock whose waiters wait as all others wait for the fabric: they give the core away, and in virtual time they let
//! time pass. So it may be held where an ordinary lock may not: in a call that waits for the back end. It must not be
//! held while waiting for a peer's program.

use std::ops::{Deref, DerefMut};

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

/// How a waiter waits, and how it is told to look again.
pub(super) trait Waiting {
    /// Returns when `ready` has returned true.
    fn wait(&self, ready: &mut dyn FnMut() -> bool);
    /// Has all waiters look again.
    fn wake(&self);
}

impl Waiting for dyn BackEnd {
    fn wait(&self, ready: &mut dyn FnMut() -> bool) {
        // Without a deadline, a wait ends only when the condition holds.
        let _ = self.wait_until(Wait { deadline: None, attends: None, ready });
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
        waiting.wait(&mut || self.state.swap(WANTED, Ordering::Acquire) == FREE);
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

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::{Turn, Waiting};

    struct Yielding;

    impl Waiting for Yielding {
        fn wait(&self, ready: &mut dyn FnMut() -> bool) {
            while !ready() {
                thread::yield_now();
            }
        }

        fn wake(&self) {}
    }

    #[test]
    fn loom_one_at_a_time_has_the_turn() {
        loom::model(|| {
            let turn = Arc::new(Turn::new(0));
            let other = Arc::clone(&turn);
            let thread = thread::spawn(move || *other.take(&Yielding) += 1);
            *turn.take(&Yielding) += 1;
            thread.join().unwrap();
            assert_eq!(*turn.take(&Yielding), 2);
        });
    }
}
