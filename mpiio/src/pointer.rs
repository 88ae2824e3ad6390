//! The individual file pointer, and what it is in the file: for views with gaps, our own account of them.

use std::ffi::c_int;

use svmio_adio::abi::{MpiFile, SEEK_CUR, SEEK_END, SEEK_SET, SUCCESS};
use svmio_adio::plug::Plug;
use svmio_adio::{Mpi, heard, pointer};

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
        let ours = A::opened(file).filter(|_| whence == SEEK_END);
        // SAFETY: an open file of the device's is ROMIO's structure.
        let learnt = ours.map_or(Ok(()), |fd| unsafe { pointer::learn_end(fd) });
        if let Err(failure) = learnt {
            return mpi.report_on(file, failure.to_code(mpi));
        }
        // SAFETY: the caller vouches for the file.
        let (offset, whence) = unsafe { from_beginning(mpi, file, offset, whence) };
        heard(mpi, file, || stock(mpi, offset, whence))
    })
}

/// `offset`, counted from the beginning of a view with gaps.
///
/// # Safety
/// `file` is an open file.
unsafe fn from_beginning<A: Plug>(mpi: &Mpi<A>, file: MpiFile, offset: i64, whence: c_int) -> (i64, c_int) {
    let base = A::opened(file).and_then(|fd| {
        // SAFETY: an open file of the device's is ROMIO's structure.
        unsafe {
            match whence {
                SEEK_CUR => pointer::position(mpi, fd),
                SEEK_END => pointer::end(mpi, fd),
                _ => None,
            }
        }
    });
    match base.and_then(|base| base.checked_add(offset)) {
        Some(offset) => (offset, SEEK_SET),
        None => (offset, whence),
    }
}

/// `MPI_File_get_position`, by `stock` where ours is not needed.
///
/// # Safety
/// `file` is an open file, and `offset` valid for a write.
pub unsafe fn file_get_position<A: Plug>(
    file: MpiFile,
    offset: *mut i64,
    stock: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        // SAFETY: an open file of the device's is ROMIO's structure.
        let position = A::opened(file).and_then(|fd| unsafe { pointer::position(mpi, fd) });
        // SAFETY: the caller vouches for the place.
        unsafe { told(mpi, position, offset, stock) }
    })
}

/// `MPI_File_get_byte_offset`, by `stock` where ours is not needed.
///
/// # Safety
/// `file` is an open file, and `displacement` valid for a write.
pub unsafe fn file_get_byte_offset<A: Plug>(
    file: MpiFile,
    offset: i64,
    displacement: *mut i64,
    stock: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        let fd = A::opened(file).filter(|_| offset >= 0);
        // SAFETY: an open file of the device's is ROMIO's structure.
        let place = fd.and_then(|fd| unsafe { pointer::byte_offset(mpi, fd, offset) });
        // SAFETY: the caller vouches for the place.
        unsafe { told(mpi, place, displacement, stock) }
    })
}

/// # Safety
/// `to` is valid for a write.
unsafe fn told<A: Plug>(
    mpi: &Mpi<A>,
    known: Option<i64>,
    to: *mut i64,
    stock: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    let Some(known) = known else { return stock(mpi) };
    // SAFETY: the caller vouches for the place.
    unsafe { to.write(known) };
    SUCCESS
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
