//! Transfers that are handed over, and how their end is learnt.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::back_end::Remote;
use crate::callback;
use crate::error::{Error, Result};
use crate::memory::UserMemory;

/// Which way a transfer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From local memory to the remote place.
    Write,
    /// From the remote place to local memory; only where the fabric reads remotely.
    Read,
}

/// One transfer of a chain.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Which way.
    pub direction: Direction,
    /// This process's side. Where the fabric registers no user memory, it lies within a segment of this process.
    pub local: UserMemory,
    /// The other side.
    pub remote: Remote,
    /// Where in the remote memory, in bytes.
    pub offset: u64,
}

/// The end of a posted chain, to be tested, waited for, or told by a callback.
#[derive(Default)]
pub struct Completion {
    state: AtomicU8,
    error: OnceLock<Error>,
    callback: Mutex<Option<Callback>>,
}

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

const PENDING: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;

impl Completion {
    /// One whose end is to be tested or waited for.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One whose end is told to `callback`, on a thread of the back end: it must be short and must not wait.
    /// Where it panics, the log says so, and the back end goes on.
    #[must_use]
    pub fn calling(callback: impl FnOnce(Result<()>) + Send + 'static) -> Self {
        Self { callback: Mutex::new(Some(Box::new(callback))), ..Self::default() }
    }

    /// Whether the chain has ended; then with which result.
    #[must_use]
    pub fn test(&self) -> Option<Result<()>> {
        // Acquire: whoever sees the end sees the bytes that were read, and the error.
        match self.state.load(Ordering::Acquire) {
            PENDING => None,
            DONE => Some(Ok(())),
            _ => self.error.get().map(|error| Err(error.clone())),
        }
    }

    /// Whether its end is told to a callback. A back end that must not call the program where it learns of the end
    /// leaves that to another thread.
    pub(crate) fn calls_back(&self) -> bool {
        self.callback.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Ends it; called once, by the back end, after the last byte has arrived.
    pub fn finish(&self, result: Result<()>) {
        let state = match &result {
            Ok(()) => DONE,
            Err(error) => {
                // Set once only: `finish` is called once.
                let _ = self.error.set(error.clone());
                FAILED
            }
        };
        // Release: pairs with the load in `test`.
        self.state.store(state, Ordering::Release);
        let callback = self.callback.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(callback) = callback
            && callback::panics(|| callback(result))
        {
            tracing::error!("what was to be called at the end of a transfer panicked");
        }
    }
}

impl std::fmt::Debug for Completion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Completion").field("result", &self.test()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::Completion;
    use crate::Error;

    #[test]
    fn an_end_is_seen_by_testing_and_told_to_the_callback() {
        let (sender, told) = mpsc::channel();
        let completion = Completion::calling(move |result| sender.send(result.is_ok()).unwrap());
        assert!(completion.test().is_none());
        completion.finish(Ok(()));
        assert!(matches!(completion.test(), Some(Ok(()))));
        assert_eq!(told.try_recv(), Ok(true));
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn a_callback_that_panics_does_not_end_the_thread_that_calls_it() {
        let completion = Completion::calling(|_| panic!("the test says so"));
        completion.finish(Ok(()));
        assert!(matches!(completion.test(), Some(Ok(()))));
    }

    #[test]
    fn a_failure_keeps_its_error() {
        let completion = Completion::new();
        completion.finish(Err(Error::Misaligned { offset: 3 }));
        assert!(matches!(completion.test(), Some(Err(Error::Misaligned { offset: 3 }))));
    }
}
