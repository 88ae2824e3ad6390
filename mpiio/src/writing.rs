//! Writes of one rank, those that do not block, and syncs, where MPI makes something else of what ROMIO was told, or
//! ROMIO of a shared pointer that it could not get at.

use std::ffi::c_int;

use svmio_adio::abi::MpiFile;
use svmio_adio::plug::Plug;
use svmio_adio::{Mpi, heard};

use crate::entry::with_stock;

/// A function of the file `file`, which `stock` carries out.
pub fn file_write<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    with_stock::<A>(|mpi| {
        let code = heard(mpi, file, || stock(mpi));
        svmio_adio::settle();
        code
    })
}

/// A write of one rank to the file `file` that does not block, which `stock` carries out.
///
/// # Safety
/// `file` is an open file.
pub unsafe fn file_iwrite<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    file_write::<A>(file, |mpi| unsafe { in_own_atomic_mode::<A>(file, || stock(mpi)) })
}

/// Runs the stock function of a nonblocking access to the file `file`, of whose atomic mode ROMIO is not to know: it
/// would block, and tell that a read has gone on behind the end of the file.
///
/// # Safety
/// `file` is an open file.
pub(crate) unsafe fn in_own_atomic_mode<A: Plug>(file: MpiFile, stock: impl FnOnce() -> c_int) -> c_int {
    match A::opened(file) {
        // SAFETY: an open file of the device's is ROMIO's structure.
        Some(fd) => unsafe { svmio_adio::in_own_atomic_mode(fd, stock) },
        None => stock(),
    }
}

/// The beginning of a collective write to the file `file` that does not block, which `stock` carries out.
///
/// # Safety
/// `file` is an open file, and every rank that opened it makes the same call.
pub unsafe fn file_write_by_all<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    file_write::<A>(file, |mpi| {
        if let Some(fd) = A::opened(file) {
            // SAFETY: an open file of the device's is ROMIO's structure; the caller vouches for the other ranks.
            unsafe { svmio_adio::note_collective_write(fd) };
        }
        stock(mpi)
    })
}

/// Defines the functions that write, but for collective ones, and `MPI_File_sync`, under both of their names, for the
/// family `$abi`.
#[macro_export]
macro_rules! export_write {
    ($abi:ty) => {
        $crate::export_read! { @functions $abi;
            MPI_File_write, PMPI_File_write, file_write:
                (buffer: *const c_void, count: c_int, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_write_at, PMPI_File_write_at, file_write:
                (offset: i64, buffer: *const c_void, count: c_int, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_write_shared, PMPI_File_write_shared, file_write_shared:
                (buffer: *const c_void, count: c_int, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_iwrite, PMPI_File_iwrite, file_iwrite:
                (buffer: *const c_void, count: c_int, datatype: Datatype<$abi>, request: *mut Request<$abi>);
            MPI_File_iwrite_at, PMPI_File_iwrite_at, file_iwrite:
                (offset: i64, buffer: *const c_void, count: c_int, datatype: Datatype<$abi>,
                 request: *mut Request<$abi>);
            MPI_File_iwrite_shared, PMPI_File_iwrite_shared, file_iwrite_shared:
                (buffer: *const c_void, count: c_int, datatype: Datatype<$abi>, request: *mut Request<$abi>);
            MPI_File_sync, PMPI_File_sync, file_write: ();
        }
    };
    // Those of MPI-4, whose counts are of the type `MPI_Count`.
    ($abi:ty, large) => {
        $crate::export_read! { @functions $abi;
            MPI_File_write_c, PMPI_File_write_c, file_write:
                (buffer: *const c_void, count: i64, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_write_at_c, PMPI_File_write_at_c, file_write:
                (offset: i64, buffer: *const c_void, count: i64, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_write_shared_c, PMPI_File_write_shared_c, file_write_shared:
                (buffer: *const c_void, count: i64, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_iwrite_c, PMPI_File_iwrite_c, file_iwrite:
                (buffer: *const c_void, count: i64, datatype: Datatype<$abi>, request: *mut Request<$abi>);
            MPI_File_iwrite_at_c, PMPI_File_iwrite_at_c, file_iwrite:
                (offset: i64, buffer: *const c_void, count: i64, datatype: Datatype<$abi>,
                 request: *mut Request<$abi>);
            MPI_File_iwrite_shared_c, PMPI_File_iwrite_shared_c, file_iwrite_shared:
                (buffer: *const c_void, count: i64, datatype: Datatype<$abi>, request: *mut Request<$abi>);
        }
    };
}

/// Defines the functions that begin a collective write and do not wait for it, under both of their names, for the family
/// `$abi`.
#[macro_export]
macro_rules! export_write_by_all {
    ($abi:ty) => {
        $crate::export_read! { @functions $abi;
            MPI_File_iwrite_all, PMPI_File_iwrite_all, file_write_by_all:
                (buffer: *const c_void, count: c_int, datatype: Datatype<$abi>, request: *mut Request<$abi>);
            MPI_File_iwrite_at_all, PMPI_File_iwrite_at_all, file_write_by_all:
                (offset: i64, buffer: *const c_void, count: c_int, datatype: Datatype<$abi>,
                 request: *mut Request<$abi>);
        }
    };
    // Those of MPI-4, whose counts are of the type `MPI_Count`.
    ($abi:ty, large) => {
        $crate::export_read! { @functions $abi;
            MPI_File_iwrite_all_c, PMPI_File_iwrite_all_c, file_write_by_all:
                (buffer: *const c_void, count: i64, datatype: Datatype<$abi>, request: *mut Request<$abi>);
            MPI_File_iwrite_at_all_c, PMPI_File_iwrite_at_all_c, file_write_by_all:
                (offset: i64, buffer: *const c_void, count: i64, datatype: Datatype<$abi>,
                 request: *mut Request<$abi>);
        }
    };
}
