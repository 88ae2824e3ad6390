//! What is asked of datatypes.

use std::ffi::{c_int, c_longlong};

use super::Mpi;
use crate::abi::{Abi, Datatype, SUCCESS};

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

    fn combiner(&self, datatype: Datatype<A>) -> c_int {
        let (mut integers, mut addresses, mut datatypes, mut combiner) = (0, 0, 0, 0);
        let (integers, addresses, datatypes) = (&raw mut integers, &raw mut addresses, &raw mut datatypes);
        // SAFETY: stores four integers; ROMIO has checked the datatype.
        unsafe { (self.type_get_envelope)(datatype, integers, addresses, datatypes, &raw mut combiner) };
        combiner
    }
}
