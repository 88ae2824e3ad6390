//! How an operation ended, for the one that waits for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// No length: longer than any memory.
const OPEN: usize = usize::MAX;
const FAILED: usize = usize::MAX - 1;

/// The end of a send or receive: how many bytes, or why not.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The length, or one of the two above.
    length: AtomicUsize,
    error: OnceLock<Box<Error>>,
    is_told: AtomicBool,
    /// What is sent, where nobody else keeps it.
    kept: Vec<u8>,
}

impl Default for Outcome {
    fn default() -> Self {
        Self::keeping(Vec::new())
    }
}

impl Outcome {
    /// Of a send of these bytes, which are kept as long as anybody has to do with it.
    pub(super) fn keeping(bytes: Vec<u8>) -> Self {
        let (length, error, is_told) = (AtomicUsize::new(OPEN), OnceLock::new(), AtomicBool::new(false));
        Self { length, error, is_told, kept: bytes }
    }

    /// The bytes that it keeps.
    pub(super) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Of an operation that has ended.
    pub(super) fn of(result: Result<usize>) -> Self {
        let outcome = Self::default();
        outcome.set(result);
        outcome
    }

    /// Whether it has ended.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        // Acquire: pairs with the Release in `set`; what came with the message is seen.
        self.length.load(Ordering::Acquire) != OPEN
    }

    /// What came of it, once it has ended.
    #[inline]
    pub(super) fn get(&self) -> Option<Result<usize>> {
        // Acquire: as above.
        match self.length.load(Ordering::Acquire) {
            OPEN => None,
            FAILED => self.error.get().map(|error| Err((**error).clone())),
            length => Some(Ok(length)),
        }
    }

    /// Ends it. From then on nobody touches the operation's memory. A second end is ignored: whoever ends it has the
    /// link's turn.
    pub(super) fn set(&self, result: Result<usize>) {
        if self.has_ended() {
            return;
        }
        let length = result.unwrap_or_else(|error| {
            self.error.get_or_init(|| Box::new(error));
            FAILED
        });
        // Release: whoever sees the end sees what it ended with.
        self.length.store(length, Ordering::Release);
    }

    /// Takes note that whoever began it knows its end.
    pub(super) fn tell(&self) {
        // Relaxed, here and below: both are of the thread that began it.
        self.is_told.store(true, Ordering::Relaxed);
    }

    /// Whether whoever began it knows its end.
    pub(super) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }
}
