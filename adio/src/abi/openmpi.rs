//! Open MPI's ABI: handles are pointers, predefined ones the addresses of the library's variables.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use super::{Abi, Comm, Constants, Datatype, Errhandler, Info, MpiFile, Op, Request};
use crate::calls::Mpi;
use crate::failure::ErrorClass;
use crate::library::{Library, SymbolError};

/// Open MPI.
#[derive(Debug, Clone, Copy)]
pub struct OpenMpi;

/// `ompi_status_public_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Status {
    integers: [c_int; 4],
    count: usize,
}

impl Status {
    /// `MPI_TAG`.
    #[must_use]
    pub fn tag(&self) -> c_int {
        // The source, the tag, the error, whether it was cancelled.
        self.integers[1]
    }
}

impl Abi for OpenMpi {
    /// A pointer, of which only the value is of interest.
    type Handle = usize;
    type Status = Status;
    const NAME: &'static str = "Open MPI";
    const VERSION_MARK: &'static str = "Open MPI v";
    const STATUS_IGNORE: usize = 0;
    const PROC_NULL: c_int = -2;
    const MAX_ERROR_STRING: usize = 256;
    const LONGEST_INFO_VALUE: usize = 255;
    const ORDERS: [c_int; 2] = [0, 1];
    const DISTRIBUTIONS: [c_int; 3] = [0, 1, 2];
    const DEFAULT_CHUNK: c_int = -1;

    #[inline]
    fn number(handle: usize) -> u64 {
        handle as u64
    }

    /// Open MPI's `MPI_File_call_errhandler` takes MPI_FILE_NULL for a mistake and ends the job, although that
    /// has a handler by MPI's rules. Its inner function does not.
    fn call_handler_without_file(mpi: &Mpi<OpenMpi>, code: c_int) {
        /// `OMPI_ERRHANDLER_TYPE_FILE` of 4.1's and 5.0's ompi/errhandler/errhandler.h.
        const FILE: c_int = 3;
        type Invoke =
            unsafe extern "C" fn(Errhandler<OpenMpi>, MpiFile, c_int, c_int, *const c_char) -> c_int;
        let file = mpi.constants.file_null;
        let Some(handler) = mpi.error_handler(file) else { return };
        // SAFETY: the type of the function in that header.
        match unsafe { mpi.stock::<Invoke>("ompi_errhandler_invoke\0") } {
            // SAFETY: the handler is one of files, which is what the third argument says.
            Some(invoke) => unsafe {
                invoke(handler, file, FILE, code, c"svmio".as_ptr());
            },
            None => mpi.call_handler(file, code),
        }
    }

    fn error_class(class: ErrorClass) -> c_int {
        match class {
            ErrorClass::Argument => 13,
            ErrorClass::Other => 16,
            ErrorClass::Access => 20,
            ErrorClass::Amode => 21,
            ErrorClass::BadFile => 23,
            ErrorClass::Communicator => 5,
            ErrorClass::FileExists => 28,
            ErrorClass::Io => 35,
            ErrorClass::NotSame => 40,
            ErrorClass::NoSpace => 41,
            ErrorClass::NoSuchFile => 42,
            ErrorClass::Quota => 44,
            ErrorClass::ReadOnly => 45,
            ErrorClass::Unsupported => 52,
            ErrorClass::UnsupportedRepresentation => 51,
        }
    }

    fn constants(library: &Library) -> Result<Constants<OpenMpi>, SymbolError> {
        let address = |name: &'static CStr| library.variable(name).map(|address| address as usize);
        Ok(Constants {
            byte: Datatype(address(c"ompi_mpi_byte")?),
            int: Datatype(address(c"ompi_mpi_int")?),
            long_long: Datatype(address(c"ompi_mpi_long_long_int")?),
            datatype_null: Datatype(address(c"ompi_mpi_datatype_null")?),
            max: Op(address(c"ompi_mpi_op_max")?),
            request_null: Request(address(c"ompi_request_null")?),
            comm_self: Comm(address(c"ompi_mpi_comm_self")?),
            comm_world: Comm(address(c"ompi_mpi_comm_world")?),
            comm_null: Comm(address(c"ompi_mpi_comm_null")?),
            info_null: Info(address(c"ompi_mpi_info_null")?),
            file_null: MpiFile(library.variable(c"ompi_mpi_file_null")?),
            errors_return: Errhandler(address(c"ompi_mpi_errors_return")?),
        })
    }

    fn calls() -> &'static OnceLock<Mpi<OpenMpi>> {
        static CALLS: OnceLock<Mpi<OpenMpi>> = OnceLock::new();
        &CALLS
    }
}
