//! How many parts of a transfer are under way, counted by threads that post, complete and wait.

use crate::futex::{AtomicU32, Ordering};

/// Parts that have begun and not ended.
pub(super) struct Countdown(AtomicU32);

impl Countdown {
    /// None yet.
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// A part is about to begin; before anybody can end it.
    pub(super) fn begin(&self) {
        // Relaxed: whoever ends the part learns of it by other ways.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// A part has ended, or has not begun after all.
    pub(super) fn end(&self) {
        // Release: whoever sees that none is left sees what was done before.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Whether none is left.
    pub(super) fn is_over(&self) -> bool {
        self.left() == 0
    }

    /// Returns when none is left. Until then `until` is called, again and again, to return when what it is given says
    /// that a part has ended.
    ///
    /// # Errors
    /// What `until` says.
    pub(super) fn wait<E>(&self, mut until: impl FnMut(&dyn Fn() -> bool) -> Result<(), E>) -> Result<(), E> {
        loop {
            // Looked at once for both questions: the last part may end between two looks, and nothing changes after it.
            let left = self.left();
            if left == 0 {
                return Ok(());
            }
            until(&|| self.left() != left)?;
        }
    }

    fn left(&self) -> u32 {
        // Acquire: pairs with `end`.
        self.0.load(Ordering::Acquire)
    }
}

/// All interleavings: whoever waits for a change that has been would wait for ever, which loom reports.
#[cfg(all(test, loom))]
mod loom_tests {
    use std::convert::Infallible;

    use loom::sync::Arc;
    use loom::thread;

    use super::Countdown;

    fn wait(countdown: &Countdown) {
        let waited = countdown.wait(|has_changed| {
            while !has_changed() {
                thread::yield_now();
            }
            Ok::<(), Infallible>(())
        });
        assert!(waited.is_ok() && countdown.is_over());
    }

    #[test]
    fn loom_the_end_of_the_last_part_is_never_missed() {
        loom::model(|| {
            let countdown = Arc::new(Countdown::new());
            countdown.begin();
            countdown.begin();
            let other = Arc::clone(&countdown);
            let thread = thread::spawn(move || {
                other.end();
                other.end();
            });
            wait(&countdown);
            thread.join().unwrap();
        });
    }
}
