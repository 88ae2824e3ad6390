//! The individual file pointer, and what it is in the file: our own account of them.

use std::ffi::c_int;

use svmio_adio::abi::{MpiFile, SEEK_SET, SUCCESS};
use svmio_adio::layout::RomioFile;
use svmio_adio::plug::Plug;
use svmio_adio::{Failure, Mpi, heard, pointer};

use crate::entry::with_stock;

/// `MPI_File_seek` by `stock`, which is given an offset and from where it is counted.
///
/// # Safety
/// `file` is an open file.
pub unsafe fn file_seek<A: Plug>(
    file: MpiFile,
    offset: i64,
    whence: c_int,
    stock: impl FnOnce(&Mpi<A>, i64, c_int) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        let Some(fd) = A::opened(file) else { return stock(mpi, offset, whence) };
        // SAFETY: an open file of the device's is ROMIO's structure.
        match unsafe { pointer::target(mpi, fd, offset, whence) } {
            Ok(target) => heard(mpi, file, || stock(mpi, target, SEEK_SET)),
            Err(failure) => mpi.report_on(file, failure.to_code(mpi)),
        }
    })
}

/// `MPI_File_get_position`, by `stock` for files that are not the device's.
///
/// # Safety
/// `file` is an open file, and `offset` valid for a write.
pub unsafe fn file_get_position<A: Plug>(
    file: MpiFile,
    offset: *mut i64,
    stock: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    // SAFETY: an open file of the device's is ROMIO's structure.
    let position = |mpi: &Mpi<A>, fd: *mut RomioFile<A>| unsafe { pointer::position(mpi, fd) };
    // SAFETY: the caller vouches for the place.
    unsafe { told(file, offset, position, stock) }
}

/// `MPI_File_get_byte_offset`, by `stock` for files that are not the device's.
///
/// # Safety
/// `file` is an open file, and `displacement` valid for a write.
pub unsafe fn file_get_byte_offset<A: Plug>(
    file: MpiFile,
    offset: i64,
    displacement: *mut i64,
    stock: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    // SAFETY: an open file of the device's is ROMIO's structure.
    let place = |mpi: &Mpi<A>, fd: *mut RomioFile<A>| unsafe { pointer::byte_offset(mpi, fd, offset) };
    // SAFETY: the caller vouches for the place.
    unsafe { told(file, displacement, place, stock) }
}

/// # Safety
/// `to` is valid for a write.
unsafe fn told<A: Plug>(
    file: MpiFile,
    to: *mut i64,
    own: impl FnOnce(&Mpi<A>, *mut RomioFile<A>) -> Result<i64, Failure>,
    stock: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        let Some(fd) = A::opened(file) else { return stock(mpi) };
        match own(mpi, fd) {
            Ok(known) => {
                // SAFETY: the caller vouches for the place.
                unsafe { to.write(known) };
                SUCCESS
            }
            Err(failure) => mpi.report_on(file, failure.to_code(mpi)),
        }
    })
}

/// Defines the three functions, under both of their names, for the family `$abi`.
#[macro_export]
macro_rules! export_pointer {
    ($abi:ty) => {
        $crate::export_pointer! { $abi;
            MPI_File_seek, PMPI_File_seek: file_seek(offset: i64, whence: c_int) by (offset: i64, whence: c_int);
            MPI_File_get_position, PMPI_File_get_position: file_get_position(offset: *mut i64) by ();
            MPI_File_get_byte_offset, PMPI_File_get_byte_offset:
                file_get_byte_offset(offset: i64, displacement: *mut i64) by ();
        }
    };
    ($abi:ty; $($name:ident, $profiled:ident: $entry:ident $arguments:tt by $given:tt;)*) => {$(
        $crate::export_pointer!(@one $abi; $name, $profiled, $entry, $arguments, $given);
        $crate::export_pointer!(@one $abi; $profiled, $profiled, $entry, $arguments, $given);
    )*};
    (@one $abi:ty; $name:ident, $profiled:ident, $entry:ident, ($($argument:ident: $kind:ty),*),
        ($($given:ident: $given_kind:ty),*)) => {
        #[doc = concat!("`", stringify!($name), "` of MPI-3.1.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: MpiFile, $($argument: $kind),*) -> c_int {
            type Function = unsafe extern "C" fn(MpiFile, $($kind),*) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            let stock = |mpi: &Mpi<$abi>, $($given: $given_kind),*| {
                // SAFETY: the type is that of the function in mpi.h.
                let stock = STOCK.get_or_init(|| unsafe { mpi.stock(concat!(stringify!($profiled), "\0")) });
                let Some(stock) = stock else { return mpi.missing(stringify!($profiled)) };
                // SAFETY: the caller's arguments, or the same place counted from elsewhere.
                unsafe { stock(file, $($argument),*) }
            };
            // SAFETY: the caller's arguments.
            unsafe { $crate::$entry::<$abi>(file, $($argument,)* stock) }
        }
    };
}
