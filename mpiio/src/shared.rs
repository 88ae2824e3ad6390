//! Accesses of one rank by the shared file pointer, and asking where it is. Before the first one it is tried, by one
//! thread, whether the pointer can be had: where it cannot be opened ROMIO goes on without it, or the MPI ends the job.

use std::ffi::c_int;

use svmio_adio::abi::{MpiFile, SUCCESS};
use svmio_adio::plug::Plug;
use svmio_adio::{Mpi, pointer};

use crate::entry::with_stock;
use crate::reading::{file_iread, file_read};
use crate::writing::{file_iwrite, file_write};

/// Runs `access` where the shared pointer of `file` is open, or can be opened. Otherwise the error handler has been
/// called on return.
///
/// # Safety
/// `file` is an open file.
unsafe fn with_pointer<A: Plug>(file: MpiFile, access: impl FnOnce() -> c_int) -> c_int {
    with_stock::<A>(|mpi| {
        if let Some(fd) = A::opened(file) {
            // SAFETY: an open file of the device's is ROMIO's structure.
            let code = unsafe { pointer::open_shared(mpi, fd, file) };
            svmio_adio::settle();
            if code != SUCCESS {
                return code;
            }
        }
        access()
    })
}

/// Asking where the shared pointer is, which `stock` carries out.
///
/// # Safety
/// `file` is an open file.
pub unsafe fn file_position_shared<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    unsafe { with_pointer::<A>(file, || file_write(file, stock)) }
}

/// A write by the shared pointer, which `stock` carries out.
///
/// # Safety
/// `file` is an open file.
pub unsafe fn file_write_shared<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    unsafe { with_pointer::<A>(file, || file_write(file, stock)) }
}

/// The same that does not block.
///
/// # Safety
/// `file` is an open file.
pub unsafe fn file_iwrite_shared<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    unsafe { with_pointer::<A>(file, || file_iwrite(file, stock)) }
}

/// A read by the shared pointer, which `stock` carries out.
///
/// # Safety
/// `file` is an open file.
pub unsafe fn file_read_shared<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    unsafe { with_pointer::<A>(file, || file_read(file, stock)) }
}

/// The same that does not block.
///
/// # Safety
/// `file` is an open file.
pub unsafe fn file_iread_shared<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    unsafe { with_pointer::<A>(file, || file_iread(file, stock)) }
}
