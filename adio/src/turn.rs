//! What one thread at a time may do with a file. The thread itself may come back: from within ROMIO error handlers of the
//! program's are called, which may use the same file.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    holder: Mutex<Option<ThreadId>>,
    is_free: Condvar,
}

impl Turn {
    /// Runs `body` when no other thread is in here.
    pub(crate) fn take<T>(&self, body: impl FnOnce() -> T) -> T {
        let own = thread::current().id();
        let holder = self.holder();
        if *holder == Some(own) {
            drop(holder);
            return body();
        }
        let mut holder = self
            .is_free
            .wait_while(holder, |holder| holder.is_some())
            .unwrap_or_else(PoisonError::into_inner);
        *holder = Some(own);
        drop(holder);
        let _ended = Ended(self);
        body()
    }

    fn holder(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives up the turn.
struct Ended<'t>(&'t Turn);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        *self.0.holder() = None;
        self.0.is_free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_it() {
        let (turn, is_taken, times) = (Turn::default(), AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        turn.take(|| {
                            assert!(!is_taken.swap(true, Ordering::SeqCst));
                            thread::yield_now();
                            is_taken.store(false, Ordering::SeqCst);
                            times.fetch_add(1, Ordering::SeqCst)
                        });
                    }
                });
            }
        });
        assert_eq!(times.into_inner(), 400);
    }

    #[test]
    fn who_has_it_comes_back_and_keeps_it() {
        let turn = Turn::default();
        turn.take(|| {
            assert_eq!(turn.take(|| 7), 7);
            assert!(turn.holder().is_some());
        });
        assert!(turn.holder().is_none());
    }
}
