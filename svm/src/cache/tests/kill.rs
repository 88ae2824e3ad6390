//! Makes a process kill itself at the n-th point where it may be killed.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static POINTS_LEFT: AtomicU32 = AtomicU32::new(0);

/// For the forked children only: the other tests run in threads of the same process.
pub(super) fn arm(point: u32) {
    POINTS_LEFT.store(point, Relaxed);
}

pub(in super::super) fn point() {
    if POINTS_LEFT.load(Relaxed) != 0 && POINTS_LEFT.fetch_sub(1, Relaxed) == 1 {
        // SAFETY: kills this process, at once.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
