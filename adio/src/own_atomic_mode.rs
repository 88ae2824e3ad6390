//! Nonblocking accesses in atomic mode.
//!
//! ROMIO has an access to bytes in a row block then, with locks of its own, and tells that all bytes asked for were
//! moved. The device's own accesses lock for themselves, blocking or not: so ROMIO does not hear of the mode meanwhile.
//!
//! Several threads may be in such calls at once: ROMIO hears of the mode again when the last one leaves. A thread that
//! asks for it meanwhile (`MPI_File_get_atomicity`) is told that the file is not in atomic mode.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use crate::abi::Abi;
use crate::handle;
use crate::layout::RomioFile;

/// Runs the stock function of a nonblocking access to the file `fd`. Other threads that access it meanwhile do without
/// ROMIO's locks, too.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, of which nobody has references, and no rank sets the mode.
pub unsafe fn in_own_atomic_mode<A: Abi>(fd: *mut RomioFile<A>, stock: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file, which stays open until the access has returned.
    let handle = unsafe { handle::shared(&*fd) };
    let Some(handle) = handle.ok().filter(|handle| handle.is_atomic()) else { return stock() };
    // SAFETY: ROMIO's structure, of which no references are held; this is the place of one integer.
    let atomicity = unsafe { &raw mut (*fd).atomicity };
    handle.without_romios.enter(|| {
        // SAFETY: as above; threads write there one after the other.
        unsafe { atomicity.write(0) }
    });
    let code = stock();
    handle.without_romios.leave(|| {
        // SAFETY: as above.
        unsafe { atomicity.write(1) }
    });
    code
}

/// How many threads are in calls for which ROMIO does not hear of a mode of a file.
#[derive(Debug, Default)]
pub(crate) struct WithoutRomios(Mutex<usize>);

impl WithoutRomios {
    /// One more; the first one runs `first` before any goes on.
    pub(crate) fn enter(&self, first: impl FnOnce()) {
        let mut threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *threads == 0 {
            first();
        }
        *threads += 1;
    }

    /// One less; the last one runs `last` before another one enters.
    pub(crate) fn leave(&self, last: impl FnOnce()) {
        let mut threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *threads -= 1;
        if *threads == 0 {
            last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_first_one_hides_the_mode_and_the_last_one_shows_it() {
        let (threads, is_shown) = (WithoutRomios::default(), Cell::new(true));
        let enter = || threads.enter(|| is_shown.set(false));
        let leave = || threads.leave(|| is_shown.set(true));
        for _ in 0..2 {
            enter();
            enter();
            leave();
            assert!(!is_shown.get(), "another thread is still in such a call");
            leave();
            assert!(is_shown.get());
        }
    }
}
