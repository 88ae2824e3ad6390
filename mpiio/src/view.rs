//! Setting views, and telling them.

use std::ffi::{CStr, c_char, c_int};

use svmio_adio::abi::{Datatype, MpiFile, SUCCESS};
use svmio_adio::plug::Plug;
use svmio_adio::{Mpi, heard, pointer, viewing};

use crate::entry::{agree, with_stock};

/// `MPI_File_set_view` by `stock`, which is given the etype and the file type to use.
///
/// # Safety
/// `file` is an open file, every rank that opened it makes the same call, the datatypes are the program's, and the name
/// of the representation is a string or null.
pub unsafe fn file_set_view<A: Plug>(
    file: MpiFile,
    displacement: i64,
    (etype, filetype): (Datatype<A>, Datatype<A>),
    representation: *const c_char,
    stock: impl FnOnce(&Mpi<A>, Datatype<A>, Datatype<A>) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        let Some(fd) = A::opened(file) else { return stock(mpi, etype, filetype) };
        // SAFETY: an open file of the device's is ROMIO's structure; the caller vouches for the rest.
        unsafe {
            let types = (etype, filetype);
            let representation = (!representation.is_null()).then(|| CStr::from_ptr(representation));
            if let Err(failure) = viewing::prepare(mpi, fd, displacement, types, representation) {
                return mpi.report_on(file, failure.to_code(mpi));
            }
            if (*fd).is_sequential() {
                // It begins at the shared pointer, which ROMIO takes for 0 where a rank cannot get at it.
                let (mine, _) = pointer::shared(mpi, fd, file);
                svmio_adio::settle();
                let code = agree(mpi, file, mine);
                if code != SUCCESS {
                    return code;
                }
            }
            viewing::replacing(mpi, fd, || {
                viewing::set_view(mpi, fd, types, representation, |etype, filetype| {
                    heard(mpi, file, || stock(mpi, etype, filetype))
                })
            })
        }
    })
}

/// `MPI_File_get_view` by `stock`. Where ROMIO has not heard of the representation, it is told here.
///
/// # Safety
/// `file` is an open file, and `representation` has the room that MPI wants, or is null.
pub unsafe fn file_get_view<A: Plug>(
    file: MpiFile,
    representation: *mut c_char,
    stock: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        let code = stock(mpi);
        let Some(fd) = A::opened(file).filter(|_| code == SUCCESS && !representation.is_null()) else {
            return code;
        };
        // SAFETY: an open file of the device's is ROMIO's structure; the caller vouches for the room.
        unsafe {
            if let Some(hidden) = viewing::hidden_representation(fd) {
                representation.copy_from_nonoverlapping(hidden.as_ptr(), hidden.count_bytes() + 1);
            }
        }
        code
    })
}

/// Defines `MPI_File_get_view`, under both of its names, for the family `$abi`.
#[macro_export]
macro_rules! export_get_view {
    ($abi:ty) => {
        $crate::export_get_view!(@one $abi; MPI_File_get_view);
        $crate::export_get_view!(@one $abi; PMPI_File_get_view);
    };
    (@one $abi:ty; $name:ident) => {
        #[doc = concat!("`", stringify!($name), "` of MPI-3.1.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            file: MpiFile,
            displacement: *mut i64,
            etype: *mut Datatype<$abi>,
            filetype: *mut Datatype<$abi>,
            representation: *mut c_char,
        ) -> c_int {
            type Function = unsafe extern "C" fn(
                MpiFile,
                *mut i64,
                *mut Datatype<$abi>,
                *mut Datatype<$abi>,
                *mut c_char,
            ) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            let stock = |mpi: &Mpi<$abi>| {
                // SAFETY: the type is that of the function in mpi.h.
                let stock = STOCK.get_or_init(|| unsafe { mpi.stock("PMPI_File_get_view\0") });
                let Some(stock) = stock else { return mpi.missing("PMPI_File_get_view") };
                // SAFETY: the caller's arguments.
                unsafe { stock(file, displacement, etype, filetype, representation) }
            };
            // SAFETY: the caller's arguments.
            unsafe { $crate::file_get_view::<$abi>(file, representation, stock) }
        }
    };
}

/// Defines `MPI_File_set_view`, under both of its names, for the family `$abi`.
#[macro_export]
macro_rules! export_set_view {
    ($abi:ty) => {
        $crate::export_set_view!(@one $abi; MPI_File_set_view);
        $crate::export_set_view!(@one $abi; PMPI_File_set_view);
    };
    (@one $abi:ty; $name:ident) => {
        #[doc = concat!("`", stringify!($name), "` of MPI-3.1.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            file: MpiFile,
            displacement: i64,
            etype: Datatype<$abi>,
            filetype: Datatype<$abi>,
            representation: *const c_char,
            info: Info<$abi>,
        ) -> c_int {
            type Function = unsafe extern "C" fn(
                MpiFile,
                i64,
                Datatype<$abi>,
                Datatype<$abi>,
                *const c_char,
                Info<$abi>,
            ) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            let stock = |mpi: &Mpi<$abi>, etype, filetype| {
                // SAFETY: the type is that of the function in mpi.h.
                let stock = STOCK.get_or_init(|| unsafe { mpi.stock("PMPI_File_set_view\0") });
                let Some(stock) = stock else { return mpi.missing("PMPI_File_set_view") };
                // SAFETY: the caller's arguments, but for the types, which are as good.
                unsafe { stock(file, displacement, etype, filetype, representation, info) }
            };
            // SAFETY: the caller's arguments; setting a view is collective.
            unsafe {
                $crate::file_set_view::<$abi>(file, displacement, (etype, filetype), representation, stock)
            }
        }
    };
}
