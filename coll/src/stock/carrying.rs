//! Elements of more bytes than MPI counts when it packs: each goes from its buffer to a row of bytes, or back, by a message
//! of this process to itself.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU16, Ordering};

use super::packing::{Described, PACKED_AT_ONCE};
use super::{Stock, check};
use crate::error::Result;
use crate::family::Family;

/// Messages of several threads have different ones of these, of which each MPI has as many.
static TAGS: AtomicU16 = AtomicU16::new(0);
const LARGEST_TAG: u16 = 32_767;

impl<A: Family> Stock<A> {
    /// Copies the data of an element to another one, which has as many bytes.
    ///
    /// # Safety
    /// Both are elements of their datatypes that may be read, and written, respectively, and have nothing in common.
    pub(super) unsafe fn carry(
        &self,
        (from, sent): (*mut c_void, &Described<'_, A>),
        (into, received): (*mut c_void, &Described<'_, A>),
    ) -> Result<()> {
        // Relaxed: only different numbers matter.
        let tag = c_int::from(TAGS.fetch_add(1, Ordering::Relaxed) & LARGEST_TAG);
        let comm = self.packing();
        let status = A::STATUS_IGNORE as *mut A::Status;
        // SAFETY: the caller vouches for the elements; the communicator has this process alone, of rank 0.
        let code = unsafe {
            (self.functions.sendrecv)(
                from,
                1,
                sent.handle,
                0,
                tag,
                into,
                1,
                received.handle,
                0,
                tag,
                comm,
                status,
            )
        };
        check(code, "MPI_Sendrecv")
    }

    /// A datatype of so many bytes in a row.
    pub(super) fn row(&self, length: usize) -> Result<Described<'_, A>> {
        let places: Vec<isize> = (0..length).step_by(PACKED_AT_ONCE).map(|place| place as isize).collect();
        let block = |&place: &isize| PACKED_AT_ONCE.min(length - place as usize) as c_int;
        let blocks: Vec<c_int> = places.iter().map(block).collect();
        let byte = self.mpi.constants.byte;
        let mut row = Described { stock: self, handle: byte, is_own: false };
        let (count, to) = (blocks.len() as c_int, &raw mut row.handle);
        // SAFETY: both lists have so many entries; stores a handle.
        let code = unsafe {
            (self.functions.type_create_hindexed)(count, blocks.as_ptr(), places.as_ptr(), byte, to)
        };
        check(code, "MPI_Type_create_hindexed")?;
        row.is_own = true;
        // SAFETY: the datatype was made just now.
        check(unsafe { (self.functions.type_commit)(&raw mut row.handle) }, "MPI_Type_commit")?;
        Ok(row)
    }
}
