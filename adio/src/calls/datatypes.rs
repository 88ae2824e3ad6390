//! What is asked of datatypes.

use std::ffi::{c_int, c_longlong, c_void};

use super::{Mpi, check};
use crate::abi::{Abi, Comm, Datatype, SUCCESS};
use crate::failure::{ErrorClass, Failure};

/// The function that made a datatype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combiner {
    /// None: it is there from the beginning, and cannot be freed.
    Predefined,
    Dup,
    Contiguous,
    Vector,
    Hvector,
    Indexed,
    Hindexed,
    IndexedBlock,
    Struct,
    Subarray,
    Darray,
    Resized,
    HindexedBlock,
}

impl Combiner {
    /// By the distance of its number from `MPI_COMBINER_NAMED`, which is the same in the `mpi.h` of MPICH 4.0.2, where
    /// that is 1, and of Open MPI 4.1.4, where it is 0.
    fn of(distance: c_int) -> Option<Combiner> {
        Some(match distance {
            // MPI_Type_create_f90_real, _complex and _integer give predefined types, too.
            0 | 14 | 15 | 16 => Combiner::Predefined,
            1 => Combiner::Dup,
            2 => Combiner::Contiguous,
            3 => Combiner::Vector,
            // 4, 7 and 10 are MPI-2's forms for Fortran's short addresses.
            4 | 5 => Combiner::Hvector,
            6 => Combiner::Indexed,
            7 | 8 => Combiner::Hindexed,
            9 => Combiner::IndexedBlock,
            10 | 11 => Combiner::Struct,
            12 => Combiner::Subarray,
            13 => Combiner::Darray,
            17 => Combiner::Resized,
            18 => Combiner::HindexedBlock,
            _ => return None,
        })
    }
}

/// Which of Fortran's parameterized types a predefined one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameterized {
    Real,
    Complex,
    Integer,
}

/// What `MPI_Type_get_contents` tells. The datatypes are freed when it is dropped.
///
/// Of a datatype with large counts, these are among the integers, where small ones would be.
pub(crate) struct Contents<'a, A: Abi> {
    mpi: &'a Mpi<A>,
    pub(crate) combiner: Combiner,
    pub(crate) integers: Vec<i64>,
    pub(crate) addresses: Vec<i64>,
    pub(crate) datatypes: Vec<Datatype<A>>,
}

impl<A: Abi> Drop for Contents<'_, A> {
    fn drop(&mut self) {
        for datatype in &mut self.datatypes {
            if !self.mpi.is_predefined(*datatype) {
                // SAFETY: MPI_Type_get_contents gives new handles of types that are not predefined.
                unsafe { (self.mpi.type_free)(datatype) };
            }
        }
    }
}

/// What `MPI_Type_get_envelope` tells.
struct Envelope {
    integers: c_longlong,
    addresses: c_longlong,
    large_counts: c_longlong,
    datatypes: c_longlong,
    /// `None` where it is not known here.
    combiner: Option<Combiner>,
}

impl<A: Abi> Mpi<A> {
    /// The bytes of data in one `datatype`.
    pub fn type_size(&self, datatype: Datatype<A>) -> u64 {
        self.known_type_size(datatype).unwrap_or(0)
    }

    /// The bytes of data in one `datatype`; `None` where MPI says that it is none. The handler of `MPI_COMM_WORLD`
    /// hears of that, too.
    pub fn known_type_size(&self, datatype: Datatype<A>) -> Option<u64> {
        let mut size: c_longlong = 0;
        // SAFETY: stores one MPI_Count; of a handle that names nothing MPI says so.
        let code = unsafe { (self.type_size_x)(datatype, &raw mut size) };
        u64::try_from(size).ok().filter(|_| code == SUCCESS)
    }

    /// The bytes from one `datatype` to the next in memory.
    pub fn extent(&self, datatype: Datatype<A>) -> i64 {
        let (mut lower, mut extent) = (0, 0);
        // SAFETY: stores two MPI_Counts; ROMIO has checked the datatype.
        unsafe { (self.type_get_extent_x)(datatype, &raw mut lower, &raw mut extent) };
        extent
    }

    /// Where the data of one `datatype` begins, and how many bytes further on it ends.
    pub fn true_extent(&self, datatype: Datatype<A>) -> (i64, i64) {
        let (mut lower, mut extent) = (0, 0);
        // SAFETY: stores two MPI_Counts; ROMIO has checked the datatype.
        unsafe { (self.type_get_true_extent_x)(datatype, &raw mut lower, &raw mut extent) };
        (lower, extent)
    }

    /// What `datatype` is called.
    pub(crate) fn type_name(&self, datatype: Datatype<A>) -> Option<String> {
        // MPI_MAX_OBJECT_NAME is 128 in MPICH's mpi.h, and 64 in Open MPI's.
        let (mut name, mut length) = ([0_u8; 256], 0);
        // SAFETY: a name fits; ROMIO has checked the datatype.
        let code = unsafe { (self.type_get_name)(datatype, name.as_mut_ptr().cast(), &raw mut length) };
        let name = name.get(..usize::try_from(length).ok()?).filter(|_| code == SUCCESS)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// How `datatype` was made; `None` where that is not known here.
    pub(crate) fn contents(&self, datatype: Datatype<A>) -> Option<Contents<'_, A>> {
        let envelope = self.envelope(datatype)?;
        let combiner = envelope.combiner?;
        let (none, nowhere, nothing) = (Vec::new(), Vec::new(), Vec::new());
        let mut contents =
            Contents { mpi: self, combiner, integers: none, addresses: nowhere, datatypes: nothing };
        if combiner == Combiner::Predefined {
            return Some(contents);
        }
        let length = |count: c_longlong| usize::try_from(count).unwrap_or(0);
        let mut integers: Vec<c_int> = vec![0; length(envelope.integers)];
        let mut addresses = vec![0isize; length(envelope.addresses)];
        let mut large: Vec<c_longlong> = vec![0; length(envelope.large_counts)];
        // Any handle will do; MPI overwrites it.
        let mut types = vec![self.constants.byte; length(envelope.datatypes)];
        let (to, places, handles) = (integers.as_mut_ptr(), addresses.as_mut_ptr(), types.as_mut_ptr());
        let code = if large.is_empty() {
            let small = |count| c_int::try_from(count).ok();
            let counts = (small(envelope.integers)?, small(envelope.addresses)?, small(envelope.datatypes)?);
            // SAFETY: the vectors have the lengths that the envelope told.
            unsafe { (self.type_get_contents)(datatype, counts.0, counts.1, counts.2, to, places, handles) }
        } else {
            let contents = self.type_get_contents_c?;
            let Envelope { integers, addresses, large_counts, datatypes, .. } = envelope;
            let counts = large.as_mut_ptr();
            // SAFETY: as above.
            unsafe {
                contents(datatype, integers, addresses, large_counts, datatypes, to, places, counts, handles)
            }
        };
        if code != SUCCESS {
            return None;
        }
        let integers: Vec<i64> = integers.into_iter().map(i64::from).collect();
        contents.integers = match combiner {
            _ if large.is_empty() => integers,
            // The number of dimensions, and the order, are small.
            Combiner::Subarray => [integers.get(..1)?, &large, integers.get(1..)?].concat(),
            // Only the wholes are large.
            Combiner::Darray => [integers.get(..3)?, &large, integers.get(3..)?].concat(),
            _ => large,
        };
        contents.addresses = addresses.into_iter().map(|at| at as i64).collect();
        contents.datatypes = types;
        Some(contents)
    }

    /// By how much the number of the combiner that made `datatype` differs from `MPI_COMBINER_NAMED`, where it is none
    /// of
    /// [`Combiner`]'s.
    pub(crate) fn unknown_combiner(&self, datatype: Datatype<A>) -> Option<c_int> {
        let distance = self.raw_envelope(datatype)?.1 - self.combiner_named()?;
        Combiner::of(distance).is_none().then_some(distance)
    }

    /// Which of Fortran's parameterized types `datatype` is, if it is one: these have no names that would tell.
    pub(crate) fn parameterized(&self, datatype: Datatype<A>) -> Option<Parameterized> {
        // Numbered as `Combiner::of` has it.
        match self.raw_envelope(datatype)?.1 - self.combiner_named()? {
            14 => Some(Parameterized::Real),
            15 => Some(Parameterized::Complex),
            16 => Some(Parameterized::Integer),
            _ => None,
        }
    }

    fn envelope(&self, datatype: Datatype<A>) -> Option<Envelope> {
        let mut of = self.raw_envelope(datatype)?;
        of.0.combiner = Combiner::of(of.1 - self.combiner_named()?);
        Some(of.0)
    }

    /// The number of the combiner of predefined datatypes.
    fn combiner_named(&self) -> Option<c_int> {
        if let Some(known) = self.combiner_named.get() {
            return Some(*known);
        }
        let (_, named) = self.raw_envelope(self.constants.byte)?;
        Some(*self.combiner_named.get_or_init(|| named))
    }

    /// The envelope, and the combiner's number. MPI's functions for small counts call its program's error handler where
    /// a count is large, which may end it.
    fn raw_envelope(&self, datatype: Datatype<A>) -> Option<(Envelope, c_int)> {
        let mut envelope =
            Envelope { integers: 0, addresses: 0, large_counts: 0, datatypes: 0, combiner: None };
        let mut combiner = 0;
        if let Some(function) = self.type_get_envelope_c {
            let (integers, addresses) = (&raw mut envelope.integers, &raw mut envelope.addresses);
            let (large, datatypes) = (&raw mut envelope.large_counts, &raw mut envelope.datatypes);
            // SAFETY: stores four MPI_Counts and an integer; ROMIO has checked the datatype.
            let code =
                unsafe { function(datatype, integers, addresses, large, datatypes, &raw mut combiner) };
            return (code == SUCCESS).then_some((envelope, combiner));
        }
        let (mut integers, mut addresses, mut datatypes) = (0, 0, 0);
        let counts = (&raw mut integers, &raw mut addresses, &raw mut datatypes);
        // SAFETY: stores four integers; ROMIO has checked the datatype.
        let code =
            unsafe { (self.type_get_envelope)(datatype, counts.0, counts.1, counts.2, &raw mut combiner) };
        envelope = Envelope {
            integers: integers.into(),
            addresses: addresses.into(),
            datatypes: datatypes.into(),
            ..envelope
        };
        (code == SUCCESS).then_some((envelope, combiner))
    }
}

/// `MPI_Type_get_envelope_c` of MPI 4.0.
pub(super) type LargeEnvelope<A> = unsafe extern "C" fn(
    Datatype<A>,
    *mut c_longlong,
    *mut c_longlong,
    *mut c_longlong,
    *mut c_longlong,
    *mut c_int,
) -> c_int;
/// `MPI_Type_get_contents_c` of MPI 4.0, where alone there are large counts.
pub(super) type LargeContents<A> = unsafe extern "C" fn(
    Datatype<A>,
    c_longlong,
    c_longlong,
    c_longlong,
    c_longlong,
    *mut c_int,
    *mut isize,
    *mut c_longlong,
    *mut Datatype<A>,
) -> c_int;

/// `MPI_Type_copy_attr_function`.
pub(crate) type CopyAttribute<A> =
    unsafe extern "C" fn(Datatype<A>, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// `MPI_Type_delete_attr_function`.
pub(crate) type DeleteAttribute<A> =
    unsafe extern "C" fn(Datatype<A>, c_int, *mut c_void, *mut c_void) -> c_int;

impl<A: Abi> Mpi<A> {
    /// A key for attributes of datatypes.
    pub(crate) fn datatype_key(
        &self,
        copy: CopyAttribute<A>,
        delete: DeleteAttribute<A>,
    ) -> Result<c_int, Failure> {
        let mut key = 0;
        // SAFETY: stores one integer; the functions are there as long as the process.
        let code = unsafe { (self.type_create_keyval)(copy, delete, &raw mut key, std::ptr::null_mut()) };
        check(code, "MPI_Type_create_keyval").map(|()| key)
    }

    /// The attribute of `datatype` under `key`.
    pub(crate) fn datatype_attribute(&self, datatype: Datatype<A>, key: c_int) -> Option<*mut c_void> {
        let (mut attribute, mut is_there) = (std::ptr::null_mut::<c_void>(), 0);
        let to = (&raw mut attribute).cast();
        // SAFETY: stores a pointer and an integer; ROMIO has checked the datatype.
        let code = unsafe { (self.type_get_attr)(datatype, key, to, &raw mut is_there) };
        (code == SUCCESS && is_there != 0).then_some(attribute)
    }

    /// Gives `datatype` an attribute; false where it does not take it.
    pub(crate) fn set_datatype_attribute(
        &self,
        datatype: Datatype<A>,
        key: c_int,
        attribute: *mut c_void,
    ) -> bool {
        // SAFETY: ROMIO has checked the datatype; the pointer is for the key's own functions.
        unsafe { (self.type_set_attr)(datatype, key, attribute) == SUCCESS }
    }
}

impl<A: Abi> Mpi<A> {
    /// Whether `datatype` was there from the beginning.
    pub(crate) fn is_predefined(&self, datatype: Datatype<A>) -> bool {
        self.envelope(datatype).is_some_and(|envelope| envelope.combiner == Some(Combiner::Predefined))
    }

    /// Whether `datatype`, which is one, may be used for data: MPI itself judges, as one is sent to nobody. Where it
    /// cannot be asked, it may.
    pub(crate) fn is_committed(&self, datatype: Datatype<A>) -> bool {
        if self.is_predefined(datatype) {
            return true;
        }
        let Some(comm) = *self.judging.get_or_init(|| self.forgiving_comm()) else { return true };
        // MPICH looks at the datatype only where there is one, and somewhere.
        let (somewhere, one, tag) = ((&raw const comm).cast(), 1, 0);
        // SAFETY: of a message to MPI_PROC_NULL no byte is read; what is wrong with the datatype is returned.
        unsafe { (self.send)(somewhere, one, datatype, A::PROC_NULL, tag, comm) == SUCCESS }
    }

    /// A communicator of this process alone whose error handler returns; it stays until the process ends.
    fn forgiving_comm(&self) -> Option<Comm<A>> {
        let comm = self.another_self()?;
        // SAFETY: a communicator that was made just now, and a handler that is there from the beginning.
        let code = unsafe { (self.comm_set_errhandler)(comm, self.constants.errors_return) };
        (code == SUCCESS).then_some(comm)
    }

    /// A datatype of `bytes` bytes in a row, with a gap of so many before the next one.
    pub(crate) fn datatype_with_gap(&self, bytes: u64, gap: isize) -> Result<Datatype<A>, Failure> {
        let count = c_int::try_from(bytes).map_err(|_| {
            Failure::new(ErrorClass::Argument, format!("an elementary datatype of {bytes} bytes"))
        })?;
        let (mut run, mut with_gap) = (self.constants.byte, self.constants.byte);
        // SAFETY: each stores a handle.
        check(unsafe { (self.type_contiguous)(count, run, &raw mut run) }, "MPI_Type_contiguous")?;
        // SAFETY: likewise.
        let code = unsafe { (self.type_create_resized)(run, 0, count as isize + gap, &raw mut with_gap) };
        self.free_datatype(run);
        check(code, "MPI_Type_create_resized")?;
        // SAFETY: the datatype was made just now.
        check(unsafe { (self.type_commit)(&raw mut with_gap) }, "MPI_Type_commit").map(|()| with_gap)
    }

    /// Another handle of `datatype`.
    pub(crate) fn duplicate(&self, datatype: Datatype<A>) -> Result<Datatype<A>, Failure> {
        let mut copy = datatype;
        // SAFETY: stores a handle; ROMIO has checked the datatype.
        let code = unsafe { (self.type_dup)(datatype, &raw mut copy) };
        check(code, "MPI_Type_dup").map(|()| copy)
    }

    /// Frees a datatype that is not predefined.
    pub(crate) fn free_datatype(&self, datatype: Datatype<A>) {
        let mut datatype = datatype;
        // SAFETY: the handle is one of ours, or ROMIO's own copy of one.
        unsafe { (self.type_free)(&raw mut datatype) };
    }
}
