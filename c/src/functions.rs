//! All functions as a table: what the library's names lead to.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::types::*;
use crate::{failure, files, job, mappings};

/// Under this name svmio's preload libraries for MPI have [`beside_mpi`].
pub const NAME: &CStr = c"svmio_c_functions";

/// The release of this crate.
pub const RELEASE: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(release) => release,
        Err(_) => panic!("the release has a zero within"),
    };

/// The functions of `svmio.h`, by their names there without `svm_`.
///
/// Of another release than one's own, only the first two fields may be looked at.
#[repr(C)]
#[allow(missing_docs, reason = "the library tells what they do")]
pub struct Functions {
    /// [`RELEASE`].
    pub release: *const c_char,
    /// Bytes of the table.
    pub bytes: usize,
    pub init: extern "C" fn() -> c_int,
    pub init_with: unsafe extern "C" fn(*const svm_exchange) -> c_int,
    pub finalize: extern "C" fn() -> c_int,
    pub rank: extern "C" fn() -> c_int,
    pub size: extern "C" fn() -> c_int,
    pub map: unsafe extern "C" fn(
        *const c_char,
        c_uint,
        u64,
        usize,
        *const svm_options,
        *mut *mut c_void,
    ) -> c_int,
    pub map_file:
        unsafe extern "C" fn(*const svm_file, u64, usize, *const svm_options, *mut *mut c_void) -> c_int,
    pub unmap: extern "C" fn(*mut c_void) -> c_int,
    pub sync: extern "C" fn(*mut c_void, usize) -> c_int,
    pub flush: extern "C" fn(*mut c_void) -> c_int,
    pub refresh: extern "C" fn(*mut c_void) -> c_int,
    pub barrier: extern "C" fn(*mut c_void) -> c_int,
    pub lock: extern "C" fn(*mut c_void, usize, c_int) -> c_int,
    pub unlock: extern "C" fn(*mut c_void, usize) -> c_int,
    pub advise: extern "C" fn(*mut c_void, usize, c_int) -> c_int,
    pub fetch: extern "C" fn(*mut c_void, usize) -> c_int,
    pub open: unsafe extern "C" fn(*const c_char, c_uint, *const svm_options, *mut *mut svm_file) -> c_int,
    pub close: extern "C" fn(*mut svm_file) -> c_int,
    pub read_at: unsafe extern "C" fn(*const svm_file, u64, *mut c_void, usize, *mut usize) -> c_int,
    pub write_at: unsafe extern "C" fn(*const svm_file, u64, *const c_void, usize) -> c_int,
    pub file_size: unsafe extern "C" fn(*const svm_file, *mut u64) -> c_int,
    pub file_sync: extern "C" fn(*const svm_file) -> c_int,
    pub remove: unsafe extern "C" fn(*const c_char) -> c_int,
    pub error: extern "C" fn() -> *const c_char,
    pub strerror: extern "C" fn(c_int) -> *const c_char,
}

// SAFETY: it does not change, and its pointers lead to what is there as long as the program.
unsafe impl Sync for Functions {}

/// Those of this crate.
pub static FUNCTIONS: Functions = Functions {
    release: RELEASE.as_ptr(),
    bytes: size_of::<Functions>(),
    init: job::init,
    init_with: job::init_with,
    finalize: job::finalize,
    rank: job::rank,
    size: job::size,
    map: mappings::map,
    map_file: mappings::map_file,
    unmap: mappings::unmap,
    sync: mappings::sync,
    flush: mappings::flush,
    refresh: mappings::refresh,
    barrier: mappings::barrier,
    lock: mappings::lock,
    unlock: mappings::unlock,
    advise: mappings::advise,
    fetch: mappings::fetch,
    open: files::open,
    close: files::close,
    read_at: files::read_at,
    write_at: files::write_at,
    file_size: files::file_size,
    file_sync: files::sync,
    remove: files::remove,
    error: failure::error,
    strerror: failure::strerror,
};

/// Those of this crate, in a process whose clusters are left at MPI's end.
pub extern "C" fn beside_mpi() -> *const Functions {
    job::let_clusters_stay();
    &raw const FUNCTIONS
}
