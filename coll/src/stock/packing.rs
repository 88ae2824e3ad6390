//! Packing by MPI, the errors of which come back to who packs: the others have to hear of them before the program's
//! error handler does.

use std::ffi::{c_int, c_void};

use svmio_adio::abi::{Abi, Comm, Datatype};

use super::{Stock, check};
use crate::error::{Error, Result};
use crate::family::Family;

/// Bytes that are packed at once at most: MPI counts them in an integer.
pub(super) const PACKED_AT_ONCE: usize = 1 << 30;

impl<A: Family> Stock<A> {
    /// Makes a communicator for packing, with an error handler of its own, and without the attributes that the program
    /// has of `MPI_COMM_SELF`: what these do when they go, at the end of MPI, is to be done once. To be called once, by
    /// one thread.
    pub(crate) fn begin_packing(&self) {
        if let Ok(comm) = self.twin(self.communicators.own) {
            let _ = self.packing.set(comm);
        }
    }

    /// Frees it. Nothing is packed any more.
    pub(crate) fn end_packing(&self) {
        if let Some(&comm) = self.packing.get() {
            self.free_twin(comm);
        }
    }

    /// One of this process alone.
    pub(super) fn packing(&self) -> Comm<A> {
        self.packing.get().copied().unwrap_or(self.communicators.own)
    }

    /// Packs `count` elements, each of so many bytes of data, one every `extent` bytes from `from` on.
    ///
    /// # Safety
    /// `from` is a buffer of so many elements of `datatype`, which has that size and extent; `into` has room for all.
    pub(crate) unsafe fn pack(
        &self,
        from: *const c_void,
        elements: &Elements<A>,
        into: &mut [u8],
    ) -> Result<()> {
        for (first, chunk) in elements.chunks(into) {
            let (from, datatype) =
                self.not_null(first as isize * elements.extent, from.cast_mut(), elements)?;
            let Ok(length) = c_int::try_from(chunk.len()) else {
                let row = self.row(chunk.len())?;
                // SAFETY: the caller vouches for the element; the chunk has room for it.
                unsafe { self.carry((from, &datatype), (chunk.as_mut_ptr().cast(), &row)) }?;
                continue;
            };
            let mut end = 0;
            let count = (chunk.len() / elements.size) as c_int;
            // SAFETY: the caller vouches for the elements; the chunk has room for them.
            let code = unsafe {
                let into = chunk.as_mut_ptr().cast();
                (self.functions.pack)(
                    from,
                    count,
                    datatype.handle,
                    into,
                    length,
                    &raw mut end,
                    self.packing(),
                )
            };
            check(code, "MPI_Pack")?;
            if end != length {
                return Err(Error::Packing { expected: length, found: end });
            }
        }
        Ok(())
    }

    /// The reverse.
    ///
    /// # Safety
    /// As for [`pack`](Self::pack).
    pub(crate) unsafe fn unpack(
        &self,
        from: &mut [u8],
        elements: &Elements<A>,
        into: *mut c_void,
    ) -> Result<()> {
        for (first, chunk) in elements.chunks(from) {
            let (into, datatype) = self.not_null(first as isize * elements.extent, into, elements)?;
            let Ok(length) = c_int::try_from(chunk.len()) else {
                let row = self.row(chunk.len())?;
                // SAFETY: as above.
                unsafe { self.carry((chunk.as_mut_ptr().cast(), &row), (into, &datatype)) }?;
                continue;
            };
            let mut end = 0;
            let count = (chunk.len() / elements.size) as c_int;
            // SAFETY: as above.
            let code = unsafe {
                let from = chunk.as_ptr().cast();
                (self.functions.unpack)(
                    from,
                    length,
                    &raw mut end,
                    into,
                    count,
                    datatype.handle,
                    self.packing(),
                )
            };
            check(code, "MPI_Unpack")?;
            if end != length {
                return Err(Error::Packing { expected: length, found: end });
            }
        }
        Ok(())
    }

    /// The place that is `offset` bytes behind `at`, and the elements' datatype. Where datatypes say addresses, the
    /// place is 0 (`MPI_BOTTOM`), which MPICH's packing takes for a mistake: then it is 1, and the datatype begins one
    /// byte before.
    fn not_null(
        &self,
        offset: isize,
        at: *mut c_void,
        elements: &Elements<A>,
    ) -> Result<(*mut c_void, Described<'_, A>)> {
        let at = at.wrapping_byte_offset(offset);
        let mut described = Described { stock: self, handle: elements.datatype, is_own: false };
        if at.is_null() {
            let (old, new) = (elements.datatype, &raw mut described.handle);
            // SAFETY: reads one block, stores a handle; the program vouches for its datatype.
            let code = unsafe { (self.functions.type_create_hindexed)(1, &1, &-1, old, new) };
            check(code, "MPI_Type_create_hindexed")?;
            described.is_own = true;
            // SAFETY: the datatype was made just now.
            check(unsafe { (self.functions.type_commit)(&raw mut described.handle) }, "MPI_Type_commit")?;
            return Ok((at.wrapping_byte_add(1), described));
        }
        Ok((at, described))
    }

    /// The same datatype, there as long as the answer: the program may free its own while it is in use.
    pub(crate) fn duplicate(&self, datatype: Datatype<A>) -> Result<Described<'_, A>> {
        let mut described = Described { stock: self, handle: datatype, is_own: false };
        // SAFETY: stores a handle; the program vouches for its datatype.
        let code = unsafe { (self.functions.type_dup)(datatype, &raw mut described.handle) };
        check(code, "MPI_Type_dup")?;
        described.is_own = true;
        Ok(described)
    }
}

/// A datatype, of the program's or of our own, which goes with this.
pub(crate) struct Described<'s, A: Family> {
    pub(super) stock: &'s Stock<A>,
    pub(crate) handle: Datatype<A>,
    pub(super) is_own: bool,
}

impl<A: Family> Drop for Described<'_, A> {
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: made by who has set it, and in no use any more.
            unsafe { (self.stock.functions.type_free)(&raw mut self.handle) };
        }
    }
}

/// Elements of a datatype in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements<A: Abi> {
    pub(crate) datatype: Datatype<A>,
    /// Bytes of data of each: not 0.
    pub(crate) size: usize,
    /// Bytes from one to the next.
    pub(crate) extent: isize,
}

impl<A: Abi> Elements<A> {
    /// Whole elements that can be packed at once, with the number of the first.
    fn chunks<'b>(&self, bytes: &'b mut [u8]) -> impl Iterator<Item = (usize, &'b mut [u8])> + use<'b, A> {
        let count = (PACKED_AT_ONCE / self.size).max(1);
        bytes.chunks_mut(count * self.size).enumerate().map(move |(chunk, bytes)| (chunk * count, bytes))
    }
}
