//! Who waits in calls of the messenger, and so does work that others leave.
//!
//! Whoever finds something to copy shows it, and leaves it where somebody waits, who copies as well and need not be
//! woken for it; whoever stops waiting looks whether something was left. Each stores and then loads what the other
//! stores, with a sequentially consistent fence in between: one of them sees the other. Loom tries all interleavings,
//! below.

#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU32, Ordering, fence};

/// How many threads wait.
#[derive(Debug, Default)]
pub(super) struct Waiters(AtomicU32);

impl Waiters {
    /// One more.
    pub(super) fn enter(&self) {
        // Relaxed: it looks for work by itself.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less, who looks for what was left afterwards.
    pub(super) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether there are any; asked after what is left to them was shown.
    pub(super) fn take_over(&self) -> bool {
        fence(Ordering::SeqCst);
        self.are_there()
    }

    /// Whether there are any: a guess.
    pub(super) fn are_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};
    use loom::thread;

    use super::Waiters;

    #[test]
    fn loom_what_is_left_to_a_waiter_who_leaves_is_done_by_one_of_both() {
        loom::model(|| {
            let both = Arc::new((Waiters::default(), AtomicBool::new(false)));
            both.0.enter();
            let service = thread::spawn({
                let both = Arc::clone(&both);
                move || {
                    both.1.store(true, Ordering::Relaxed);
                    !both.0.take_over()
                }
            });
            both.0.leave();
            let found = both.1.load(Ordering::Relaxed);
            assert!(service.join().unwrap() || found);
        });
    }
}
