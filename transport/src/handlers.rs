//! Who may change what signals do, in this process: one at a time of all the parts of this crate that do.
//!
//! Loading libfabric puts back what its providers' constructors have changed. Whoever else saved meanwhile would save
//! the constructors' handlers and put these back for good; a handler that was installed meanwhile would be gone, though
//! its owner takes it for installed.

use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// The turn to change them, or to save them and put them back, until the answer is dropped.
#[must_use = "dropped, it is somebody else's turn"]
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
