//! The preload library of collectives for programs on MPICH. See [`svmio_coll`].
//!
//! MPICH's Fortran functions call the C ones, so that those are enough. Beyond the collectives it takes
//! `MPI_Error_class`: that of MPICH 4.0 does not tell the class of a code that was added to a predefined class.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use svmio_adio::abi::mpich::Mpich;
use svmio_adio::abi::{Abi, Comm, Datatype, Op, SUCCESS};
use svmio_adio::library::Library;

svmio_coll::export_collectives!(Mpich);

/// `MPI_Error_class` of MPI-3.1.
///
/// # Safety
/// As MPI wants it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Error_class(code: c_int, class: *mut c_int) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { class_of(code, class) }
}

/// `PMPI_Error_class` of MPI-3.1.
///
/// # Safety
/// As MPI wants it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Error_class(code: c_int, class: *mut c_int) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { class_of(code, class) }
}

/// The class of a code of this library's own; of any other what the next library tells: the one for files, whose codes
/// are no better known to MPICH, or MPICH.
///
/// # Safety
/// `class` is valid for a write.
unsafe fn class_of(code: c_int, class: *mut c_int) -> c_int {
    type ErrorClass = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
    if let Some(own) = svmio_adio::behind(code) {
        // SAFETY: the caller vouches for the pointer.
        unsafe { class.write(Mpich::error_class(own.class)) };
        return SUCCESS;
    }
    static NEXT: OnceLock<Option<ErrorClass>> = OnceLock::new();
    let next = NEXT.get_or_init(|| {
        let name = c"MPI_Error_class";
        // SAFETY: the type of the function in mpi.h.
        let after = |library: Library| unsafe { library.function::<ErrorClass>(name) };
        after(Library::next()).or_else(|_| Library::mpi().and_then(after)).ok()
    });
    match next {
        // SAFETY: the caller's arguments.
        Some(next) => unsafe { next(code, class) },
        // No class of errors has this number in all MPIs, but success has: anything else will do.
        None => SUCCESS + 1,
    }
}
