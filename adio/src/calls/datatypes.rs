//! What is asked of datatypes.

use std::ffi::{c_int, c_longlong};

use super::Mpi;
use crate::abi::{Abi, Datatype, SUCCESS};

/// The function that made a datatype. MPI-2's forms for Fortran's short addresses are not among them.
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
            5 => Combiner::Hvector,
            6 => Combiner::Indexed,
            8 => Combiner::Hindexed,
            9 => Combiner::IndexedBlock,
            11 => Combiner::Struct,
            12 => Combiner::Subarray,
            13 => Combiner::Darray,
            17 => Combiner::Resized,
            18 => Combiner::HindexedBlock,
            _ => return None,
        })
    }
}

/// What `MPI_Type_get_contents` tells. The datatypes are freed when it is dropped.
pub(crate) struct Contents<'a, A: Abi> {
    mpi: &'a Mpi<A>,
    pub(crate) combiner: Combiner,
    pub(crate) integers: Vec<c_int>,
    pub(crate) addresses: Vec<isize>,
    pub(crate) datatypes: Vec<Datatype<A>>,
}

impl<A: Abi> Drop for Contents<'_, A> {
    fn drop(&mut self) {
        for datatype in &mut self.datatypes {
            let mpi = self.mpi;
            let combiner = || Combiner::of(mpi.combiner(*datatype) - mpi.combiner(mpi.constants.byte));
            if mpi.has_large_counts(*datatype) || combiner() != Some(Combiner::Predefined) {
                // SAFETY: MPI_Type_get_contents gives new handles of types that are not predefined.
                unsafe { (mpi.type_free)(datatype) };
            }
        }
    }
}

impl<A: Abi> Mpi<A> {
    /// The bytes of data in one `datatype`.
    pub fn type_size(&self, datatype: Datatype<A>) -> u64 {
        let mut size: c_longlong = 0;
        // SAFETY: stores one MPI_Count; ROMIO has checked the datatype.
        unsafe { (self.type_size_x)(datatype, &raw mut size) };
        u64::try_from(size).unwrap_or(0)
    }

    /// Whether `datatype`, repeated, is bytes in a row and in order. Also false where that takes more to find out.
    pub fn is_contiguous(&self, datatype: Datatype<A>) -> bool {
        // What number a named type's combiner has differs between the families; MPI_BYTE has it in each. That of
        // MPI_Type_contiguous is two further on in each.
        let combiner = self.combiner(datatype) - self.combiner(self.constants.byte);
        const NAMED: c_int = 0;
        const CONTIGUOUS: c_int = 2;
        self.is_contiguous_in_file(datatype)
            && (combiner == NAMED || combiner == CONTIGUOUS && self.is_made_of_contiguous(datatype))
    }

    /// Whether `datatype`, seen in a file, is bytes in a row: file types are in order by MPI's rules.
    pub fn is_contiguous_in_file(&self, datatype: Datatype<A>) -> bool {
        let (mut lower, mut extent, mut true_lower, mut true_extent) = (0, 0, 0, 0);
        // SAFETY: each stores two MPI_Counts; ROMIO has checked the datatype.
        unsafe {
            (self.type_get_extent_x)(datatype, &raw mut lower, &raw mut extent);
            (self.type_get_true_extent_x)(datatype, &raw mut true_lower, &raw mut true_extent);
        }
        let size = self.type_size(datatype);
        lower == 0 && true_lower == 0 && extent == true_extent && u64::try_from(extent) == Ok(size)
    }

    /// The bytes from one `datatype` to the next in memory.
    pub fn extent(&self, datatype: Datatype<A>) -> i64 {
        let (mut lower, mut extent) = (0, 0);
        // SAFETY: stores two MPI_Counts; ROMIO has checked the datatype.
        unsafe { (self.type_get_extent_x)(datatype, &raw mut lower, &raw mut extent) };
        extent
    }

    /// Where the data of one `datatype` begins, and how many bytes further on it ends.
    pub(crate) fn true_extent(&self, datatype: Datatype<A>) -> (i64, i64) {
        let (mut lower, mut extent) = (0, 0);
        // SAFETY: stores two MPI_Counts; ROMIO has checked the datatype.
        unsafe { (self.type_get_true_extent_x)(datatype, &raw mut lower, &raw mut extent) };
        (lower, extent)
    }

    /// Whether the type that a contiguous `datatype` repeats is itself contiguous.
    fn is_made_of_contiguous(&self, datatype: Datatype<A>) -> bool {
        let (mut count, mut address, mut inner) = (0, 0isize, datatype);
        // SAFETY: the contents of MPI_Type_contiguous are one integer, no address and one datatype.
        let code = unsafe {
            (self.type_get_contents)(datatype, 1, 0, 1, &raw mut count, &raw mut address, &raw mut inner)
        };
        if code != SUCCESS {
            return false;
        }
        let contiguous = self.is_contiguous(inner);
        if self.combiner(inner) != self.combiner(self.constants.byte) {
            // SAFETY: MPI_Type_get_contents gives new handles of types that are not predefined.
            unsafe { (self.type_free)(&raw mut inner) };
        }
        contiguous
    }

    /// How `datatype` was made; `None` where that is not known here.
    pub(crate) fn contents(&self, datatype: Datatype<A>) -> Option<Contents<'_, A>> {
        if self.has_large_counts(datatype) {
            return None;
        }
        let (mut integers, mut addresses, mut datatypes, mut combiner) = (0, 0, 0, 0);
        let counts = (&raw mut integers, &raw mut addresses, &raw mut datatypes);
        // SAFETY: stores four integers; ROMIO has checked the datatype.
        let code =
            unsafe { (self.type_get_envelope)(datatype, counts.0, counts.1, counts.2, &raw mut combiner) };
        if code != SUCCESS {
            return None;
        }
        let combiner = Combiner::of(combiner - self.combiner(self.constants.byte))?;
        let (none, nowhere, nothing) = (Vec::new(), Vec::new(), Vec::new());
        let mut contents =
            Contents { mpi: self, combiner, integers: none, addresses: nowhere, datatypes: nothing };
        if combiner == Combiner::Predefined {
            return Some(contents);
        }
        let length = |count: c_int| usize::try_from(count).unwrap_or(0);
        contents.integers = vec![0; length(integers)];
        contents.addresses = vec![0; length(addresses)];
        // Any handle will do; MPI overwrites it.
        let mut types = vec![self.constants.byte; length(datatypes)];
        let (to, places) = (contents.integers.as_mut_ptr(), contents.addresses.as_mut_ptr());
        // SAFETY: the vectors have the lengths that the envelope told.
        let code = unsafe {
            (self.type_get_contents)(datatype, integers, addresses, datatypes, to, places, types.as_mut_ptr())
        };
        if code != SUCCESS {
            return None;
        }
        contents.datatypes = types;
        Some(contents)
    }

    /// Whether `datatype` has counts that only MPI 4's functions for large counts can tell. Those for small ones call
    /// its program's error handler then, which may end it.
    fn has_large_counts(&self, datatype: Datatype<A>) -> bool {
        type Envelope<A> = unsafe extern "C" fn(
            Datatype<A>,
            *mut c_longlong,
            *mut c_longlong,
            *mut c_longlong,
            *mut c_longlong,
            *mut c_int,
        ) -> c_int;
        // SAFETY: the type of the function in MPI 4.0, where alone it is.
        let Some(envelope) = (unsafe { self.stock::<Envelope<A>>("PMPI_Type_get_envelope_c\0") }) else {
            return false;
        };
        let (mut integers, mut addresses, mut large, mut datatypes, mut combiner) = (0, 0, 0, 0, 0);
        let numbers = (&raw mut integers, &raw mut addresses, &raw mut large, &raw mut datatypes);
        // SAFETY: stores four MPI_Counts and an integer; ROMIO has checked the datatype.
        let code =
            unsafe { envelope(datatype, numbers.0, numbers.1, numbers.2, numbers.3, &raw mut combiner) };
        code != SUCCESS || large != 0
    }

    fn combiner(&self, datatype: Datatype<A>) -> c_int {
        let (mut integers, mut addresses, mut datatypes, mut combiner) = (0, 0, 0, 0);
        let (integers, addresses, datatypes) = (&raw mut integers, &raw mut addresses, &raw mut datatypes);
        // SAFETY: stores four integers; ROMIO has checked the datatype.
        unsafe { (self.type_get_envelope)(datatype, integers, addresses, datatypes, &raw mut combiner) };
        combiner
    }
}
