//! The preload library of collectives for programs on MPICH. See [`svmio_coll`].
//!
//! MPICH's Fortran functions call the C ones, so that those are enough. Beyond the collectives it takes two functions,
//! and passes them on. `MPI_Error_class`: that of MPICH 4.0 does not tell the class of a code that was added to a
//! predefined class. `MPI_Request_get_status`: that alone does not ask what goes on in the background whether it is
//! over.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use svmio_adio::abi::mpich::Mpich;
use svmio_adio::abi::{Abi, Comm, Datatype, Op, Request, SUCCESS};
use svmio_adio::library::Library;

svmio_coll::export_collectives!(Mpich);
svmio_coll::export_large_collectives!(Mpich);

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

/// `MPI_Request_get_status` of MPI-3.1.
///
/// # Safety
/// As MPI wants it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_get_status(
    request: Request<Mpich>,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { status_of(request, flag, status) }
}

/// `PMPI_Request_get_status` of MPI-3.1.
///
/// # Safety
/// As MPI wants it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Request_get_status(
    request: Request<Mpich>,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { status_of(request, flag, status) }
}

type Status = <Mpich as Abi>::Status;

/// # Safety
/// The arguments are those of `MPI_Request_get_status`.
unsafe fn status_of(request: Request<Mpich>, flag: *mut c_int, status: *mut Status) -> c_int {
    type GetStatus = unsafe extern "C" fn(Request<Mpich>, *mut c_int, *mut Status) -> c_int;
    static NEXT: OnceLock<Option<GetStatus>> = OnceLock::new();
    svmio_adio::complete_requests();
    let name = c"MPI_Request_get_status";
    // SAFETY: the type of the function in mpi.h.
    let next = NEXT.get_or_init(|| unsafe { Library::behind(name, name) }.ok());
    // SAFETY: the caller's arguments.
    next.map_or(svmio_coll::MISSING, |next| unsafe { next(request, flag, status) })
}

/// The class of a code of this library's own; of any other what the next library tells.
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
    let name = c"MPI_Error_class";
    // SAFETY: the type of the function in mpi.h.
    let next = NEXT.get_or_init(|| unsafe { Library::behind(name, name) }.ok());
    match next {
        // SAFETY: the caller's arguments.
        Some(next) => unsafe { next(code, class) },
        // No class of errors has this number in all MPIs, but success has: anything else will do.
        None => SUCCESS + 1,
    }
}
