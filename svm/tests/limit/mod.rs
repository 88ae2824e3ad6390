//! No process of a test waits for ever.

/// Has the kernel end this process, by SIGALRM, should it take longer than any test does: whoever waits for it goes on,
/// and hears of that.
pub(crate) fn end_in_time() {
    const SECONDS: u32 = 300;
    // SAFETY: nothing is demanded of whoever calls it, and nobody here has to do with this signal.
    unsafe { libc::alarm(SECONDS) };
}
