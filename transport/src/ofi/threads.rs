//! Threads that serve beside the program, and are not troubled with its signals.

use std::mem::MaybeUninit;
use std::ptr;
use std::thread::{self, JoinHandle};

use crate::error::{Error, Result};

/// Runs `body` on a thread of its own, with all signals blocked: the program's handlers expect the program's threads.
///
/// # Errors
/// `System`.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let _blocked = Blocked::all();
    // The kernel keeps 15 bytes of a name.
    let name = name.chars().take(15).collect();
    thread::Builder::new()
        .name(name)
        .spawn(body)
        .map_err(|problem| Error::system("starting a thread", problem))
}

/// All signals blocked for this thread, and for those that it starts meanwhile.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> Self {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: fills one set, hands it over, and has the other filled; with these arguments neither fails.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: puts back what was there.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}
