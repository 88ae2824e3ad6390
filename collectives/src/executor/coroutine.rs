//! A stack of its own for operations in the background: where one would wait it pauses, and whoever looks next, in any
//! thread, resumes it.
//!
//! So the same code serves both ways to wait, and what comes next after a wait is known without a state machine for
//! each operation.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{CoroutineResult, Yielder};
use svmio_transport::Error as FabricError;

use super::board::Awaited;
use super::error::Result;

/// Bytes of a stack, of which only what is touched takes memory: as much as a thread has, since operations may be
/// users' functions.
const STACK: usize = 8 << 20;

type Switch = Yielder<(), Option<Awaited>>;

/// A body on a stack of its own.
pub(super) struct Coroutine {
    /// None where it was left behind.
    inner: Option<corosensei::Coroutine<(), Option<Awaited>, ()>>,
}

// SAFETY: `new` takes bodies only that are `Send` and says what they may have on their stack while they pause; this
// crate's own code is the only one that makes any (`group::progress`). It pauses within operations of a group alone,
// whose frames hold the group, buffers, ranges, references to them and registrations of buffers, and no guards or
// thread's own values.
unsafe impl Send for Coroutine {}

/// What pauses the body that runs on a coroutine's stack.
#[derive(Debug)]
pub(super) struct Pause {
    switch: NonNull<Switch>,
    stack: Range<usize>,
    /// Whether the body has not ended.
    is_alive: Arc<AtomicBool>,
}

// SAFETY: `pause` does nothing unless it is called on the coroutine's own stack, which one thread at a time runs on.
unsafe impl Send for Pause {}
// SAFETY: as above.
unsafe impl Sync for Pause {}

impl Coroutine {
    /// One that will run `body`, which must catch its panics and pauses only where nothing is on its stack that belongs
    /// to one thread.
    ///
    /// # Errors
    /// The system's, where there is no memory for a stack.
    pub(super) fn new(body: impl FnOnce(Pause) + Send + 'static) -> Result<Self> {
        let stack = DefaultStack::new(STACK)
            .map_err(|problem| FabricError::system("making a stack for operations", problem))?;
        let range = stack.limit().get()..stack.base().get();
        let inner = corosensei::Coroutine::with_stack(stack, move |switch: &Switch, ()| {
            let is_alive = Arc::new(AtomicBool::new(true));
            body(Pause { switch: NonNull::from(switch), stack: range, is_alive: Arc::clone(&is_alive) });
            // Relaxed: it is read on this stack alone, or to find that it is not the reader's.
            is_alive.store(false, Ordering::Relaxed);
        });
        Ok(Self { inner: Some(inner) })
    }

    /// Runs the body until it pauses; returns what it awaits, if anything.
    pub(super) fn resume(&mut self) -> Option<Awaited> {
        match &mut self.inner {
            Some(inner) if !inner.done() => match inner.resume(()) {
                CoroutineResult::Yield(awaited) => awaited,
                CoroutineResult::Return(()) => None,
            },
            _ => None,
        }
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        // What has not ended stays for ever: others may be writing into memory that it lends.
        if let Some(inner) = self.inner.take_if(|inner| inner.started() && !inner.done()) {
            std::mem::forget(inner);
        }
    }
}

impl std::fmt::Debug for Coroutine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Coroutine").finish_non_exhaustive()
    }
}

impl Pause {
    /// Pauses, telling what is awaited, and returns when it was resumed: true. False where this is not the coroutine's
    /// stack: then nothing was done.
    // Not inlined: what the caller knows of its thread would be kept over the pause.
    #[inline(never)]
    pub(super) fn pause(&self, awaited: Option<Awaited>) -> bool {
        let here = 0_u8;
        let is_ours = self.is_alive.load(Ordering::Relaxed) && self.stack.contains(&(&raw const here).addr());
        if is_ours {
            // SAFETY: the body has not ended, so its stack, which holds the switch, is still there; and this runs on
            // that stack, so it is the body that pauses.
            unsafe { self.switch.as_ref() }.suspend(awaited);
        }
        is_ours
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::Coroutine;
    use crate::executor::board::{Awaited, Deed, Whom};

    fn awaited(number: u64) -> Option<Awaited> {
        Some(Awaited { whom: Whom::All, deed: Deed::Published, number })
    }

    #[test]
    fn it_goes_on_where_it_paused_in_whatever_thread() {
        let (told, hears) = mpsc::channel();
        let mut coroutine = Coroutine::new(move |pause| {
            for number in 1..=3 {
                assert!(pause.pause(awaited(number)));
            }
            // Elsewhere it has no effect.
            thread::scope(|scope| assert!(!scope.spawn(|| pause.pause(None)).join().unwrap_or(true)));
            told.send("ended").ok();
        })
        .expect("memory for a stack");
        for number in 1..=3 {
            let resumed = thread::spawn(move || (coroutine.resume(), coroutine));
            let found;
            (found, coroutine) = resumed.join().expect("it only pauses");
            assert_eq!(found, awaited(number));
        }
        assert_eq!(coroutine.resume(), None);
        assert_eq!(hears.recv(), Ok("ended"));
        assert_eq!(coroutine.resume(), None);
    }
}
