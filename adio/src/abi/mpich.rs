//! MPICH's ABI: handles are integers.

use std::ffi::c_int;
use std::sync::OnceLock;

use super::{Abi, Comm, Constants, Datatype, Errhandler, Info, MpiFile, Op, Request};
use crate::calls::Mpi;
use crate::failure::ErrorClass;
use crate::library::{Library, SymbolError};

/// MPICH and those who keep its ABI.
#[derive(Debug, Clone, Copy)]
pub struct Mpich;

impl Abi for Mpich {
    type Handle = c_int;
    type Status = [c_int; 5];
    const NAME: &'static str = "MPICH";
    const VERSION_MARK: &'static str = "MPICH Version:";
    const STATUS_IGNORE: usize = 1;
    const PROC_NULL: c_int = -1;
    const MAX_ERROR_STRING: usize = 512;
    const WRAPS_CODES: bool = true;
    const LONGEST_INFO_VALUE: usize = 1024;
    const ORDERS: [c_int; 2] = [56, 57];
    const DISTRIBUTIONS: [c_int; 3] = [121, 122, 123];
    const DEFAULT_CHUNK: c_int = -49_767;

    #[inline]
    fn number(handle: c_int) -> u64 {
        u64::from(handle.cast_unsigned())
    }

    /// MPICH marks codes of the program's own by this bit (`ERROR_DYN_MASK` of mpir_errcodes.h), but 4.0 forgets
    /// to where the class is a predefined one, and then finds no string.
    fn dynamic_code(code: c_int) -> c_int {
        code | 0x4000_0000
    }

    fn error_class(class: ErrorClass) -> c_int {
        match class {
            ErrorClass::Argument => 12,
            ErrorClass::Other => 15,
            ErrorClass::Access => 20,
            ErrorClass::Amode => 21,
            ErrorClass::BadFile => 22,
            ErrorClass::Communicator => 5,
            ErrorClass::FileExists => 25,
            ErrorClass::Io => 32,
            ErrorClass::NotSame => 35,
            ErrorClass::NoSpace => 36,
            ErrorClass::NoSuchFile => 37,
            ErrorClass::Quota => 39,
            ErrorClass::ReadOnly => 40,
            ErrorClass::Unsupported => 44,
            ErrorClass::UnsupportedRepresentation => 43,
        }
    }

    fn constants(_: &Library) -> Result<Constants<Mpich>, SymbolError> {
        Ok(Constants {
            byte: Datatype(0x4c00_010d),
            int: Datatype(0x4c00_0405),
            long_long: Datatype(0x4c00_0809),
            datatype_null: Datatype(0x0c00_0000),
            max: Op(0x5800_0001),
            request_null: Request(0x2c00_0000),
            comm_self: Comm(0x4400_0001),
            comm_world: Comm(0x4400_0000),
            comm_null: Comm(0x0400_0000),
            info_null: Info(0x1c00_0000),
            file_null: MpiFile(std::ptr::null_mut()),
            errors_return: Errhandler(0x5400_0001),
        })
    }

    fn calls() -> &'static OnceLock<Mpi<Mpich>> {
        static CALLS: OnceLock<Mpi<Mpich>> = OnceLock::new();
        &CALLS
    }
}
