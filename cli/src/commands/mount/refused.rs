//! The system's numbers of errors: all that a program at the mounted directory is told.

use fuser::Errno;
use rustix::io::Errno as Number;
use svmio_svm::{Error, ErrorKind};

/// That something cannot be done, for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused(pub(super) Number);

/// What there is for the kernel, or why not.
pub(super) type Answer<T> = Result<T, Refused>;

impl Refused {
    /// The number as it is sent.
    pub(super) fn errno(self) -> Errno {
        Errno::from_i32(self.0.raw_os_error())
    }
}

impl From<Number> for Refused {
    fn from(number: Number) -> Refused {
        Refused(number)
    }
}

/// An error that a program could not make sense of by its number alone is told at length, too.
impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        let number = number_of(&error);
        let says_all = matches!(
            error,
            Error::NoSuchFile { .. }
                | Error::Exists { .. }
                | Error::BadName { .. }
                | Error::NotAFile { .. }
                | Error::NameTooLong { .. }
        );
        if !says_all {
            tracing::warn!("{error}");
        }
        Refused(number)
    }
}

fn number_of(error: &Error) -> Number {
    match error {
        Error::NotAFile { .. } => Number::NOTDIR,
        Error::NameTooLong { .. } => Number::NAMETOOLONG,
        Error::TooLarge { .. } => Number::FBIG,
        Error::TooManyFiles { .. } => Number::MFILE,
        Error::NotOpenedFor { .. } => Number::BADF,
        Error::OpenInAnotherJob { .. } | Error::InUseElsewhere { .. } | Error::BeingReplaced { .. } => {
            Number::BUSY
        }
        Error::StoresMissing { .. } | Error::NodesMissing { .. } => Number::REMOTEIO,
        Error::HostLost { .. } => Number::HOSTDOWN,
        // A program that copies instead is told why it cannot write.
        Error::SharedByNodes { .. } => Number::XDEV,
        Error::Io { source, .. } => Number::from_io_error(source).unwrap_or(Number::IO),
        error => match error.kind() {
            ErrorKind::NoSuchFile => Number::NOENT,
            ErrorKind::Exists => Number::EXIST,
            ErrorKind::BadName => Number::INVAL,
            ErrorKind::Access => Number::ACCESS,
            ErrorKind::ReadOnly => Number::ROFS,
            ErrorKind::NoSpace => Number::NOSPC,
            ErrorKind::Quota => Number::DQUOT,
            ErrorKind::Unsupported => Number::OPNOTSUPP,
            ErrorKind::OutOfReach => Number::REMOTEIO,
            _ => Number::IO,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn errors_have_the_numbers_that_programs_know() {
        let (name, path) = (|| "/x".to_owned(), || PathBuf::from("/s"));
        let io = |number: Number| Error::Io { subject: name(), path: path(), source: number.into() };
        let errors = [
            (Error::NoSuchFile { name: name(), stores: vec![path()] }, Number::NOENT),
            (Error::NameTooLong { name: name(), store: path() }, Number::NAMETOOLONG),
            (Error::BadName { name: name(), reason: "" }, Number::INVAL),
            (Error::NoSpace { subject: name(), path: path() }, Number::NOSPC),
            (Error::Quota { subject: name(), path: path() }, Number::DQUOT),
            (Error::ReadOnly { subject: name(), path: path() }, Number::ROFS),
            (Error::Access { subject: name(), path: path() }, Number::ACCESS),
            (Error::CorruptManifest { name: name(), path: path(), reason: name() }, Number::IO),
            (Error::StoresMissing { name: name(), parts: name() }, Number::REMOTEIO),
            (Error::OpenInAnotherJob { name: name() }, Number::BUSY),
            (io(Number::PIPE), Number::PIPE),
            (Error::OnHost { host: name(), kind: ErrorKind::NoSpace, message: name() }, Number::NOSPC),
        ];
        for (error, number) in errors {
            assert_eq!(Refused::from(error).errno(), Errno::from_i32(number.raw_os_error()), "{number}");
        }
    }
}
