//! How an operation ended, for the one that waits for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(all(test, loom)))]
use std::sync::atomic::AtomicUsize;

#[cfg(all(test, loom))]
use loom::sync::atomic::AtomicUsize;

use crate::error::{Error, Result};

/// No length: longer than any memory.
const OPEN: usize = usize::MAX;
const FAILED: usize = usize::MAX - 1;
/// Still open, and ended by nobody but who has the link's turn.
const LENT: usize = usize::MAX - 2;

/// The end of a send or receive: how many bytes, or why not.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The length, or one of the above.
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
        !matches!(self.length.load(Ordering::Acquire), OPEN | LENT)
    }

    /// What came of it, once it has ended.
    #[inline]
    pub(super) fn get(&self) -> Option<Result<usize>> {
        // Acquire: as above.
        match self.length.load(Ordering::Acquire) {
            OPEN | LENT => None,
            FAILED => self.error.get().map(|error| Err((**error).clone())),
            length => Some(Ok(length)),
        }
    }

    /// Ends it. From then on nobody touches the operation's memory. A second end is ignored. To be called with the
    /// link's turn.
    pub(super) fn set(&self, result: Result<usize>) {
        let length = result.unwrap_or_else(|error| {
            self.error.get_or_init(|| Box::new(error));
            FAILED
        });
        // Lending takes the turn, too, so this is only in vain where it has ended.
        if self.change(OPEN, length).is_err() {
            let _ = self.change(LENT, length);
        }
    }

    /// Ends it well, unless it has ended or is [lent](Self::lend): by whoever began it, once the peer has told that it
    /// has all `length` bytes. The turn is not needed.
    #[inline]
    pub(super) fn set_unless_lent(&self, length: usize) {
        let _ = self.change(OPEN, length);
    }

    /// Has nobody end it but who has the link's turn, since somebody of this process is about to use the operation's
    /// memory. Returns whether that may be: not, once it has ended. To be called with the turn.
    pub(super) fn lend(&self) -> bool {
        match self.change(OPEN, LENT) {
            Ok(_) => true,
            Err(found) => found == LENT,
        }
    }

    fn change(&self, from: usize, to: usize) -> std::result::Result<usize, usize> {
        // Release: whoever sees the end sees what it ended with. Acquire where it has ended already, as in `get`.
        self.length.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
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

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Outcome;
    use crate::error::Error;

    fn failure() -> Error {
        Error::Ending { reason: "a test".into() }
    }

    #[test]
    fn the_first_end_stays() {
        let outcome = Outcome::default();
        assert!(!outcome.has_ended() && outcome.get().is_none());
        outcome.set(Ok(3));
        outcome.set(Err(failure()));
        outcome.set_unless_lent(5);
        assert!(outcome.has_ended());
        assert!(matches!(outcome.get(), Some(Ok(3))));
    }

    #[test]
    fn what_is_lent_is_ended_with_the_turn_only() {
        let outcome = Outcome::default();
        assert!(outcome.lend() && outcome.lend());
        outcome.set_unless_lent(5);
        assert!(!outcome.has_ended() && outcome.get().is_none());
        outcome.set(Err(failure()));
        assert!(matches!(outcome.get(), Some(Err(Error::Ending { .. }))));
        assert!(!outcome.lend());
    }

    #[test]
    fn what_has_ended_is_not_lent() {
        let outcome = Outcome::default();
        outcome.set_unless_lent(5);
        assert!(!outcome.lend());
        outcome.set(Err(failure()));
        assert!(matches!(outcome.get(), Some(Ok(5))));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    use super::super::ends::{End, store};
    use super::Outcome;

    struct Send {
        outcome: Outcome,
        told: AtomicU64,
        memory: UnsafeCell<u8>,
    }

    // SAFETY: loom finds who reads and writes the cell at the same time.
    unsafe impl Sync for Send {}

    /// The peer reads the memory and tells the end; a thread with the turn reads it as well if it may, and ends the
    /// operation; the program changes the memory once it has ended.
    #[test]
    fn loom_nobody_uses_the_memory_of_a_send_that_has_ended() {
        loom::model(|| {
            let send = Arc::new(Send {
                outcome: Outcome::default(),
                told: AtomicU64::new(0),
                memory: UnsafeCell::new(1),
            });
            let read = |send: &Send| {
                // SAFETY: as above.
                send.memory.with(|memory| unsafe { *memory })
            };
            let with_turn = thread::spawn({
                let send = Arc::clone(&send);
                move || {
                    if send.outcome.lend() {
                        assert_eq!(read(&send), 1);
                        send.outcome.set(Ok(1));
                    }
                }
            });
            let peer = thread::spawn({
                let send = Arc::clone(&send);
                move || {
                    assert_eq!(read(&send), 1);
                    store(&send.told, 7);
                }
            });
            let end = End::at(&send.told, 7, 1);
            // Nobody ends it before the peer has told.
            while !end.is_told() {
                thread::yield_now();
            }
            send.outcome.set_unless_lent(end.length);
            while !send.outcome.has_ended() {
                thread::yield_now();
            }
            // SAFETY: as above.
            send.memory.with_mut(|memory| unsafe { *memory = 2 });
            with_turn.join().unwrap();
            peer.join().unwrap();
        });
    }
}
