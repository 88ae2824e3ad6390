//! What goes wrong, as MPI tells it: an error class, and a text behind an error code of its own.

use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::sync::{Mutex, OnceLock, PoisonError};

use svmio_svm::team::Tellable;
use svmio_svm::{Error, ErrorKind};

use crate::abi::Abi;
use crate::calls::Mpi;

/// MPI's error classes that concern files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorClass {
    /// `MPI_ERR_ACCESS`.
    Access,
    /// `MPI_ERR_AMODE`.
    Amode,
    /// `MPI_ERR_ARG`.
    Argument,
    /// `MPI_ERR_BAD_FILE`.
    BadFile,
    /// `MPI_ERR_COMM`.
    Communicator,
    /// `MPI_ERR_FILE_EXISTS`.
    FileExists,
    /// `MPI_ERR_IO`.
    Io,
    /// `MPI_ERR_NO_SPACE`.
    NoSpace,
    /// `MPI_ERR_NO_SUCH_FILE`.
    NoSuchFile,
    /// `MPI_ERR_NOT_SAME`.
    NotSame,
    /// `MPI_ERR_OTHER`.
    Other,
    /// `MPI_ERR_QUOTA`.
    Quota,
    /// `MPI_ERR_READ_ONLY`.
    ReadOnly,
    /// `MPI_ERR_UNSUPPORTED_OPERATION`.
    Unsupported,
    /// `MPI_ERR_UNSUPPORTED_DATAREP`.
    UnsupportedRepresentation,
}

impl ErrorClass {
    const ALL: [ErrorClass; 15] = [
        ErrorClass::Access,
        ErrorClass::Amode,
        ErrorClass::Argument,
        ErrorClass::BadFile,
        ErrorClass::Communicator,
        ErrorClass::FileExists,
        ErrorClass::Io,
        ErrorClass::NoSpace,
        ErrorClass::NoSuchFile,
        ErrorClass::NotSame,
        ErrorClass::Other,
        ErrorClass::Quota,
        ErrorClass::ReadOnly,
        ErrorClass::Unsupported,
        ErrorClass::UnsupportedRepresentation,
    ];

    /// A number from 1 on, the same in every process, for telling other ranks.
    pub(crate) fn to_wire(self) -> u32 {
        self as u32 + 1
    }

    /// The class that [`ErrorClass::to_wire`] gave the number of.
    pub(crate) fn from_wire(number: u32) -> ErrorClass {
        let position = number.checked_sub(1).and_then(|number| Self::ALL.get(number as usize).copied());
        position.unwrap_or(ErrorClass::Other)
    }
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Its class.
    pub class: ErrorClass,
    /// What a person needs to know, file and way out included.
    pub message: String,
    /// An error code of this rank's MPI that tells it already.
    code: Option<c_int>,
}

impl Failure {
    /// A failure of a class, with its message.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Failure {
        Failure { class, message: message.into(), code: None }
    }

    /// The same, which MPI told by an error code that already says why.
    pub fn with_code(mut self, code: c_int) -> Failure {
        self.code = Some(code);
        self
    }

    /// Logs it whole where an error string of this MPI has no room for that.
    pub(crate) fn tell_if_cut<A: Abi>(&self) {
        if self.message.len() >= A::MAX_ERROR_STRING {
            tracing::warn!("{}", self.message);
        }
    }

    /// The same, with the rank on which it happened.
    pub(crate) fn on_rank(mut self, rank: c_int) -> Failure {
        if !self.message.starts_with("rank ") {
            self.message = format!("rank {rank}: {}", self.message);
        }
        self
    }

    /// The same, with the rank and the node on which it happened.
    pub(crate) fn on_node(mut self, rank: c_int, node: &str) -> Failure {
        if !self.message.starts_with("rank ") {
            self.message = format!("rank {rank} on node {node}: {}", self.message);
        }
        self
    }

    /// The message, as long as an error string of this MPI may be.
    pub(crate) fn to_c_string<A: Abi>(&self) -> CString {
        to_c_string(&self.message, A::MAX_ERROR_STRING)
    }

    /// An MPI error code whose string is the message.
    pub fn to_code<A: Abi>(&self, mpi: &Mpi<A>) -> c_int {
        if let Some(code) = self.code {
            return code;
        }
        tracing::debug!("{}", self.message);
        let class = A::error_class(self.class);
        let mut codes = codes().lock().unwrap_or_else(PoisonError::into_inner);
        codes.entry(self.class).or_default().code(&self.message, mpi, class)
    }
}

impl Tellable for Failure {
    fn told(self) -> (u32, String) {
        (self.class.to_wire(), self.message)
    }

    fn heard(number: u32, text: String) -> Failure {
        Failure::new(ErrorClass::from_wire(number), text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let class = match error.kind() {
            // MPI has a class of its own for it; access is what others refuse.
            _ if matches!(error, Error::NotOpenedFor { what: "writing", .. }) => ErrorClass::ReadOnly,
            ErrorKind::BadName => ErrorClass::BadFile,
            ErrorKind::NoSuchFile => ErrorClass::NoSuchFile,
            ErrorKind::Exists => ErrorClass::FileExists,
            ErrorKind::Access => ErrorClass::Access,
            ErrorKind::ReadOnly => ErrorClass::ReadOnly,
            ErrorKind::NoSpace => ErrorClass::NoSpace,
            ErrorKind::Quota => ErrorClass::Quota,
            ErrorKind::Unsupported => ErrorClass::Unsupported,
            _ => ErrorClass::Io,
        };
        Failure::new(class, error.to_string())
    }
}

/// The failure behind a code that [`Failure::to_code`] made; `None` for all others.
pub fn behind(code: c_int) -> Option<Failure> {
    let codes = codes().lock().unwrap_or_else(PoisonError::into_inner);
    codes.iter().find_map(|(class, known)| {
        let (_, message) = known.codes.iter().find(|(known, _)| *known == code)?;
        Some(Failure { class: *class, message: message.clone(), code: Some(code) })
    })
}

/// How many codes a class may have: MPI libraries have room for a few thousand in all, and a program that
/// runs for days may fail in many ways. The oldest then gets a new string.
const CODES_PER_CLASS: usize = 64;

#[derive(Default)]
struct ClassCodes {
    codes: Vec<(c_int, String)>,
    oldest: usize,
}

impl ClassCodes {
    fn code<A: Abi>(&mut self, message: &str, mpi: &Mpi<A>, class: c_int) -> c_int {
        if let Some((code, _)) = self.codes.iter().find(|(_, known)| known == message) {
            return *code;
        }
        if self.codes.len() < CODES_PER_CLASS {
            let Ok(code) = mpi.add_error_code(class) else { return class };
            self.codes.push((code, String::new()));
            self.oldest = self.codes.len() - 1;
        } else {
            self.oldest = (self.oldest + 1) % CODES_PER_CLASS;
        }
        let (code, known) = &mut self.codes[self.oldest];
        known.clear();
        known.push_str(message);
        mpi.set_error_string(*code, &to_c_string(message, A::MAX_ERROR_STRING));
        *code
    }
}

fn codes() -> &'static Mutex<HashMap<ErrorClass, ClassCodes>> {
    static CODES: OnceLock<Mutex<HashMap<ErrorClass, ClassCodes>>> = OnceLock::new();
    CODES.get_or_init(Mutex::default)
}

/// `text`, cut where needed to fit with its closing zero into `limit` bytes.
fn to_c_string(text: &str, limit: usize) -> CString {
    const CUT: &str = "...";
    let mut text = text.replace('\0', " ");
    if text.len() >= limit {
        let end = (0..=limit - 1 - CUT.len()).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(end);
        text.push_str(CUT);
    }
    CString::new(text).expect("zeros were replaced")
}

#[cfg(test)]
mod tests {
    use svmio_svm::{FileName, FileOffset, OpenOptions, Store};

    use super::*;

    #[test]
    fn classes_survive_the_wire() {
        for class in ErrorClass::ALL {
            assert_eq!(ErrorClass::from_wire(class.to_wire()), class);
        }
    }

    #[test]
    fn changing_a_file_that_is_open_for_reading_only_is_of_the_class_that_mpi_has_for_that() {
        let directory = tempfile::tempdir().expect("directories can be made");
        let store = Store::open(directory.path()).expect("a new store opens");
        let name = FileName::new("/f").expect("it is a name");
        drop(store.open_file(&name, &OpenOptions::read_write().create(true)).expect("it is made"));
        let file = store.open_file(&name, &OpenOptions::reading()).expect("it is there");
        for outcome in [file.preallocate(1), file.set_size(1)] {
            let failure = Failure::from(outcome.expect_err("it is open for reading only"));
            assert_eq!(failure.class, ErrorClass::ReadOnly, "{failure}");
        }
        let file = store.open_file(&name, &OpenOptions::writing()).expect("it is there");
        let failure =
            Failure::from(file.read_at(FileOffset(0), &mut [0]).expect_err("it is open for writing only"));
        assert_eq!(failure.class, ErrorClass::Access, "{failure}");
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let text = to_c_string(&"ä".repeat(300), 256);
        assert!(text.as_bytes().len() < 256);
        assert!(text.to_str().expect("whole characters").ends_with("ä..."));
        assert_eq!(to_c_string("short", 256).to_bytes(), b"short");
    }
}
