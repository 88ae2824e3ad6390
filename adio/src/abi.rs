//! The binary interface of an MPI family: what its headers fix for compiled programs.
//!
//! Facts from `mpi.h` of MPICH 4.0.2 (the MPICH ABI, which its releases from 3.1 to 5 and their derivatives
//! keep) and of Open MPI 4.1.4 (kept by 5.0).

pub mod mpich;
pub mod openmpi;

use std::ffi::{c_int, c_void};
use std::fmt::Debug;

use crate::calls::Mpi;
use crate::failure::ErrorClass;
use crate::library::{Library, SymbolError};

/// An MPI family's binary interface.
pub trait Abi: Sized + Copy + Debug + Send + Sync + 'static {
    /// What all of its handles (communicators, datatypes, …) are; files are always pointers.
    type Handle: Copy + Eq + Debug + Send + Sync + 'static;
    /// `MPI_Status`; only its size and alignment matter here.
    type Status: Copy;
    /// The family's name, as messages give it.
    const NAME: &'static str;
    /// What `MPI_Get_library_version` of a member of the family contains.
    const VERSION_MARK: &'static str;
    /// The address that `MPI_STATUS_IGNORE` is.
    const STATUS_IGNORE: usize;
    /// `MPI_PROC_NULL`.
    const PROC_NULL: c_int;
    /// `MPI_MAX_ERROR_STRING`: bytes, the closing zero included.
    const MAX_ERROR_STRING: usize;

    /// A handle as a number, not 0, which no other handle of its kind has at the same time.
    fn number(handle: Self::Handle) -> u64;

    /// A code that `MPI_Add_error_code` gave, as it has to be for its string to be found.
    fn dynamic_code(code: c_int) -> c_int {
        code
    }

    /// Whether members of the family, from ROMIO 4.1 on, make codes of their own of those that ROMIO returns, and do not
    /// take those of `MPI_Add_error_code` for that.
    const WRAPS_CODES: bool = false;

    /// The longest value of an info object's key: bytes, without the closing zero. MPICH's `MPI_MAX_INFO_VAL` does not
    /// count that, Open MPI's does.
    const LONGEST_INFO_VALUE: usize;

    /// `MPI_ORDER_C` and `MPI_ORDER_FORTRAN`.
    const ORDERS: [c_int; 2];
    /// `MPI_DISTRIBUTE_BLOCK`, `MPI_DISTRIBUTE_CYCLIC` and `MPI_DISTRIBUTE_NONE`.
    const DISTRIBUTIONS: [c_int; 3];
    /// `MPI_DISTRIBUTE_DFLT_DARG`.
    const DEFAULT_CHUNK: c_int;

    /// Has the error handler that files without a handle have deal with `code`.
    fn call_handler_without_file(mpi: &Mpi<Self>, code: c_int) {
        mpi.call_handler(mpi.constants.file_null, code);
    }

    /// The number of an error class.
    fn error_class(class: ErrorClass) -> c_int;

    /// The predefined handles, some of which are addresses within the library.
    ///
    /// # Errors
    /// A symbol that is missing.
    fn constants(library: &Library) -> Result<Constants<Self>, SymbolError>;

    /// Where the process keeps the family's resolved functions.
    fn calls() -> &'static std::sync::OnceLock<Mpi<Self>>;
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name<A: Abi>(pub A::Handle);
    )*};
}

handles! {
    /// `MPI_Comm`.
    Comm,
    /// `MPI_Datatype`.
    Datatype,
    /// `MPI_Info`.
    Info,
    /// `MPI_Op`.
    Op,
    /// `MPI_Request`.
    Request,
    /// `MPI_Errhandler`.
    Errhandler,
    /// `MPI_Win`.
    Win
}

/// `MPI_File`: in every family a pointer, in MPICH's to ROMIO's own structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct MpiFile(pub *mut c_void);

// SAFETY: the pointer is only a name for the file here; whoever follows it takes care of that.
unsafe impl Send for MpiFile {}
// SAFETY: as above.
unsafe impl Sync for MpiFile {}

/// Predefined handles.
#[derive(Debug, Clone, Copy)]
pub struct Constants<A: Abi> {
    /// `MPI_BYTE`.
    pub byte: Datatype<A>,
    /// `MPI_INT`.
    pub int: Datatype<A>,
    /// `MPI_LONG_LONG_INT`.
    pub long_long: Datatype<A>,
    /// `MPI_DATATYPE_NULL`.
    pub datatype_null: Datatype<A>,
    /// `MPI_MAX`.
    pub max: Op<A>,
    /// `MPI_REQUEST_NULL`.
    pub request_null: Request<A>,
    /// `MPI_COMM_SELF`.
    pub comm_self: Comm<A>,
    /// `MPI_COMM_WORLD`.
    pub comm_world: Comm<A>,
    /// `MPI_COMM_NULL`.
    pub comm_null: Comm<A>,
    /// `MPI_INFO_NULL`.
    pub info_null: Info<A>,
    /// `MPI_FILE_NULL`.
    pub file_null: MpiFile,
    /// `MPI_ERRORS_RETURN`.
    pub errors_return: Errhandler<A>,
}

/// `MPI_MODE_*`, equal in all families.
pub mod amode {
    use std::ffi::c_int;
    /// `MPI_MODE_CREATE`.
    pub const CREATE: c_int = 1;
    /// `MPI_MODE_RDONLY`.
    pub const RDONLY: c_int = 2;
    /// `MPI_MODE_WRONLY`.
    pub const WRONLY: c_int = 4;
    /// `MPI_MODE_RDWR`.
    pub const RDWR: c_int = 8;
    /// `MPI_MODE_DELETE_ON_CLOSE`.
    pub const DELETE_ON_CLOSE: c_int = 16;
    /// `MPI_MODE_EXCL`.
    pub const EXCL: c_int = 64;
    /// `MPI_MODE_APPEND`.
    pub const APPEND: c_int = 128;
    /// `MPI_MODE_SEQUENTIAL`.
    pub const SEQUENTIAL: c_int = 256;
}

/// `MPI_SEEK_SET`, equal in all families.
pub const SEEK_SET: c_int = 600;
/// `MPI_SEEK_CUR`, equal in all families.
pub const SEEK_CUR: c_int = 602;
/// `MPI_SEEK_END`, equal in all families.
pub const SEEK_END: c_int = 604;
/// `MPI_DISPLACEMENT_CURRENT`, equal in all families.
pub const DISPLACEMENT_CURRENT: i64 = -54_278_278;
/// `MPI_SUCCESS`.
pub const SUCCESS: c_int = 0;
