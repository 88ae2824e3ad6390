//! What signals do in this process, and who may change it: one at a time of all the parts of this crate that do.
//!
//! Loading libfabric puts back what its providers' constructors have changed. Whoever else saved meanwhile would save
//! the constructors' handlers and put these back for good; a handler that was installed meanwhile would be gone, though
//! its owner takes it for installed.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// The turn to change them, or to save them and put them back, until the answer is dropped.
#[must_use = "dropped, it is somebody else's turn"]
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a signal does now; `None` where there is no such signal.
pub(crate) fn action(signal: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: only asks; `action` has room for the answer.
    let answer = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: the call succeeded, so it filled `action`.
    (answer == 0).then(|| unsafe { action.assume_init() })
}

/// Whether a signal does what it does by default: nobody ignores it, as `nohup` does with SIGHUP, or takes it.
#[must_use]
pub fn has_default_action(signal: i32) -> bool {
    action(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_DFL)
}
