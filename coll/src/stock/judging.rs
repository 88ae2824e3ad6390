//! Whether the handles of a call name what they are to, and its buffers may be the same: MPI itself judges. It is asked
//! by functions of a communicator that errors come back from, that for packing; an error of the others that would tell
//! is `MPI_COMM_WORLD`'s, whose handler may end the program before MPI has said what is wrong with the function that it
//! has called.

use std::ffi::{c_int, c_void};

use svmio_adio::abi::{Datatype, Op, SUCCESS};

use super::Stock;
use crate::component;
use crate::family::Family;

/// What a handle is for a call that moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A datatype.
    Usable,
    /// One that MPI refuses to move data of: it is not committed.
    Uncommitted,
    /// None.
    Unknown,
}

impl<A: Family> Stock<A> {
    /// What `datatype` is, which is none of the [known ones](Self::kind).
    #[inline]
    pub(crate) fn standing(&self, datatype: Datatype<A>) -> Standing {
        // MPI has looked before it calls a component.
        if component::is_there() {
            return Standing::Usable;
        }
        let Some(&comm) = self.packing.get() else { return Standing::Usable };
        // MPICH looks at the datatype only where there is one element, and somewhere.
        let (somewhere, one, tag) = ((&raw const comm).cast(), 1, 0);
        // SAFETY: of a message to MPI_PROC_NULL no byte is read; what is wrong with the datatype is returned.
        let code = unsafe { (self.functions.send)(somewhere, one, datatype, A::PROC_NULL, tag, comm) };
        match code {
            SUCCESS => Standing::Usable,
            _ if self.is_uncommitted(datatype) => Standing::Uncommitted,
            _ => Standing::Unknown,
        }
    }

    /// Whether `datatype`, which is of no use for data, is one all the same.
    #[cold]
    fn is_uncommitted(&self, datatype: Datatype<A>) -> bool {
        // Handlers cannot be replaced where other threads may call MPI.
        !self.mpi.has_many_threads() && self.quietly(|| self.mpi.known_type_size(datatype)).is_some()
    }

    /// Whether MPI refuses calls that name one buffer for what is sent and for what is received, as MPICH does unless
    /// its user has it not look: it is asked once, by a call without data.
    #[cold]
    pub(crate) fn refuses_aliases(&self) -> bool {
        let Some(&comm) = self.packing.get().filter(|_| !component::is_there()) else { return false };
        *self.refuses_aliases.get_or_init(|| {
            let (byte, mut nothing) = (self.mpi.constants.byte, 0_u8);
            let (at, none): (*mut c_void, *const c_int) = ((&raw mut nothing).cast(), &0);
            // SAFETY: the communicator has one process, which has no byte for itself; that it is refused is returned.
            let code =
                unsafe { (self.functions.alltoallv)(at, none, none, byte, at, none, none, byte, comm) };
            code != SUCCESS
        })
    }

    /// Whether the operands of `op`, which is none of the [known ones](Self::operator), may change places; `None` where
    /// it is no operation.
    pub(crate) fn is_commutative(&self, op: Op<A>) -> Option<bool> {
        if !component::is_there()
            && let Some(&comm) = self.packing.get()
        {
            let (byte, none, mut nothing) = (self.mpi.constants.byte, 0, 0_u8);
            let (in_place, into) = (A::IN_PLACE as *const c_void, (&raw mut nothing).cast());
            // SAFETY: no element is combined; what is wrong with the operation is returned.
            let code = unsafe { (self.functions.allreduce)(in_place, into, none, byte, op, comm) };
            if code != SUCCESS {
                return None;
            }
        }
        let mut answer: c_int = 0;
        // SAFETY: stores one integer; MPI knows the operation.
        let code = unsafe { (self.functions.op_commutative)(op, &raw mut answer) };
        Some(code == SUCCESS && answer != 0)
    }
}
