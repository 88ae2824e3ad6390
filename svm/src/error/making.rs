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
        // By kind where there is one: errors that carry a path within do not tell a number.
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Access { subject, path },
            io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { subject, path },
            io::ErrorKind::StorageFull => Error::NoSpace { subject, path },
            io::ErrorKind::QuotaExceeded => Error::Quota { subject, path },
            _ => match number(&source) {
                Some(libc::EMFILE) => Error::TooManyFiles { subject, path, way_out: OF_THIS_PROCESS },
                Some(libc::ENFILE) => Error::TooManyFiles { subject, path, way_out: OF_ALL },
                _ => Error::Io { subject, path, source },
            },
        }
    }

    /// The same for what a mapping takes beside segments.
    pub(crate) fn of_mapping(subject: impl Into<String>, path: &Path, source: impl Into<io::Error>) -> Error {
        match Error::io(subject, path, source) {
            Error::TooManyFiles { subject, path, way_out: OF_THIS_PROCESS } => {
                Error::TooManyFiles { subject, path, way_out: OF_MAPPINGS }
            }
            other => other,
        }
    }
}

const OF_THIS_PROCESS: &str = "let each process have more, by ulimit -n or the system's limits.conf, or fewer mapped \
                               segments, by SVMIO_MAPPINGS";
const OF_MAPPINGS: &str = "let each process have more, by ulimit -n or the system's limits.conf, or have fewer ranges \
                           mapped at a time: each takes five, a strict one three and one for each of its handlers";
const OF_ALL: &str =
    "the processes of this machine have all that it may have together: raise the sysctl fs.file-max";

/// The system's number of an error, also of one that a path was put around.
fn number(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| {
        let within = error.get_ref()?.source()?;
        number(within.downcast_ref()?)
    })
}
