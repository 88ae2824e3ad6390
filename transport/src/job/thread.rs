//! Threads that take no signals: those are for the program's own.

use std::mem::MaybeUninit;
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// Runs `body` on a thread of its own, which has all signals blocked.
///
/// # Errors
/// [`Error::System`] where no thread can be had.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    // The new thread inherits the mask, so no signal can come to it even in its first moment.
    let before = block_all();
    let thread = std::thread::Builder::new().name(name.into()).spawn(body);
    restore(&before);
    thread.map_err(|problem| Error::system(format!("starting the thread {name}"), problem))
}

fn block_all() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both sets are written by the calls before they are read; these calls do not fail with these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn restore(before: &libc::sigset_t) {
    // SAFETY: a set that `pthread_sigmask` gave.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
