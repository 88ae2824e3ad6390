//! Who has the engine, and who has to be woken for it: nothing is left undone while everybody sleeps. Loom tests it.

#[cfg(not(loom))]
use std::sync::Mutex;
#[cfg(not(loom))]
pub(super) use std::sync::MutexGuard as Holding;
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

#[cfg(loom)]
use loom::sync::Mutex;
#[cfg(loom)]
pub(super) use loom::sync::MutexGuard as Holding;
use svmio_transport::futex::{AtomicU32, AtomicU64, Ordering, fence};

use crate::executor::bed::Bed;

/// How many operations are not complete.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    number: AtomicU64,
    /// Not 0 when no more will come.
    is_closing: AtomicU32,
}

/// The engine, which one thread at a time has, and where the group's own thread sleeps.
#[derive(Debug)]
pub(super) struct Handover<E> {
    engine: Mutex<E>,
    bed: Bed,
}

/// What the thread sleeps for, as others read it: something to be done that nobody does.
const WORK: u64 = 1;

/// The same: the end of a turn. Nobody has to wake it.
const TURN: u64 = 2;

impl Outstanding {
    /// One more.
    pub(super) fn begin(&self) {
        // Relaxed: who has to see it looks after a fence.
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub(super) fn complete(&self) {
        // Release: pairs with the Acquire of `is_none`.
        self.number.fetch_sub(1, Ordering::Release);
    }

    pub(super) fn is_none(&self) -> bool {
        self.number.load(Ordering::Acquire) == 0
    }

    pub(super) fn close(&self) {
        self.is_closing.store(1, Ordering::Release);
    }

    /// Whether all that will ever be begun is complete.
    pub(super) fn is_over(&self) -> bool {
        // In this order: what was begun before the end came is seen.
        self.is_closing() && self.is_none()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire) == 1
    }
}

impl<E> Handover<E> {
    pub(super) fn new(engine: E) -> Self {
        Self { engine: Mutex::new(engine), bed: Bed::default() }
    }

    /// The engine, if nobody has it.
    pub(super) fn try_take(&self) -> Option<Holding<'_, E>> {
        match self.engine.try_lock() {
            Ok(engine) => Some(engine),
            Err(TryLockError::Poisoned(engine)) => Some(engine.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The engine, when whoever has it gives it back.
    pub(super) fn take(&self) -> Holding<'_, E> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the engine back; tells whether something is left to be done.
    pub(super) fn give_back(&self, engine: Holding<'_, E>, outstanding: &Outstanding) -> bool {
        drop(engine);
        self.announce(outstanding)
    }

    /// Has the thread look after what is outstanding, if it sleeps until there is something; tells whether there is. To
    /// be called after operations were begun, or the engine was let go.
    pub(super) fn announce(&self, outstanding: &Outstanding) -> bool {
        // Dekker: after what was done, before the look whether somebody sleeps for it; see `Bed`.
        fence(Ordering::SeqCst);
        let is_left = !outstanding.is_none();
        if self.bed.awaits() == WORK && (is_left || outstanding.is_closing()) {
            self.bed.rouse();
        }
        is_left
    }

    /// No more operations will come: the thread ends when there are none.
    pub(super) fn close(&self, outstanding: &Outstanding) {
        outstanding.close();
        // Dekker: before whoever completes the last one looks; see `announce`.
        fence(Ordering::SeqCst);
        self.bed.rouse();
    }

    /// Has the thread look again.
    pub(super) fn rouse(&self) {
        self.bed.rouse();
    }

    /// Sleeps until there is something to be done that nobody does, or the end has come.
    pub(super) fn rest(&self, outstanding: &Outstanding) {
        self.bed.sleep(WORK, || {
            let is_over = match outstanding.is_none() {
                true => outstanding.is_closing(),
                false => self.try_take().is_some(),
            };
            is_over.then_some(())
        });
    }

    /// Sleeps for a turn, or until it was roused and `is_over`.
    pub(super) fn doze(&self, turn: Duration, is_over: impl Fn() -> bool) {
        let until = Instant::now() + turn;
        self.bed.doze(TURN, Some(turn), || (is_over() || Instant::now() >= until).then_some(()));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread::{self, JoinHandle};

    use super::{Handover, Outstanding};

    type Shared = Arc<(Handover<()>, Outstanding)>;

    /// What the group's thread does, without its turns.
    fn run((handover, outstanding): &(Handover<()>, Outstanding)) {
        loop {
            if outstanding.is_over() {
                return;
            }
            match handover.try_take() {
                Some(_engine) if !outstanding.is_none() => outstanding.complete(),
                engine => {
                    drop(engine);
                    handover.rest(outstanding);
                }
            }
        }
    }

    /// In all interleavings with at most so many preemptions, the thread ends: what `body` leaves is done.
    fn check(preemptions: usize, body: fn(&Shared)) {
        model(preemptions, move |shared, thread| {
            body(shared);
            shared.0.close(&shared.1);
            thread.join().expect("it ends");
            assert!(shared.1.is_none());
        });
    }

    /// All interleavings of `body`, which joins it, with the thread.
    fn model(preemptions: usize, body: impl Fn(&Shared, JoinHandle<()>) + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let shared: Shared = Arc::new((Handover::new(()), Outstanding::default()));
            let own = Arc::clone(&shared);
            let thread = thread::spawn(move || run(&own));
            body(&shared, thread);
        });
    }

    #[test]
    fn loom_what_is_begun_while_the_thread_goes_to_sleep_is_done() {
        check(3, |shared| {
            let (handover, outstanding) = &**shared;
            for _ in 0..2 {
                outstanding.begin();
                handover.announce(outstanding);
            }
        });
    }

    #[test]
    fn loom_what_is_left_when_the_engine_is_given_back_is_done() {
        check(3, |shared| {
            let (handover, outstanding) = &**shared;
            outstanding.begin();
            outstanding.begin();
            if let Some(engine) = handover.try_take() {
                // One of them is complete, or both are if the thread was faster.
                if !outstanding.is_none() {
                    outstanding.complete();
                }
                handover.give_back(engine, outstanding);
            } else {
                handover.announce(outstanding);
            }
        });
    }

    #[test]
    fn loom_what_is_left_when_the_engine_was_only_found_free_is_done() {
        model(3, |shared, thread| {
            let (handover, outstanding) = &**shared;
            outstanding.begin();
            // The last that wakes the thread by itself.
            handover.close(outstanding);
            if let Some(engine) = handover.try_take() {
                // Whoever comes now finds it taken.
                thread::yield_now();
                handover.give_back(engine, outstanding);
            }
            thread.join().expect("it ends");
        });
    }

    #[test]
    fn loom_who_completes_the_last_one_after_the_end_lets_the_thread_go() {
        check(3, |shared| {
            let (handover, outstanding) = &**shared;
            outstanding.begin();
            let engine = handover.take();
            let own = Arc::clone(shared);
            let closing = thread::spawn(move || own.0.close(&own.1));
            if !outstanding.is_none() {
                outstanding.complete();
            }
            handover.give_back(engine, outstanding);
            closing.join().expect("it ends");
        });
    }
}
