//! Setting the size of a file.

use std::ffi::c_int;

use svmio_adio::abi::MpiFile;
use svmio_adio::plug::Plug;
use svmio_adio::{Mpi, heard};

use crate::entry::with_stock;

/// `MPI_File_set_size` by `stock`.
///
/// # Safety
/// `file` is an open file, and every rank that opened it makes the same call.
pub unsafe fn file_set_size<A: Plug>(
    file: MpiFile,
    size: i64,
    stock: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        let Some(fd) = A::opened(file) else { return stock(mpi) };
        // SAFETY: an open file of the device's is ROMIO's structure; the caller vouches for the other ranks.
        let code = unsafe { svmio_adio::set_size(mpi, fd, size, || heard(mpi, file, || stock(mpi))) };
        code.unwrap_or_else(|failure| mpi.report_on(file, failure.to_code(mpi)))
    })
}

/// Defines `MPI_File_set_size`, under both of its names, for the family `$abi`.
#[macro_export]
macro_rules! export_set_size {
    ($abi:ty) => {
        $crate::export_set_size!(@one $abi; MPI_File_set_size);
        $crate::export_set_size!(@one $abi; PMPI_File_set_size);
    };
    (@one $abi:ty; $name:ident) => {
        #[doc = concat!("`", stringify!($name), "` of MPI-3.1.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: MpiFile, size: i64) -> c_int {
            type Function = unsafe extern "C" fn(MpiFile, i64) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            let stock = |mpi: &Mpi<$abi>| {
                // SAFETY: the type is that of the function in mpi.h.
                let stock = STOCK.get_or_init(|| unsafe { mpi.stock("PMPI_File_set_size\0") });
                let Some(stock) = stock else { return mpi.missing("PMPI_File_set_size") };
                // SAFETY: the caller's arguments.
                unsafe { stock(file, size) }
            };
            // SAFETY: the caller's file; setting the size is collective.
            unsafe { $crate::file_set_size::<$abi>(file, size, stock) }
        }
    };
}
