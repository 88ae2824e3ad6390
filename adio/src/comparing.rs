//! What all ranks of a file have to give the same of: compared without a wait that nothing ends.
//!
//! ROMIO compares by MPI's own collectives, which wait for a rank that is lost; and the ranks that find a difference leave
//! the others behind, waiting for them in the device. So the ranks compare before ROMIO hears of the call.

use std::ffi::c_int;

use crate::abi::Abi;
use crate::failure::{ErrorClass, Failure};
use crate::handle::{self, Handle};
use crate::layout::RomioFile;

/// That all ranks of a file give the same number.
///
/// # Errors
/// `MPI_ERR_NOT_SAME` where they do not, on all of them, with what `difference` says; that a rank is lost.
pub(crate) fn compare(
    handle: &Handle,
    number: i64,
    difference: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let [largest, inverse] = handle.team.maxima([number, !number])?;
    handle.asking.resume();
    // The largest is the smallest, too, where all are the same.
    if largest == !inverse {
        return Ok(());
    }
    let message = format!("{}: {}", handle.file.name(), difference());
    Err(handle.located(Failure::new(ErrorClass::NotSame, message)))
}

/// Before the ranks of the file `fd` set the mode of accesses: atomic or not.
///
/// # Errors
/// `MPI_ERR_NOT_SAME` where they want different ones, on all of them; that a rank is lost.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, and every rank of the file makes the same call.
pub unsafe fn before_mode<A: Abi>(fd: *const RomioFile<A>, is_atomic: c_int) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let Ok(handle) = handle::of(unsafe { &*fd }) else { return Ok(()) };
    let is_atomic = is_atomic != 0;
    compare(handle, is_atomic.into(), || {
        let mode = if is_atomic { "atomic" } else { "nonatomic" };
        format!("the ranks want different modes for it, this one the {mode} one")
    })
}
