//! What was begun, as the application holds it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use svmio_transport::futex::{self, AtomicU32, fence};

use super::engine::Engine;
use super::handover::Holding;
use super::{Backlog, Shared, Task};
use crate::executor::error::{Error, Result};
use crate::executor::group::Group;
use crate::executor::patience::{NAP, Polled};

/// How often a core is given away before sleeping for who has the engine.
const TURNS: u32 = 32;

/// An operation that goes on in the background, with its buffers.
///
/// Dropped before it is complete, the operation goes on, and its buffers are freed when it is complete.
#[derive(Debug)]
#[must_use = "buffers come back by `wait`"]
pub struct Request<B> {
    shared: Arc<Shared>,
    completion: Arc<Completion<B>>,
    meanwhile: Option<fn()>,
}

/// Where a task leaves what came of it.
#[derive(Debug)]
pub(super) struct Completion<B> {
    /// [`PENDING`], [`AWAITED`], or [`DONE`].
    state: AtomicU32,
    outcome: Mutex<Option<Result<B>>>,
}

const PENDING: u32 = 0;
/// Somebody sleeps for it.
const AWAITED: u32 = 1;
const DONE: u32 = 2;

impl<B> Default for Completion<B> {
    fn default() -> Self {
        Self { state: AtomicU32::new(PENDING), outcome: Mutex::new(None) }
    }
}

impl<B> Completion<B> {
    fn is_done(&self) -> bool {
        // Acquire: pairs with the Release of `complete`.
        self.state.load(Ordering::Acquire) == DONE
    }

    fn complete(&self, outcome: Result<B>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        // Release: who sees it sees what the operation did.
        if self.state.swap(DONE, Ordering::AcqRel) == AWAITED {
            futex::wake_all(&self.state);
        }
    }

    /// Sleeps until it is done, or, where there is something to be done meanwhile, a little.
    fn sleep(&self, has_to_look: bool) {
        // It fails where it is awaited already, or done.
        let _ = self.state.compare_exchange(PENDING, AWAITED, Ordering::AcqRel, Ordering::Acquire);
        futex::wait(&self.state, AWAITED, has_to_look.then_some(NAP));
    }

    fn take(&self) -> Result<B> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome.unwrap_or(Err(Error::Panicked))
    }
}

/// What does `work` and leaves its buffers with `completion`.
pub(super) fn task<B: Send + 'static>(
    backlog: Arc<Backlog>,
    completion: Arc<Completion<B>>,
    buffers: B,
    work: impl FnOnce(&mut Group, &mut B) -> Result<()> + Send + 'static,
) -> Task {
    Box::new(move |group| {
        let mut buffers = buffers;
        let (done, has_begun) = match group {
            Ok(group) => {
                let done = catch_unwind(AssertUnwindSafe(|| work(group, &mut buffers)));
                (done.unwrap_or(Err(Error::Panicked)), true)
            }
            Err(error) => (Err(error), false),
        };
        let outcome = match done {
            Ok(()) => Ok(buffers),
            Err(error) => {
                // Another member may be writing into what it was lent.
                if has_begun {
                    std::mem::forget(buffers);
                }
                Err(error)
            }
        };
        let result = outcome.as_ref().map(|_| ()).map_err(Error::clone);
        // Before it shows: who saw the last request complete finds nothing outstanding.
        backlog.outstanding.complete();
        completion.complete(outcome);
        result
    })
}

impl<B> Request<B> {
    pub(super) fn new(shared: Arc<Shared>, completion: Arc<Completion<B>>, meanwhile: Option<fn()>) -> Self {
        Self { shared, completion, meanwhile }
    }

    /// Whether the operation is complete, with or without an error. Takes it further where that needs no waiting.
    #[must_use]
    pub fn test(&self) -> bool {
        if !self.completion.is_done() {
            self.shared.visit();
            self.shared.advance_once();
        }
        self.completion.is_done()
    }

    /// Returns the buffers when the operation is complete.
    ///
    /// # Errors
    /// Those of the operation that waits, [`Error::Panicked`], or that of an operation before it in the same group.
    /// After an error, buffers of an operation that had begun do not come back and are never freed: another member may
    /// be copying to or from them.
    pub fn wait(self) -> Result<B> {
        self.wait_until_done();
        self.completion.take()
    }

    /// Returns when the operation is complete, with or without an error: [`wait`](Self::wait) tells.
    pub fn wait_until_done(&self) {
        while !self.completion.is_done() {
            self.shared.wait_on(&self.completion, self.meanwhile);
        }
    }
}

impl Shared {
    /// Waits a while for what may complete this: with the engine in hand, or for whoever has it.
    fn wait_on<B>(&self, completion: &Completion<B>, meanwhile: Option<fn()>) {
        self.visit();
        match self.handover.try_take() {
            Some(engine) => self.wait_with(engine, completion, meanwhile),
            None => self.wait_for_engine(completion, meanwhile),
        }
    }

    fn wait_with<B>(
        &self,
        mut engine: Holding<'_, Engine>,
        completion: &Completion<B>,
        meanwhile: Option<fn()>,
    ) {
        loop {
            engine.advance();
            let Some(awaited) = engine.awaited.filter(|_| !completion.is_done()) else { break };
            if engine.poll(&self.board, awaited, meanwhile) == Polled::Ready {
                continue;
            }
            if engine.asleep_for.is_some() {
                // The thread lies where this one would, and wakes for the same.
                // Relaxed: the thread looks with the engine in hand.
                self.sleepers.fetch_add(1, Ordering::Relaxed);
                self.leave(engine);
                completion.sleep(meanwhile.is_some());
                self.sleepers.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            let go_on = || {
                if let Some(meanwhile) = meanwhile {
                    meanwhile();
                }
                self.check(awaited)
            };
            // Of an error, the operation finds out by itself.
            let _ = self.board.sleep(awaited, meanwhile.map(|_| NAP), go_on);
        }
        self.leave(engine);
    }

    fn wait_for_engine<B>(&self, completion: &Completion<B>, meanwhile: Option<fn()>) {
        // Given back, not dropped: it was taken for a moment, in which the thread may have gone to sleep because of that.
        let outstanding = &self.backlog.outstanding;
        let is_free = || match self.handover.try_take() {
            Some(engine) => {
                self.handover.give_back(engine, outstanding);
                true
            }
            None => false,
        };
        let is_over = || completion.is_done() || is_free();
        for _ in 0..TURNS {
            if is_over() {
                return;
            }
            if let Some(meanwhile) = meanwhile {
                meanwhile();
            }
            std::thread::yield_now();
        }
        // Relaxed: the fence orders it.
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Dekker: after the announcement, before the look; see `leave`.
        fence(Ordering::SeqCst);
        if !is_over() {
            completion.sleep(meanwhile.is_some());
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
