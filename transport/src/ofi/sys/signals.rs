//! What signals do is the program's business, whatever a library's constructors think.

use std::mem::MaybeUninit;
use std::ptr;

/// How every signal is handled at some moment.
///
/// Loading libfabric loads the libraries of its providers, and Debian's libpsm2 and libinfinipath put handlers of
/// their own in place of SIGINT, SIGTERM and SIGSEGV from their constructors.
pub(super) struct Dispositions(Vec<(i32, libc::sigaction)>);

impl Dispositions {
    /// As they are now.
    pub(super) fn save() -> Self {
        let read = |signal| {
            let mut action = MaybeUninit::uninit();
            // SAFETY: only asks; `action` has room for the answer.
            let answer = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
            // SAFETY: the call succeeded, so it filled `action`.
            (answer == 0).then(|| (signal, unsafe { action.assume_init() }))
        };
        Self((1..32).filter_map(read).collect())
    }
}

impl Drop for Dispositions {
    fn drop(&mut self) {
        for (signal, action) in &self.0 {
            // SAFETY: puts in place what was in place before. SIGKILL and SIGSTOP refuse, which changes nothing.
            unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        }
    }
}
