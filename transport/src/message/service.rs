//! The thread that goes on with messages while the program computes: started at most once, ended once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::back_end::Service;
use crate::error::Result;

/// A thread that is there once somebody needed it.
#[derive(Default)]
pub(super) struct ServiceThread {
    state: Mutex<State>,
    /// Whether nothing is left to start: the one word that calls look at.
    is_settled: AtomicBool,
}

#[derive(Default)]
enum State {
    #[default]
    Absent,
    Running(Box<dyn Service>),
    /// It has ended, or ends, and none is started any more.
    Ended,
}

impl ServiceThread {
    /// Starts it by `spawn`, unless it was started or ended before. Where that fails, the next call tries again.
    ///
    /// # Errors
    /// Those of `spawn`.
    #[inline]
    pub(super) fn start(&self, spawn: impl FnOnce() -> Result<Box<dyn Service>>) -> Result<()> {
        // Relaxed: whoever finds it settled has nothing to do here.
        if self.is_settled.load(Ordering::Relaxed) { Ok(()) } else { self.start_slowly(spawn) }
    }

    #[cold]
    fn start_slowly(&self, spawn: impl FnOnce() -> Result<Box<dyn Service>>) -> Result<()> {
        let mut state = self.state();
        if matches!(*state, State::Absent) {
            *state = State::Running(spawn()?);
        }
        self.is_settled.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The thread, for the caller to end it, if there is one. None is started from then on.
    pub(super) fn end(&self) -> Option<Box<dyn Service>> {
        let mut state = self.state();
        self.is_settled.store(true, Ordering::Relaxed);
        match std::mem::replace(&mut *state, State::Ended) {
            State::Running(service) => Some(service),
            State::Absent | State::Ended => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::ServiceThread;
    use crate::back_end::Service;
    use crate::error::Error;

    struct Nothing;

    impl Service for Nothing {
        fn join(self: Box<Self>) {}
    }

    #[test]
    fn a_thread_that_could_not_be_had_is_asked_for_again() {
        let thread = ServiceThread::default();
        let error = || Error::system("starting a thread", std::io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(thread.start(|| Err(error())).is_err());
        let mut count = 0;
        for _ in 0..3 {
            thread
                .start(|| {
                    count += 1;
                    Ok(Box::new(Nothing))
                })
                .unwrap();
        }
        assert_eq!(count, 1);
        assert!(thread.end().is_some());
    }

    #[test]
    fn none_is_started_once_it_was_ended() {
        let thread = ServiceThread::default();
        assert!(thread.end().is_none());
        thread.start(|| unreachable!("it was ended before")).unwrap();
        assert!(thread.end().is_none());
    }
}
