//! What went wrong: a number for the program, a text for people, and no panic beyond here.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use svmio_svm::team::Tellable;
use svmio_svm::{Error, ErrorKind};

use crate::types::*;

/// The result of what a function of C's does.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// One of `SVM_ERR_…`.
    pub(crate) status: c_int,
    /// With the names that a person needs, and the way out.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn argument(message: impl Into<String>) -> Failure {
        Failure { status: SVM_ERR_ARGUMENT, message: message.into() }
    }

    pub(crate) fn state(message: impl Into<String>) -> Failure {
        Failure { status: SVM_ERR_STATE, message: message.into() }
    }

    /// The same, with what has gone wrong after it, if anything has.
    pub(crate) fn beside(self, outcome: Result) -> Failure {
        match outcome {
            Ok(()) => self,
            Err(other) => Failure { message: format!("{}; {}", self.message, other.message), ..self },
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let status = match &error {
            Error::FaultsRefused { .. } => SVM_ERR_FAULTS_REFUSED,
            Error::BadRange { .. } => SVM_ERR_RANGE,
            error => match error.kind() {
                ErrorKind::BadName => SVM_ERR_NAME,
                ErrorKind::NoSuchFile => SVM_ERR_NO_SUCH_FILE,
                ErrorKind::Exists => SVM_ERR_EXISTS,
                ErrorKind::Access => SVM_ERR_ACCESS,
                ErrorKind::ReadOnly => SVM_ERR_READ_ONLY,
                ErrorKind::NoSpace => SVM_ERR_NO_SPACE,
                ErrorKind::Quota => SVM_ERR_QUOTA,
                ErrorKind::Unsupported => SVM_ERR_UNSUPPORTED,
                _ => SVM_ERR_OTHER,
            },
        };
        let message = match status {
            SVM_ERR_FAULTS_REFUSED => format!("{error} (svm_open, svm_read_at and svm_write_at)"),
            _ => error.to_string(),
        };
        Failure { status, message }
    }
}

impl Tellable for Failure {
    fn told(self) -> (u32, String) {
        (self.status.unsigned_abs(), self.message)
    }

    fn heard(number: u32, message: String) -> Failure {
        let status = i32::try_from(number).map_or(SVM_ERR_OTHER, |number| -number);
        Failure { status, message }
    }
}

thread_local! {
    // Without a destructor it is there in exit handlers, too: the last text of a thread that is gone stays.
    static LAST: RefCell<ManuallyDrop<Option<CString>>> = const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Does what a function is for, and returns its outcome as C wants it.
pub(crate) fn reported(work: impl FnOnce() -> Result) -> c_int {
    numbered(|| work().map(|()| SVM_SUCCESS))
}

/// The same for a function that returns a number, not negative.
pub(crate) fn numbered(work: impl FnOnce() -> Result<c_int>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it says nothing");
        Err(Failure { status: SVM_ERR_INTERNAL, message: format!("an error of svmio's own: {said}") })
    });
    outcome.unwrap_or_else(|failure| {
        let text = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
        drop(ManuallyDrop::into_inner(LAST.replace(ManuallyDrop::new(Some(text)))));
        failure.status
    })
}

/// `svm_error`: what the last call of this thread that failed had to say.
pub(crate) extern "C" fn error() -> *const c_char {
    LAST.with_borrow(|last| last.as_deref().unwrap_or(c"").as_ptr())
}

/// `svm_strerror`: what a status means.
pub(crate) extern "C" fn strerror(status: c_int) -> *const c_char {
    let text: &CStr = match status {
        SVM_SUCCESS => c"success",
        SVM_ERR_ARGUMENT => c"an argument makes no sense",
        SVM_ERR_STATE => c"it cannot be done at this time",
        SVM_ERR_NAME => c"the name cannot be that of a file",
        SVM_ERR_NO_SUCH_FILE => c"there is no such file",
        SVM_ERR_EXISTS => c"the file exists already",
        SVM_ERR_ACCESS => c"access is refused",
        SVM_ERR_READ_ONLY => c"it can only be read",
        SVM_ERR_NO_SPACE => c"there is no space for it",
        SVM_ERR_QUOTA => c"the disk quota is used up",
        SVM_ERR_RANGE => c"the bytes cannot be mapped, or are not mapped",
        SVM_ERR_FAULTS_REFUSED => c"this process may not serve page faults",
        SVM_ERR_UNSUPPORTED => c"processes, nodes, stores or settings do not fit together",
        SVM_ERR_OTHER => c"the system, a node or a file failed",
        SVM_ERR_INTERNAL => c"an error of svmio's own",
        _ => c"no status of svmio's",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: it is this thread's text, which nothing changes meanwhile.
        unsafe { CStr::from_ptr(error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn every_outcome_is_a_number_with_a_text_for_its_thread() {
        assert_eq!(last(), "");
        assert_eq!(reported(|| Err(Failure::argument("no \0 such"))), SVM_ERR_ARGUMENT);
        assert_eq!(last(), "no   such");
        assert_eq!(reported(|| Ok(())), SVM_SUCCESS);
        assert_eq!(last(), "no   such", "success leaves it alone");
        std::thread::spawn(|| assert_eq!(last(), "")).join().unwrap();
    }

    #[test]
    fn panics_end_here() {
        assert_eq!(reported(|| panic!("number {}", 7)), SVM_ERR_INTERNAL);
        assert_eq!(last(), "an error of svmio's own: number 7");
    }

    #[test]
    fn members_hear_the_same_status() {
        for status in SVM_ERR_INTERNAL..=SVM_ERR_ARGUMENT {
            let failure = Failure { status, message: "told".into() };
            let (number, text) = failure.clone().told();
            assert_eq!(Failure::heard(number, text), failure);
            // SAFETY: it lasts as long as the program.
            assert!(!unsafe { CStr::from_ptr(strerror(status)) }.is_empty());
        }
    }
}
