//! The functions that free a communicator, which has attributes of its program do collectives of it.

use std::ffi::c_int;

use svmio_adio::abi::Comm;

use crate::family::Family;
use crate::kept;

/// Has `free` free a communicator.
///
/// # Safety
/// `comm` is null or has a handle, and is what `free` wants.
pub unsafe fn freeing<A: Family>(
    comm: *mut Comm<A>,
    free: unsafe extern "C" fn(*mut Comm<A>) -> c_int,
) -> c_int {
    // SAFETY: the caller vouches for the pointer.
    let handle = unsafe { comm.as_ref() }.copied();
    // SAFETY: as the caller vouches.
    let free = || unsafe { free(comm) };
    match handle {
        Some(handle) => kept::freeing(handle, free),
        None => free(),
    }
}

/// Defines them for a family, under both names of each. They go on to the next library's of the same name, or MPI's.
#[macro_export]
macro_rules! export_freeing {
    ($family:ty) => {
        $crate::export_freeing! { @each $family,
            MPI_Comm_free, c"MPI_Comm_free", c"PMPI_Comm_free";
            PMPI_Comm_free, c"PMPI_Comm_free", c"PMPI_Comm_free";
            MPI_Comm_disconnect, c"MPI_Comm_disconnect", c"PMPI_Comm_disconnect";
            PMPI_Comm_disconnect, c"PMPI_Comm_disconnect", c"PMPI_Comm_disconnect";
        }
    };
    (@each $family:ty, $($name:ident, $symbol:literal, $of_mpi:literal;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(comm: *mut Comm<$family>) -> c_int {
            type Function = unsafe extern "C" fn(*mut Comm<$family>) -> c_int;
            static NEXT: OnceLock<Option<Function>> = OnceLock::new();
            // SAFETY: the type is that of the function in mpi.h.
            let next = NEXT.get_or_init(|| unsafe { $crate::preload::behind($symbol, $of_mpi) });
            // SAFETY: the caller's argument.
            next.map_or($crate::MISSING, |next| unsafe { $crate::preload::freeing(comm, next) })
        }
    )*};
}
