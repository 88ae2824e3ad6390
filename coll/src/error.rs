//! What can go wrong in a collective.

use std::ffi::c_int;

use svmio_adio::{ErrorClass, Failure};
use svmio_collectives::executor;
use svmio_transport::Error as Fabric;

/// What functions of this crate return.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a collective.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Error {
    /// The group's: a lost member above all.
    #[error(transparent)]
    Group(#[from] executor::Error),
    /// MPI's own, of a function that was called on the way.
    #[error("{function} failed with code {code}")]
    Mpi { function: &'static str, code: c_int },
    /// A packed buffer that does not hold as much as its datatype says.
    #[error("MPI packs {found} bytes of a datatype with {expected}")]
    Packing { expected: c_int, found: c_int },
}

impl Error {
    /// Whether the group has nothing to do with it.
    pub(crate) fn is_of_mpi(&self) -> bool {
        !matches!(self, Self::Group(_))
    }

    /// Whether the fabric tells all members of what has gone wrong.
    pub(crate) fn is_heard_by_all(&self) -> bool {
        matches!(self, Self::Group(executor::Error::Fabric(Fabric::PeerLost { .. } | Fabric::Ending { .. })))
    }

    pub(crate) fn to_failure(&self) -> Failure {
        Failure::new(ErrorClass::Other, self.to_string())
    }
}
