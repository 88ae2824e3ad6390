//! Views as MPI takes and gives them.

use std::fmt;

use mpi::datatype::traits::{Datatype, UncommittedDatatype};
use mpi::datatype::{DatatypeRef, UserDatatype};
use mpi::raw::FromRaw;

use super::*;

/// A view of a file's, as MPI tells it.
pub(crate) struct RawView {
    pub(crate) displacement: ffi::MPI_Offset,
    pub(crate) etype: ViewDatatype,
    pub(crate) filetype: ViewDatatype,
    pub(crate) representation: CString,
}

/// A datatype of a view, as MPI has handed it out.
pub enum ViewDatatype {
    /// One of MPI's own.
    Named(DatatypeRef<'static>),
    /// A copy of one that the program has made.
    Derived(UserDatatype),
}

impl ViewDatatype {
    /// Takes over what MPI has handed to its caller.
    pub(super) fn handed_out(datatype: MPI_Datatype) -> Result<Self, Failure> {
        // SAFETY: MPI's constant.
        let named = Envelope::of(unsafe { ffi::RSMPI_UINT8_T })?.combiner;
        let is_named = Envelope::of(datatype)?.combiner == named;
        // SAFETY: named datatypes are never freed; any other is its receiver's alone.
        Ok(unsafe {
            if is_named {
                Self::Named(DatatypeRef::from_raw(datatype))
            } else {
                Self::Derived(UserDatatype::from_raw(datatype))
            }
        })
    }
}

// SAFETY: the handle is that of a valid datatype, for as long as this lives.
unsafe impl AsRaw for ViewDatatype {
    type Raw = MPI_Datatype;

    fn as_raw(&self) -> MPI_Datatype {
        match self {
            Self::Named(datatype) => datatype.as_raw(),
            Self::Derived(datatype) => datatype.as_raw(),
        }
    }
}

impl fmt::Debug for ViewDatatype {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Named(_) => "Named(…)",
            Self::Derived(_) => "Derived(…)",
        })
    }
}

impl UncommittedDatatype for ViewDatatype {
    type DuplicatedDatatype = UserDatatype;
}

// What a view is made of is committed.
impl Datatype for ViewDatatype {}

/// A borrowed datatype, which its owner keeps.
pub(crate) fn borrowed<D: Datatype>(datatype: &D) -> DatatypeRef<'_> {
    // SAFETY: the datatype is valid for as long as it is borrowed, and committed, as `Datatype` promises.
    unsafe { DatatypeRef::from_raw(datatype.as_raw()) }
}

impl Handle {
    pub(crate) fn set_view(
        &self,
        displacement: ffi::MPI_Offset,
        (etype, filetype): (MPI_Datatype, MPI_Datatype),
        representation: &CStr,
        info: &Info,
    ) -> Result<(), Failure> {
        demand_active("MPI_File_set_view")?;
        // SAFETY: the file is open; whoever has the datatypes' handles has borrowed them; the name ends with a zero,
        // and the info is valid.
        let code = unsafe {
            ffi::MPI_File_set_view(self.0, displacement, etype, filetype, representation.as_ptr(), info.raw())
        };
        Failure::unless_success("MPI_File_set_view", code)
    }

    pub(crate) fn view(&self) -> Result<RawView, Failure> {
        let mut displacement = 0;
        let mut representation = [0 as c_char; ffi::MPI_MAX_DATAREP_STRING as usize + 1];
        demand_active("MPI_File_get_view")?;
        // SAFETY: MPI's constants.
        let (mut etype, mut filetype) = unsafe { (ffi::RSMPI_DATATYPE_NULL, ffi::RSMPI_DATATYPE_NULL) };
        // SAFETY: the file is open, and the places of the answers are ours, that of the name with room for the longest.
        let code = unsafe {
            let name = representation.as_mut_ptr();
            ffi::MPI_File_get_view(self.0, &mut displacement, &mut etype, &mut filetype, name)
        };
        Failure::unless_success("MPI_File_get_view", code)?;
        // SAFETY: the last byte is zero, whatever MPI has written before it.
        let representation = unsafe { CStr::from_ptr(representation.as_ptr()) }.to_owned();
        let (etype, filetype) = (ViewDatatype::handed_out(etype)?, ViewDatatype::handed_out(filetype)?);
        Ok(RawView { displacement, etype, filetype, representation })
    }
}
