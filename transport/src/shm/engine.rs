//! The DMA engine: a thread that copies while the program goes on.
//!
//! Chains are carried out one after the other, in the order in which they were posted; a second thread would only
//! take the memory's bandwidth from the first. A chain ends early, with the error, when the peer of one of its
//! transfers is lost; the chains behind it are not concerned.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::dma::Completion;
use crate::error::{Error, Result};

use super::threads::{self, Thread};

/// What a chain consists of: one step for each transfer.
pub(super) type Chain<S> = Vec<S>;

/// Chains of `S` that wait for being carried out, and the thread that does it.
#[derive(Debug)]
pub(super) struct Engine<S> {
    state: Mutex<State<S>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct State<S> {
    queue: VecDeque<(Chain<S>, Arc<Completion>)>,
    thread: Option<Arc<Thread>>,
    is_closed: bool,
}

impl<S: Send + 'static> Engine<S> {
    /// One that has no thread yet.
    pub(super) fn new() -> Self {
        let state = State { queue: VecDeque::new(), thread: None, is_closed: false };
        Self { state: Mutex::new(state), arrived: Condvar::new() }
    }

    /// Hands a chain over. Where there is no thread yet, one is started, which runs `body`: it calls
    /// [`run`](Self::run).
    ///
    /// # Errors
    /// `System` where no thread can be had; `Ending` once it is closed.
    pub(super) fn post(
        &self,
        chain: Chain<S>,
        done: Arc<Completion>,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let mut state = self.state();
        if state.is_closed {
            return Err(closed());
        }
        if state.thread.is_none() {
            state.thread = Some(Arc::new(threads::start("dma", body)?));
        }
        state.queue.push_back((chain, done));
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Carries out what is posted until the engine is closed: `carry_out` for each step, then `finished` after each
    /// completion. What is still queued then ends with an error.
    pub(super) fn run(&self, carry_out: impl Fn(&S) -> Result<()>, finished: impl Fn()) {
        while let Some((chain, done)) = self.next() {
            let result = chain.iter().try_for_each(&carry_out);
            done.finish(result);
            finished();
        }
        let rest = std::mem::take(&mut self.state().queue);
        for (_, done) in rest {
            done.finish(Err(closed()));
            finished();
        }
    }

    fn next(&self) -> Option<(Chain<S>, Arc<Completion>)> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(next) = state.queue.pop_front() {
                return Some(next);
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Has the thread end, and waits until it has.
    pub(super) fn close(&self) {
        let thread = {
            let mut state = self.state();
            state.is_closed = true;
            state.thread.clone()
        };
        self.arrived.notify_all();
        if let Some(thread) = thread {
            thread.join();
        }
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> Error {
    Error::Ending { reason: "the fabric was closed".into() }
}
