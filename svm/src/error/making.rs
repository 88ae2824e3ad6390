//! Errors that are made of others, or in several places.

use std::io;
use std::path::Path;

use super::Error;

impl Error {
    /// Two processes of one node that have different stores.
    pub(crate) fn of_two_stores(first: usize, second: usize) -> Error {
        let problem = "run on one node, but with different stores: give all ranks of a node one SVMIO_STORE, or each \
                       emulated node a name of its own by SVMIO_NODE";
        Error::Misfit { first, second, problem }
    }

    /// Two processes of different nodes that have one store.
    pub(crate) fn of_shared_store(first: usize, second: usize) -> Error {
        let problem = "use one store, but say that they run on different nodes: give each node a store of its own by \
                       SVMIO_STORE, or one name by SVMIO_NODE";
        Error::Misfit { first, second, problem }
    }

    /// [`Error::Disunited`] with the file that the processes have open, and the number of this one; any other error as
    /// it is.
    pub(crate) fn over(self, name: impl Into<String>, member: usize) -> Error {
        match self {
            Error::Disunited { problem } => Error::DisunitedOver { member, name: name.into(), problem },
            other => other,
        }
    }

    /// The error for `source`, met while doing `subject` to `path`.
    pub(crate) fn io(subject: impl Into<String>, path: &Path, source: impl Into<io::Error>) -> Error {
        let (subject, path, source) = (subject.into(), path.to_path_buf(), source.into());
        // By kind: errors that carry a path within have no number any more.
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Access { subject, path },
            io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { subject, path },
            io::ErrorKind::StorageFull => Error::NoSpace { subject, path },
            io::ErrorKind::QuotaExceeded => Error::Quota { subject, path },
            _ => Error::Io { subject, path, source },
        }
    }
}
