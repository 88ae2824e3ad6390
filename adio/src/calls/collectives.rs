//! MPI's collectives that do not block, among the ranks of a communicator.

use std::ffi::c_int;

use super::{Mpi, check};
use crate::abi::{Abi, Comm, Request};
use crate::failure::Failure;

/// A collective that has begun, and the memory that MPI reads and writes for it, which is given back when it is
/// complete.
///
/// Dropping it before that leaves the memory to MPI for good: MPI may write to it still, and such a request can be
/// neither cancelled nor freed (MPI-3.1, section 5.12).
#[must_use]
pub(crate) struct Begun<A: Abi, T> {
    request: Request<A>,
    /// What this rank gives, where that is not in `all`: a box's, which MPI reads.
    own: *mut [T],
    /// What comes of it: a box's, which MPI writes.
    all: *mut [T],
    is_complete: bool,
}

impl<A: Abi, T> Begun<A, T> {
    /// Whether it is complete. Has MPI go on with all that it has to do.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub(crate) fn test(&mut self, mpi: &Mpi<A>) -> Result<bool, Failure> {
        if !self.is_complete {
            let (mut is_complete, status) = (0, A::STATUS_IGNORE as *mut A::Status);
            // SAFETY: the request is one of a collective that has begun and is not complete.
            let code = unsafe { (mpi.test)(&raw mut self.request, &raw mut is_complete, status) };
            check(code, "MPI_Test")?;
            self.is_complete = is_complete != 0;
        }
        Ok(self.is_complete)
    }

    /// What came of it; `None` before it is complete.
    pub(crate) fn result(&self) -> Option<&[T]> {
        // SAFETY: the box is there until the drop, and MPI is done with it.
        self.is_complete.then(|| unsafe { &*self.all })
    }
}

impl<A: Abi, T> Drop for Begun<A, T> {
    fn drop(&mut self) {
        if self.is_complete {
            // SAFETY: both came from boxes, and MPI is done with them.
            drop(unsafe { (Box::from_raw(self.own), Box::from_raw(self.all)) });
        }
    }
}

impl<A: Abi> Mpi<A> {
    /// Begins what [`Mpi::maxima`] does.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub(crate) fn begin_maxima(&self, comm: Comm<A>, values: &[i64]) -> Result<Begun<A, i64>, Failure> {
        let mut begun = self.begin(values, values.to_vec());
        let (count, long_long, max) = (values.len() as c_int, self.constants.long_long, self.constants.max);
        let (own, all) = (begun.own.cast_const().cast(), begun.all.cast());
        // SAFETY: both buffers are so many numbers of C's type long long, and stay until the request is complete.
        let code =
            unsafe { (self.iallreduce)(own, all, count, long_long, max, comm, &raw mut begun.request) };
        check(code, "MPI_Iallreduce").map(|()| begun)
    }

    /// Begins what [`Mpi::broadcast`] does.
    ///
    /// # Errors
    /// As [`Mpi::begin_maxima`].
    pub(crate) fn begin_broadcast(
        &self,
        comm: Comm<A>,
        root: c_int,
        bytes: &[u8],
    ) -> Result<Begun<A, u8>, Failure> {
        let mut begun = self.begin(&[], bytes.to_vec());
        let (all, count, byte) = (begun.all.cast(), bytes.len() as c_int, self.constants.byte);
        // SAFETY: the buffer has so many bytes, and stays until the request is complete.
        let code = unsafe { (self.ibcast)(all, count, byte, root, comm, &raw mut begun.request) };
        check(code, "MPI_Ibcast").map(|()| begun)
    }

    /// Begins to give `mine` to all ranks of `comm`, and everybody's, in the order of ranks, to this one. All are of
    /// one length.
    ///
    /// # Errors
    /// As [`Mpi::begin_maxima`].
    pub(crate) fn begin_all_gather(&self, comm: Comm<A>, mine: &[u8]) -> Result<Begun<A, u8>, Failure> {
        let ranks = self.size(comm).unsigned_abs() as usize;
        let mut begun = self.begin(mine, vec![0; mine.len() * ranks]);
        let (length, byte) = (mine.len() as c_int, self.constants.byte);
        let (own, all) = (begun.own.cast_const().cast(), begun.all.cast());
        // SAFETY: the second buffer has room for as much of each rank as the first has, and both stay until the request
        // is complete.
        let code =
            unsafe { (self.iallgather)(own, length, byte, all, length, byte, comm, &raw mut begun.request) };
        check(code, "MPI_Iallgather").map(|()| begun)
    }

    fn begin<T: Copy>(&self, own: &[T], all: Vec<T>) -> Begun<A, T> {
        let (own, all) = (Box::into_raw(own.into()), Box::into_raw(all.into_boxed_slice()));
        Begun { request: self.constants.request_null, own, all, is_complete: false }
    }
}
