//! Opening a file to append: its pointers are at its end then.
//!
//! Where a rank's shared pointer cannot be had, ROMIO keeps the others waiting, or its MPI ends the job. So ROMIO opens
//! files as if nobody wanted to append, and the pointer is moved when all ranks have it.

use std::ffi::c_int;

use crate::abi::{Abi, MpiFile, SUCCESS, amode};
use crate::calls::Mpi;
use crate::layout::RomioFile;
use crate::opening;
use crate::pointer;
use crate::shared_pointer;

/// Sets the shared file pointer of `file`, which was just opened to append, to where the individual ones are: at the
/// end. Error handlers have been called on return.
///
/// # Safety
/// `fd` is ROMIO's structure of the device's file `file`, of which nobody has references, and every rank of it makes
/// the same call.
pub(crate) unsafe fn to_the_end<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>, file: MpiFile) -> c_int {
    // SAFETY: the caller vouches for the file.
    let opened = unsafe { agreed(mpi, fd, pointer::open_shared(mpi, fd, file)) };
    if opened != SUCCESS {
        return opened;
    }
    // SAFETY: as above; nobody else knows the file yet.
    unsafe {
        // In sequential mode programs may not do what opening does without asking.
        let access_mode = (*fd).access_mode;
        (*fd).access_mode &= !amode::SEQUENTIAL;
        let code = mpi.file_seek_shared(file, (*fd).fp_ind);
        (*fd).access_mode = access_mode;
        agreed(mpi, fd, code)
    }
}

/// Makes the error of one rank one of all. The others' error handlers are called: those of files without a handle, as
/// for all that keeps a file from being opened.
///
/// # Safety
/// As [`to_the_end`].
unsafe fn agreed<A: Abi>(mpi: &Mpi<A>, fd: *const RomioFile<A>, mine: c_int) -> c_int {
    shared_pointer::settle();
    // SAFETY: the caller vouches for the file.
    let agreed = unsafe { opening::agreed(mpi, fd, mine) };
    if agreed == mine { mine } else { mpi.report(agreed) }
}
