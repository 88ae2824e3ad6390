//! Error codes, classes and handlers.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Mpi, check};
use crate::abi::{Abi, Errhandler, MpiFile, SUCCESS};
use crate::failure::{ErrorClass, Failure};

/// `MPIR_Err_create_code` of mpir_err.h, of MPICH 3 to 5, which its Fortran functions call: the code that led to this
/// one, whether the job has to end, the function and the line where it is made, the class, the name of a text, and a
/// format with its arguments.
pub(crate) type CreateErrorCode = unsafe extern "C" fn(
    c_int,
    c_int,
    *const c_char,
    c_int,
    c_int,
    *const c_char,
    *const c_char,
    ...
) -> c_int;

impl<A: Abi> Mpi<A> {
    /// A code of those that an MPICH makes for itself, of the class and with the text of `failure`; without a text where
    /// it cannot be made.
    pub(crate) fn code_of_own_kind(&self, failure: &Failure) -> c_int {
        let class = A::error_class(failure.class);
        let Some(create) = self.create_error_code else { return class };
        let text = failure.to_c_string::<A>();
        let (none, goes_on, line) = (SUCCESS, 0, 0);
        // SAFETY: strings, and one for the format's argument, of which it keeps a copy.
        unsafe {
            let (place, name, format) = (c"svmio".as_ptr(), c"**io".as_ptr(), c"%s".as_ptr());
            create(none, goes_on, place, line, class, name, format, text.as_ptr())
        }
    }

    /// A new error code in `class`.
    pub(crate) fn add_error_code(&self, class: c_int) -> Result<c_int, Failure> {
        let mut code = class;
        // SAFETY: stores one integer.
        check(unsafe { (self.add_error_code)(class, &raw mut code) }, "MPI_Add_error_code")?;
        Ok(A::dynamic_code(code))
    }

    /// The text of an error code that [`Mpi::add_error_code`] made.
    pub(crate) fn set_error_string(&self, code: c_int, text: &CStr) {
        // SAFETY: the text is a string of permitted length.
        unsafe { (self.add_error_string)(code, text.as_ptr()) };
    }

    /// Reports that this MPI lacks a function.
    pub fn missing(&self, function: &str) -> c_int {
        let message = format!("this MPI has no {function}");
        self.report(Failure::new(ErrorClass::Unsupported, message).to_code(self))
    }

    /// Has the error handler that files without a handle have deal with `code`, and returns it.
    pub fn report(&self, code: c_int) -> c_int {
        if code != SUCCESS {
            A::call_handler_without_file(self, code);
        }
        code
    }

    /// Has the error handler of the open file `file` deal with `code`, and returns it.
    pub fn report_on(&self, file: MpiFile, code: c_int) -> c_int {
        if code != SUCCESS {
            self.call_handler(file, code);
        }
        code
    }

    /// Has the error handler of the open file `file` deal with the code that `close` returns, which closes it, and
    /// returns that. MPI has handlers called for files only: meanwhile it is that of files without a handle.
    pub fn report_closed(&self, file: MpiFile, close: impl FnOnce() -> c_int) -> c_int {
        let Some(mut handler) = self.error_handler(file) else { return self.report(close()) };
        let code = close();
        if code != SUCCESS {
            let is_lent = self.lend_handler(handler);
            self.report(code);
            if is_lent {
                self.take_handler_back();
            }
        }
        // SAFETY: it came with a reference of its own.
        unsafe { (self.errhandler_free)(&raw mut handler) };
        code
    }

    /// Calls the error handler of `file`.
    pub(crate) fn call_handler(&self, file: MpiFile, code: c_int) {
        // SAFETY: the file is open, or MPI_FILE_NULL.
        unsafe { (self.file_call_errhandler)(file, code) };
    }

    /// Takes a reference to the error handler of `file`, which was just opened, for that to keep. MPICH's ROMIO gives new
    /// files the handler of files without a handle as it is, and takes a reference from it when they are closed: a
    /// handler that the program has freed would be gone then, though others still have it.
    pub(crate) fn keep_error_handler(&self, file: MpiFile) {
        let _kept = self.error_handler(file);
    }

    /// Gives the open file `file` the error handler that files without a handle have, as a new file gets it.
    pub(crate) fn reset_error_handler(&self, file: MpiFile) {
        let lent = lent();
        if let Some(own) = lent.as_ref().and_then(|lent| lent.downcast_ref::<Lent<Errhandler<A>>>()) {
            // SAFETY: the file is open.
            unsafe { (self.file_set_errhandler)(file, own.before) };
        } else if let Some(mut handler) = self.error_handler(self.constants.file_null) {
            // SAFETY: the file is open; the handler came with a reference of its own.
            unsafe {
                (self.file_set_errhandler)(file, handler);
                (self.errhandler_free)(&raw mut handler);
            }
        }
    }

    /// Gives files without a handle the error handler of a file, until [`Mpi::take_handler_back`]. Where two files are
    /// closed at once one of both handlers may be called for both; whoever waited for the other could wait for ever, as
    /// handlers may wait for other ranks. `false` where MPI does not tell what they have: it stays then.
    fn lend_handler(&self, handler: Errhandler<A>) -> bool {
        let mut lent = lent();
        match lent.as_mut().and_then(|lent| lent.downcast_mut::<Lent<Errhandler<A>>>()) {
            Some(lent) => lent.times += 1,
            None => {
                let Some(before) = self.error_handler(self.constants.file_null) else { return false };
                *lent = Some(Box::new(Lent { before, times: 1 }));
            }
        }
        // SAFETY: files without a handle have any handler of files.
        unsafe { (self.file_set_errhandler)(self.constants.file_null, handler) };
        true
    }

    fn take_handler_back(&self) {
        let mut lent = lent();
        let own = lent.as_mut().and_then(|lent| lent.downcast_mut::<Lent<Errhandler<A>>>());
        if let Some(mut before) = own.and_then(Lent::end) {
            // SAFETY: as above; it came with a reference of its own.
            unsafe {
                (self.file_set_errhandler)(self.constants.file_null, before);
                (self.errhandler_free)(&raw mut before);
            }
            *lent = None;
        }
    }

    /// The error handler of `file`.
    pub(crate) fn error_handler(&self, file: MpiFile) -> Option<Errhandler<A>> {
        let mut handler = std::mem::MaybeUninit::uninit();
        // SAFETY: stores the handler where it succeeds.
        unsafe {
            ((self.file_get_errhandler)(file, handler.as_mut_ptr()) == SUCCESS).then(|| handler.assume_init())
        }
    }
}

/// Files without a handle have handlers of others for a time.
struct Lent<H> {
    /// Their own.
    before: H,
    /// How many others are lent to them.
    times: usize,
}

impl<H: Copy> Lent<H> {
    /// One is taken back; returns their own when it was the last.
    fn end(&mut self) -> Option<H> {
        self.times -= 1;
        (self.times == 0).then_some(self.before)
    }
}

/// What is lent in this process, a `Lent` of its MPI's handlers.
fn lent() -> MutexGuard<'static, Option<Box<dyn Any + Send>>> {
    static LENT: Mutex<Option<Box<dyn Any + Send>>> = Mutex::new(None);
    // Changed by single assignments.
    LENT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_handler_is_there_again_after_the_last_one_lent() {
        let mut lent = Lent { before: 'o', times: 1 };
        lent.times += 1;
        assert_eq!((lent.end(), lent.end()), (None, Some('o')));
    }
}
