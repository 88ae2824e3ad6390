//! MPI's functions of files, as they are in MPI-3.1 (chapter 13), behind a safe face.
//!
//! Every kind of access is one method here, and each of MPI's functions of that kind a constant: what the constants
//! hold cannot be made elsewhere.

mod active;
mod blocking;
mod infos;
mod nonblocking;
mod quiet;
mod split;
mod values;
mod views;
mod whole;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;

use mpi::Count;
use mpi::datatype::traits::{AsDatatype, Collection};
use mpi::ffi::{self, MPI_Datatype, MPI_File, MPI_Status};
use mpi::raw::AsRaw;

use active::{demand_active, is_finalized};
pub(crate) use blocking::*;
pub(crate) use infos::Info;
pub(crate) use nonblocking::*;
use quiet::Quiet;
pub(crate) use split::*;
use values::{Envelope, demand_any_bytes};
pub use views::ViewDatatype;
pub(crate) use views::borrowed;
pub(crate) use whole::*;

use crate::error::ErrorClass;

/// An open file of MPI's.
///
/// It is valid: only [`Handle::open`] makes one, and its one owner has it no more when it is closed.
#[derive(Debug)]
pub(crate) struct Handle(MPI_File);

/// A call that failed: which, and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) call: &'static str,
    reason: Reason,
}

/// Why a call failed.
#[derive(Debug, Clone, Copy)]
enum Reason {
    /// MPI says so, by this code.
    Told(c_int),
    /// MPI was not called: it does not run, or not for this thread.
    Inactive,
    /// MPI was not called: what is read may be no value of the buffer's type.
    NoValue,
}

impl Failure {
    /// Nothing, where `code` is of a success.
    fn unless_success(call: &'static str, code: c_int) -> Result<(), Self> {
        if code == ffi::MPI_SUCCESS as c_int {
            return Ok(());
        }
        Err(Self { call, reason: Reason::Told(code) })
    }

    /// MPI's class of the error.
    pub(crate) fn class(self) -> ErrorClass {
        let code = match self.reason {
            Reason::Told(code) => code,
            Reason::Inactive => return ErrorClass::Other(ffi::MPI_ERR_OTHER as c_int),
            Reason::NoValue => return ErrorClass::Argument,
        };
        let mut class = 0;
        // SAFETY: the place of the answer is ours; MPI takes any code.
        let outcome = unsafe { ffi::MPI_Error_class(code, &mut class) };
        ErrorClass::from(if outcome == ffi::MPI_SUCCESS as c_int { class } else { code })
    }

    /// What MPI says of it.
    pub(crate) fn text(self) -> String {
        let told = match self.reason {
            Reason::Told(code) => code,
            Reason::Inactive => {
                return "MPI is not initialized, or has ended, or is not this thread's to call".to_owned();
            }
            Reason::NoValue => {
                return "the buffer has a bool in it, and a file may hold any byte there: read u8".to_owned();
            }
        };
        let mut text = [0 as c_char; ffi::MPI_MAX_ERROR_STRING as usize + 1];
        let mut length = 0;
        // SAFETY: the text has room for the longest that MPI writes, and one more that stays zero; MPI takes any code.
        let code = unsafe { ffi::MPI_Error_string(told, text.as_mut_ptr(), &mut length) };
        if code != ffi::MPI_SUCCESS as c_int {
            return format!("MPI's error {told}");
        }
        // SAFETY: the last byte is zero, whatever MPI has written before it.
        unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
    }
}

/// How much an access has moved, and of what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    pub(crate) bytes: u64,
    /// The data in one element of the buffer, without gaps.
    pub(crate) bytes_of_element: u64,
    elements_wanted: u64,
}

impl Moved {
    /// The bytes of data in the whole buffer.
    pub(crate) fn wanted(self) -> u64 {
        self.bytes_of_element.saturating_mul(self.elements_wanted)
    }
}

/// What a buffer is to MPI, without its address.
#[derive(Debug, Clone, Copy)]
struct Extent {
    count: Count,
    bytes_of_element: u64,
}

impl Extent {
    fn of<B: Collection + AsDatatype + ?Sized>(buffer: &B, datatype: MPI_Datatype) -> Self {
        let mut bytes: ffi::MPI_Count = 0;
        // SAFETY: the buffer's datatype is valid while the caller holds it; the place of the answer is ours.
        unsafe { ffi::MPI_Type_size_x(datatype, &mut bytes) };
        Self { count: buffer.count(), bytes_of_element: u64::try_from(bytes).unwrap_or(0) }
    }

    /// What came of an access to this buffer.
    fn moved(self, status: &MPI_Status) -> Moved {
        let mut bytes: ffi::MPI_Count = 0;
        // SAFETY: the status is one that MPI has written, for an access that succeeded; any basic datatype of one byte
        // counts bytes.
        unsafe { ffi::MPI_Get_elements_x(status, ffi::RSMPI_UINT8_T, &mut bytes) };
        Moved {
            bytes: u64::try_from(bytes).unwrap_or(0),
            bytes_of_element: self.bytes_of_element,
            elements_wanted: u64::try_from(self.count).unwrap_or(0),
        }
    }
}

/// One of MPI's functions, by its name.
pub(crate) struct Function<F> {
    pub(crate) name: &'static str,
    function: F,
}

/// A status with nothing in it.
///
/// Its fields are numbers, and MPI writes only those that it means.
fn empty_status() -> MPI_Status {
    // SAFETY: in MPICH's and Open MPI's `mpi.h` it is a structure of integers alone, for which zeroes are values.
    unsafe { MaybeUninit::zeroed().assume_init() }
}
