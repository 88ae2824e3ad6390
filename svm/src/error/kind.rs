//! What kind of error an error is: all that other nodes and programs are told besides its words.

use serde::{Deserialize, Serialize};

use super::Error;

/// What kind of error an [`Error`] is, for those who act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The name cannot be that of a file here.
    BadName,
    /// There is no such file.
    NoSuchFile,
    /// The file exists already.
    Exists,
    /// Access is refused.
    Access,
    /// It can only be read.
    ReadOnly,
    /// There is no space for it.
    NoSpace,
    /// The quota is used up.
    Quota,
    /// It cannot be done with what there is, or as it is set.
    Unsupported,
    /// Anything else.
    Other,
    /// Parts of it lie on nodes that take no part.
    OutOfReach,
}

impl ErrorKind {
    const ALL: [ErrorKind; 10] = [
        ErrorKind::BadName,
        ErrorKind::NoSuchFile,
        ErrorKind::Exists,
        ErrorKind::Access,
        ErrorKind::ReadOnly,
        ErrorKind::NoSpace,
        ErrorKind::Quota,
        ErrorKind::Unsupported,
        ErrorKind::Other,
        ErrorKind::OutOfReach,
    ];

    /// A number that stands for it in shared memory.
    pub(crate) fn code(self) -> u8 {
        Self::ALL.iter().position(|kind| *kind == self).unwrap_or(Self::ALL.len()) as u8
    }

    /// What [`ErrorKind::code`] stands for.
    pub(crate) fn from_code(code: u8) -> ErrorKind {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(ErrorKind::Other)
    }

    /// Why bytes did not get there, to be said after what is lost.
    pub(super) fn reason(self) -> &'static str {
        match self {
            ErrorKind::NoSpace => "no space was left there",
            ErrorKind::Quota => "the disk quota was exceeded there",
            ErrorKind::Access => "access was refused there",
            ErrorKind::ReadOnly => "the store there can only be read",
            ErrorKind::NoSuchFile => "the file was not there any more",
            _ => "the home could not be reached, or refused them",
        }
    }
}

impl Error {
    /// What kind of error it is; of one on another node, what kind it is there.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::BadName { .. } | Error::NameTooLong { .. } | Error::NotAFile { .. } => ErrorKind::BadName,
            Error::NoSuchFile { .. } => ErrorKind::NoSuchFile,
            Error::Exists { .. } => ErrorKind::Exists,
            Error::Access { .. } | Error::NotOpenedFor { .. } | Error::FaultsRefused { .. } => {
                ErrorKind::Access
            }
            Error::ReadOnly { .. } => ErrorKind::ReadOnly,
            Error::NoSpace { .. } | Error::TooLarge { .. } => ErrorKind::NoSpace,
            Error::Quota { .. } => ErrorKind::Quota,
            Error::Misfit { .. } | Error::SharedByNodes { .. } | Error::Settings { .. } => {
                ErrorKind::Unsupported
            }
            // The same settings, found to be wrong where the fabric is prepared.
            Error::Fabric { source: svmio_transport::Error::Setting { .. }, .. } => ErrorKind::Unsupported,
            Error::LeftBehind { source, .. } => source.kind(),
            Error::OnNode { kind, .. } | Error::OnHost { kind, .. } | Error::WritesLost { kind, .. } => *kind,
            Error::OfMember { kind, .. } | Error::NotStaged { kind, .. } => *kind,
            Error::Unsynced(unsynced) => unsynced.kind,
            Error::NodesMissing { .. } => ErrorKind::OutOfReach,
            _ => ErrorKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_makes_no_sense_is_of_one_kind_wherever_it_is_found() {
        let fabric = |source| Error::Fabric { subject: "joining the job".into(), source };
        let (place, problem) = ("SVMIO_FABRIC".to_owned(), "bogus".to_owned());
        let setting = fabric(svmio_transport::Error::Setting { place, problem: problem.clone() });
        assert_eq!(setting.kind(), ErrorKind::Unsupported);
        assert_eq!(Error::Settings { problem: problem.clone() }.kind(), ErrorKind::Unsupported);
        assert_eq!(fabric(svmio_transport::Error::StartUp { problem }).kind(), ErrorKind::Other);
    }
}
