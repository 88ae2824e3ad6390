//! Messages by MPI itself, for collectives over them: on communicators of their own, whose errors come back to the
//! caller.

use std::ffi::c_int;

use svmio_adio::abi::{Comm, SUCCESS};
use svmio_collectives::executor::{Error, Result};

use super::Stock;
use crate::family::Family;

/// `MPI_ANY_TAG`, equal in all families.
const ANY_TAG: c_int = -1;

/// A message that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Came {
    /// Its bytes.
    pub(crate) length: usize,
    pub(crate) tag: c_int,
}

impl<A: Family> Stock<A> {
    /// A further communicator of the members of `comm`, in the same order, without its attributes. To be called by all.
    pub(crate) fn twin(&self, comm: Comm<A>) -> Result<Comm<A>> {
        let mut twin = self.communicators.null;
        // SAFETY: stores a new communicator; the program vouches for `comm`.
        let code = unsafe { (self.functions.comm_split)(comm, 0, self.mpi.rank(comm), &raw mut twin) };
        check(code, "MPI_Comm_split")?;
        // SAFETY: it is the new one, and the handler one of MPI's own.
        let code = unsafe { (self.functions.comm_set_errhandler)(twin, self.communicators.errors_return) };
        check(code, "MPI_Comm_set_errhandler").inspect_err(|_| self.free_twin(twin))?;
        Ok(twin)
    }

    /// Frees a communicator of [`twin`](Self::twin)'s, which nobody uses any more. To be called by all.
    pub(crate) fn free_twin(&self, mut twin: Comm<A>) {
        // SAFETY: the caller vouches for it.
        unsafe { (self.functions.comm_free)(&raw mut twin) };
    }

    /// Sends `bytes`, which MPI can count, to a member of `comm`.
    pub(crate) fn send(&self, comm: Comm<A>, to: c_int, tag: c_int, bytes: &[u8]) -> Result<()> {
        let (byte, length) = (self.mpi.constants.byte, bytes.len() as c_int);
        // SAFETY: the buffer has so many bytes.
        let code = unsafe { (self.functions.send)(bytes.as_ptr().cast(), length, byte, to, tag, comm) };
        check(code, "MPI_Send")
    }

    /// Sends a message without bytes to a member of `comm`, and does not wait until it is received.
    pub(crate) fn notify(&self, comm: Comm<A>, to: c_int, tag: c_int) -> Result<()> {
        let (byte, none, mut request) =
            (self.mpi.constants.byte, std::ptr::null(), self.mpi.constants.request_null);
        // SAFETY: there is no buffer that would have to stay.
        let code = unsafe { (self.functions.isend)(none, 0, byte, to, tag, comm, &raw mut request) };
        check(code, "MPI_Isend")?;
        // SAFETY: the request was begun just now; a send that is not waited for may be freed.
        check(unsafe { (self.functions.request_free)(&raw mut request) }, "MPI_Request_free")
    }

    /// Receives the next message of a member of `comm`, which has no more bytes than `into`.
    pub(crate) fn receive(&self, comm: Comm<A>, from: c_int, into: &mut [u8]) -> Result<Came> {
        let (byte, length) = (self.mpi.constants.byte, into.len() as c_int);
        self.came("MPI_Recv", |status| {
            // SAFETY: the buffer has so many bytes, and the status is one of MPI's.
            unsafe {
                (self.functions.recv)(into.as_mut_ptr().cast(), length, byte, from, ANY_TAG, comm, status)
            }
        })
    }

    /// Sends to one and receives from another, or the same, side by side.
    pub(crate) fn exchange(
        &self,
        comm: Comm<A>,
        (to, tag, bytes): (c_int, c_int, &[u8]),
        (from, into): (c_int, &mut [u8]),
    ) -> Result<Came> {
        let byte = self.mpi.constants.byte;
        let (sent, received) = (bytes.len() as c_int, into.len() as c_int);
        let (bytes, into) = (bytes.as_ptr().cast(), into.as_mut_ptr().cast());
        self.came("MPI_Sendrecv", |status| {
            // SAFETY: the buffers have so many bytes, and lie apart as references do; the status is one of MPI's.
            unsafe {
                (self.functions.sendrecv)(
                    bytes, sent, byte, to, tag, into, received, byte, from, ANY_TAG, comm, status,
                )
            }
        })
    }

    /// What has come by a function that stores a status.
    fn came(&self, function: &'static str, receive: impl FnOnce(*mut A::Status) -> c_int) -> Result<Came> {
        let mut status = std::mem::MaybeUninit::<A::Status>::zeroed();
        check(receive(status.as_mut_ptr()), function)?;
        let mut length = 0;
        // SAFETY: the status is the one that was stored.
        let code =
            unsafe { (self.functions.get_count)(status.as_ptr(), self.mpi.constants.byte, &raw mut length) };
        check(code, "MPI_Get_count")?;
        // SAFETY: it is all integers, which were zero before MPI stored some of them.
        let tag = A::tag(unsafe { status.assume_init_ref() });
        Ok(Came { length: usize::try_from(length).unwrap_or(0), tag })
    }
}

fn check(code: c_int, function: &'static str) -> Result<()> {
    if code == SUCCESS { Ok(()) } else { Err(Error::HostCall { function, code }) }
}
