//! What differs between the families of MPI, beyond what files need.

mod mpich;
mod openmpi;

use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use svmio_adio::abi::{Abi, Comm, Datatype, Errhandler, Op, Request};
use svmio_adio::library::{Library, SymbolError};
use svmio_adio::{Background, Failure};

use crate::operator::{Kind, Operator};
use crate::stock::Stock;

/// A family of MPIs, as collectives see it.
pub trait Family: Abi {
    /// The address that `MPI_IN_PLACE` is.
    const IN_PLACE: usize;

    /// Whether the elements of a predefined datatype are as long with each MPI of the family: not where a handle names
    /// one of Fortran's types, and has no size.
    const HANDLES_HAVE_SIZES: bool;

    /// The predefined communicators.
    ///
    /// # Errors
    /// A symbol that is missing.
    fn communicators(library: &Library) -> Result<Communicators<Self>, SymbolError>;

    /// What the elements of predefined datatypes are; of those that this MPI has. Where handles have no sizes, how long
    /// they usually are.
    fn kinds(library: &Library) -> Vec<(Datatype<Self>, Kind)>;

    /// The predefined operations.
    fn operators(library: &Library) -> Vec<(Op<Self>, Operator)>;

    /// Where the process keeps MPI's own functions.
    fn stock() -> &'static OnceLock<Stock<Self>>;

    /// Whether MPI can say how a datatype was made.
    fn is_described(_datatype: Datatype<Self>) -> bool {
        true
    }

    /// The tag of a message that was received (`MPI_TAG`).
    fn tag(status: &Self::Status) -> c_int;

    /// A request that is complete and there for ever, where this MPI has one.
    fn completed_request(_library: &Library) -> Option<Request<Self>> {
        None
    }

    /// A request for a collective in the background that is not a generalized one, where the adapter has such: complete
    /// when `operation` is over.
    fn own_request(
        _comm: Comm<Self>,
        _operation: &Arc<dyn Background>,
    ) -> Option<Result<Request<Self>, Failure>> {
        None
    }

    /// Whether a buffer argument is `MPI_IN_PLACE`.
    fn is_in_place(buffer: *const c_void) -> bool {
        buffer as usize == Self::IN_PLACE
    }
}

/// The predefined communicators.
#[derive(Debug, Clone, Copy)]
pub struct Communicators<A: Abi> {
    /// `MPI_COMM_WORLD`.
    pub world: Comm<A>,
    /// `MPI_COMM_SELF`.
    pub own: Comm<A>,
    /// `MPI_COMM_NULL`.
    pub null: Comm<A>,
    /// `MPI_ERRORS_RETURN`, an error handler for them.
    pub errors_return: Errhandler<A>,
    /// `MPI_ERRORS_ARE_FATAL`, the one that they have at first.
    pub errors_are_fatal: Errhandler<A>,
}
