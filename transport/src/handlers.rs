//! What signals do in this process, and who may change it: one at a time of all the parts of this crate that do.
//!
//! Loading libfabric puts back what its providers' constructors have changed. Whoever else saved meanwhile would save
//! the constructors' handlers and put these back for good; a handler that was installed meanwhile would be gone, though
//! its owner takes it for installed.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::{flag, low_level};

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

/// Ends this process by a signal, so that its status tells. The first process of a container, to which signals do
/// nothing by default, exits with the status by which a shell tells of that: 128 and the signal's number.
pub fn end_by(signal: i32) -> ! {
    if !is_first() {
        // A signal that does nothing by default, or another reason why it came back, ends it below.
        let _ = low_level::emulate_default_handler(signal);
    }
    std::process::exit(128 + signal);
}

/// Has a signal that ends processes by default do so whenever `applies` is set, to the first process of a container,
/// too. As long as it is not, the signal does nothing by itself.
///
/// # Errors
/// What the system says where the handler cannot be installed.
pub fn register_ending(signal: i32, applies: Arc<AtomicBool>) -> io::Result<()> {
    let registered = if is_first() {
        flag::register_conditional_shutdown(signal, 128 + signal, applies)
    } else {
        flag::register_conditional_default(signal, applies)
    };
    registered.map(drop)
}

/// Whether this is the first process of a container, and its other processes' reaper.
fn is_first() -> bool {
    std::process::id() == 1
}
