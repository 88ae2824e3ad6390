//! What MPI says of a call that failed.

use std::path::PathBuf;

use mpi::ffi;

/// A call of MPI's that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {call}: {text}", file.display())]
pub struct Error {
    file: PathBuf,
    call: &'static str,
    class: ErrorClass,
    text: String,
}

impl Error {
    pub(crate) fn new(file: PathBuf, call: &'static str, class: ErrorClass, text: String) -> Self {
        Self { file, call, class, text }
    }

    /// MPI's class of the error.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// The name of the file, as it was opened.
    pub fn file(&self) -> &std::path::Path {
        &self.file
    }

    /// The name of the MPI function.
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// What MPI, or the file system behind it, says of it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// MPI's classes of errors of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// Permission was denied.
    Access,
    /// The modes of opening contradict each other, or the file is not open for what is asked.
    AccessMode,
    /// An argument is not allowed.
    Argument,
    /// The name is no name of a file.
    BadFileName,
    /// A representation of data could not be converted.
    Conversion,
    /// The file exists, and should not.
    FileExists,
    /// The file is in use, and cannot be removed now.
    FileInUse,
    /// The device, or another node, failed.
    Io,
    /// There is no file of this name.
    NoSuchFile,
    /// There is no space left.
    NoSpace,
    /// Ranks differ where all must say the same.
    NotSame,
    /// The user's quota is used up.
    Quota,
    /// The file, or its file system, can only be read.
    ReadOnly,
    /// Less was moved than was to be: of a read, as [`Transferred::demand_all`](crate::Transferred::demand_all) tells,
    /// since the file ends before; of a write, though MPI did not say so. It is this crate's own.
    Short,
    /// There is no such representation of data.
    UnsupportedRepresentation,
    /// The file cannot do that.
    UnsupportedOperation,
    /// Any other, by MPI's number.
    Other(i32),
}

impl From<i32> for ErrorClass {
    fn from(class: i32) -> Self {
        let known = u32::try_from(class).ok().and_then(|class| {
            Some(match class {
                ffi::MPI_ERR_ACCESS => Self::Access,
                ffi::MPI_ERR_AMODE => Self::AccessMode,
                ffi::MPI_ERR_ARG | ffi::MPI_ERR_COUNT | ffi::MPI_ERR_TYPE => Self::Argument,
                ffi::MPI_ERR_BAD_FILE => Self::BadFileName,
                ffi::MPI_ERR_CONVERSION => Self::Conversion,
                ffi::MPI_ERR_FILE_EXISTS => Self::FileExists,
                ffi::MPI_ERR_FILE_IN_USE => Self::FileInUse,
                ffi::MPI_ERR_IO => Self::Io,
                ffi::MPI_ERR_NO_SUCH_FILE => Self::NoSuchFile,
                ffi::MPI_ERR_NO_SPACE => Self::NoSpace,
                ffi::MPI_ERR_NOT_SAME => Self::NotSame,
                ffi::MPI_ERR_QUOTA => Self::Quota,
                ffi::MPI_ERR_READ_ONLY => Self::ReadOnly,
                ffi::MPI_ERR_UNSUPPORTED_DATAREP => Self::UnsupportedRepresentation,
                ffi::MPI_ERR_UNSUPPORTED_OPERATION => Self::UnsupportedOperation,
                _ => return None,
            })
        });
        known.unwrap_or(Self::Other(class))
    }
}
