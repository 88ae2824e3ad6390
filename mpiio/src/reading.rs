//! Reads of one rank, and those that do not block, where MPI makes something else of what ROMIO was told, or ROMIO of a
//! shared pointer that it could not get at. In atomic mode it has nonblocking reads of bytes in a row block, and tells
//! that all bytes asked for were read, also where the file ends before.

use std::ffi::c_int;

use svmio_adio::abi::MpiFile;
use svmio_adio::plug::Plug;
use svmio_adio::{Mpi, heard};

use crate::entry::with_stock;
use crate::writing::in_own_atomic_mode;

/// A read of one rank from the file `file` that blocks, or any collective one that does not, which `stock` carries out.
pub fn file_read<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    with_stock::<A>(|mpi| {
        let code = heard(mpi, file, || stock(mpi));
        svmio_adio::settle();
        code
    })
}

/// A read of one rank that does not block, which `stock` carries out.
///
/// # Safety
/// `file` is an open file.
pub unsafe fn file_iread<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    file_read::<A>(file, |mpi| unsafe { in_own_atomic_mode::<A>(file, || stock(mpi)) })
}

/// Defines the functions that read, but for collective ones that block, under both of their names, for the family
/// `$abi`.
#[macro_export]
macro_rules! export_read {
    ($abi:ty) => {
        $crate::export_read! { @functions $abi;
            MPI_File_read, PMPI_File_read, file_read:
                (buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_read_at, PMPI_File_read_at, file_read:
                (offset: i64, buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_read_shared, PMPI_File_read_shared, file_read_shared:
                (buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_iread_all, PMPI_File_iread_all, file_read:
                (buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>, request: *mut Request<$abi>);
            MPI_File_iread_at_all, PMPI_File_iread_at_all, file_read:
                (offset: i64, buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>,
                 request: *mut Request<$abi>);
            MPI_File_iread, PMPI_File_iread, file_iread:
                (buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>, request: *mut Request<$abi>);
            MPI_File_iread_at, PMPI_File_iread_at, file_iread:
                (offset: i64, buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>,
                 request: *mut Request<$abi>);
            MPI_File_iread_shared, PMPI_File_iread_shared, file_iread_shared:
                (buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>, request: *mut Request<$abi>);
        }
    };
    // Those of MPI-4, whose counts are of the type `MPI_Count`.
    ($abi:ty, large) => {
        $crate::export_read! { @functions $abi;
            MPI_File_read_c, PMPI_File_read_c, file_read:
                (buffer: *mut c_void, count: i64, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_read_at_c, PMPI_File_read_at_c, file_read:
                (offset: i64, buffer: *mut c_void, count: i64, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_read_shared_c, PMPI_File_read_shared_c, file_read_shared:
                (buffer: *mut c_void, count: i64, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_iread_all_c, PMPI_File_iread_all_c, file_read:
                (buffer: *mut c_void, count: i64, datatype: Datatype<$abi>, request: *mut Request<$abi>);
            MPI_File_iread_at_all_c, PMPI_File_iread_at_all_c, file_read:
                (offset: i64, buffer: *mut c_void, count: i64, datatype: Datatype<$abi>,
                 request: *mut Request<$abi>);
            MPI_File_iread_c, PMPI_File_iread_c, file_iread:
                (buffer: *mut c_void, count: i64, datatype: Datatype<$abi>, request: *mut Request<$abi>);
            MPI_File_iread_at_c, PMPI_File_iread_at_c, file_iread:
                (offset: i64, buffer: *mut c_void, count: i64, datatype: Datatype<$abi>,
                 request: *mut Request<$abi>);
            MPI_File_iread_shared_c, PMPI_File_iread_shared_c, file_iread_shared:
                (buffer: *mut c_void, count: i64, datatype: Datatype<$abi>, request: *mut Request<$abi>);
        }
    };
    (@functions $abi:ty; $($name:ident, $profiled:ident, $entry:ident: $arguments:tt;)*) => {$(
        $crate::export_read!(@one $abi; $name, $profiled, $entry, $arguments);
        $crate::export_read!(@one $abi; $profiled, $profiled, $entry, $arguments);
    )*};
    (@one $abi:ty; $name:ident, $profiled:ident, $entry:ident, ($($argument:ident: $kind:ty),*)) => {
        #[doc = concat!("`", stringify!($name), "` of MPI.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: MpiFile, $($argument: $kind),*) -> c_int {
            type Function = unsafe extern "C" fn(MpiFile, $($kind),*) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            let stock = |mpi: &Mpi<$abi>| {
                // SAFETY: the type is that of the function in mpi.h.
                let stock = STOCK.get_or_init(|| unsafe { mpi.stock(concat!(stringify!($profiled), "\0")) });
                let Some(stock) = stock else { return mpi.missing(stringify!($profiled)) };
                // SAFETY: the caller's arguments.
                unsafe { stock(file, $($argument),*) }
            };
            // SAFETY: the caller's file.
            unsafe { $crate::$entry::<$abi>(file, stock) }
        }
    };
}
