//! Whether any bytes are values of a datatype.

use super::*;

/// That whatever a file holds are values of what the buffer of this datatype is made of: of all that the crate `mpi`
/// makes datatypes of, a `bool` alone has other bytes than values.
pub(super) fn demand_any_bytes(call: &'static str, datatype: MPI_Datatype) -> Result<(), Failure> {
    if has_bool(datatype)? { Err(Failure { call, reason: Reason::NoValue }) } else { Ok(()) }
}

fn has_bool(datatype: MPI_Datatype) -> Result<bool, Failure> {
    // SAFETY: MPI's constants.
    let (boolean, number) = unsafe { (ffi::RSMPI_C_BOOL, ffi::RSMPI_UINT8_T) };
    let made = Envelope::of(datatype)?;
    if made.combiner == Envelope::of(number)?.combiner {
        return Ok(datatype == boolean);
    }
    let mut integers = vec![0; made.integers as usize];
    let mut addresses = vec![0; made.addresses as usize];
    // SAFETY: MPI's constant.
    let mut inner = vec![unsafe { ffi::RSMPI_DATATYPE_NULL }; made.datatypes as usize];
    // SAFETY: the datatype is valid while the caller holds it; the places are as long as MPI has just said.
    let code = unsafe {
        ffi::MPI_Type_get_contents(
            datatype,
            made.integers,
            made.addresses,
            made.datatypes,
            integers.as_mut_ptr(),
            addresses.as_mut_ptr(),
            inner.as_mut_ptr(),
        )
    };
    Failure::unless_success("MPI_Type_get_contents", code)?;
    // All are taken over first: each is to be freed, whatever comes of another one.
    let inner: Vec<_> = inner.into_iter().map(ViewDatatype::handed_out).collect::<Result<_, _>>()?;
    inner.iter().try_fold(false, |found, inner| Ok(found || has_bool(inner.as_raw())?))
}

/// How a datatype was made: of how many numbers, addresses and datatypes, and by what. The number for MPI's own datatypes
/// has another name in each MPI's header.
pub(super) struct Envelope {
    integers: c_int,
    addresses: c_int,
    datatypes: c_int,
    pub(super) combiner: c_int,
}

impl Envelope {
    pub(super) fn of(datatype: MPI_Datatype) -> Result<Self, Failure> {
        let mut made = Self { integers: 0, addresses: 0, datatypes: 0, combiner: 0 };
        let Self { integers, addresses, datatypes, combiner } = &mut made;
        // SAFETY: the datatype is valid: a constant, one that the caller holds, or one that MPI has just handed out; the
        // places of the answers are ours.
        let code = unsafe { ffi::MPI_Type_get_envelope(datatype, integers, addresses, datatypes, combiner) };
        Failure::unless_success("MPI_Type_get_envelope", code)?;
        Ok(made)
    }
}
