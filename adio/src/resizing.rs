//! Sizes that all ranks of a file give, which have to be the same: compared without a wait that nothing ends.
//!
//! ROMIO has all ranks tell each other the size before it has the device set it, by MPI's own collectives, which wait
//! for a rank that is lost, and for one whose size ROMIO has refused before that. So the ranks compare it here, and
//! ROMIO then has nobody to ask but its own rank, or asks what all have said already.

use std::ffi::c_int;

use crate::abi::Abi;
use crate::calls::Mpi;
use crate::comparing;
use crate::failure::Failure;
use crate::handle::{self, Handle};
use crate::layout::RomioFile;

/// `MPI_File_set_size` by `stock`.
///
/// # Errors
/// `MPI_ERR_NOT_SAME` where the ranks give different sizes; that a rank is lost. ROMIO does not hear of the call then.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, of which nobody has references, and every rank of the file
/// makes the same call.
pub unsafe fn set_size<A: Abi>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    size: i64,
    stock: impl FnOnce() -> c_int,
) -> Result<c_int, Failure> {
    {
        // SAFETY: the caller vouches for the file.
        let Ok(handle) = handle::of(unsafe { &*fd }) else { return Ok(stock()) };
        compare(handle, size)?;
    }
    // SAFETY: the caller vouches for the file.
    let comm = std::mem::replace(unsafe { &mut (*fd).comm }, mpi.constants.comm_self);
    let code = stock();
    // SAFETY: as above; the file is still open.
    unsafe { (*fd).comm = comm };
    Ok(code)
}

/// Before rank 0 preallocates `size` bytes for all ranks of the file `fd`.
///
/// # Errors
/// `MPI_ERR_NOT_SAME` where the ranks give different sizes; what keeps a rank from giving away what it has written: on
/// all ranks.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, and every rank of the file makes the same call.
pub unsafe fn before_preallocation<A: Abi>(fd: *const RomioFile<A>, size: i64) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    let handle = handle::of(fd)?;
    compare(handle, size)?;
    Ok(handle.team.before_change(&handle.file)?)
}

/// After rank 0 has preallocated for all ranks of the file `fd`.
///
/// # Errors
/// What keeps a node from seeing it, on all ranks.
///
/// # Safety
/// As [`before_preallocation`].
pub unsafe fn after_preallocation<A: Abi>(fd: *const RomioFile<A>) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    let handle = handle::of(fd)?;
    Ok(handle.team.after_change(&handle.file)?)
}

/// That all ranks of a file give the same size.
///
/// # Errors
/// `MPI_ERR_NOT_SAME` where they do not, on all of them; that a rank is lost.
fn compare(handle: &Handle, size: i64) -> Result<(), Failure> {
    comparing::compare(handle, size, || {
        format!("the ranks give different sizes for it, this one {size} bytes")
    })
}
