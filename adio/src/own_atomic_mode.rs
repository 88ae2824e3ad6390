//! Nonblocking accesses in atomic mode.
//!
//! ROMIO has an access to bytes in a row block then, with locks of its own, and tells that all bytes asked for were
//! moved. The device's own accesses lock for themselves, blocking or not: so ROMIO does not hear of the mode meanwhile.

use std::ffi::c_int;

use crate::abi::Abi;
use crate::handle;
use crate::layout::RomioFile;

/// Runs the stock function of a nonblocking access to the file `fd`. Other threads that access it meanwhile do without
/// ROMIO's locks, too.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, of which nobody has references, and no rank sets the mode.
pub unsafe fn in_own_atomic_mode<A: Abi>(fd: *mut RomioFile<A>, stock: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file; the references are gone before ROMIO gets it.
    unsafe {
        if !handle::of(&*fd).is_ok_and(handle::Handle::is_atomic) {
            return stock();
        }
        (*fd).atomicity = 0;
        let code = stock();
        (*fd).atomicity = 1;
        code
    }
}
