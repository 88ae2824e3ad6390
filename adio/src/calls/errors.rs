//! Error codes, classes and handlers.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::sync::{Mutex, PoisonError};

use super::{Mpi, check};
use crate::abi::{Abi, Errhandler, MpiFile, SUCCESS};
use crate::failure::{ErrorClass, Failure};

impl<A: Abi> Mpi<A> {
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

    /// The stock `MPI_Error_class`.
    ///
    /// # Safety
    /// `class` is valid for a write.
    pub unsafe fn error_class(&self, code: c_int, class: *mut c_int) -> c_int {
        // SAFETY: the caller vouches for the pointer.
        unsafe { (self.error_class)(code, class) }
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
            one_at_a_time(|| {
                let Some(mut before) = self.error_handler(self.constants.file_null) else { return };
                // SAFETY: files without a handle have any handler of files; both came with references of their own.
                unsafe {
                    (self.file_set_errhandler)(self.constants.file_null, handler);
                    self.report(code);
                    (self.file_set_errhandler)(self.constants.file_null, before);
                    (self.errhandler_free)(&raw mut before);
                }
            });
        }
        // SAFETY: as above.
        unsafe { (self.errhandler_free)(&raw mut handler) };
        code
    }

    /// Calls the error handler of `file`.
    pub(crate) fn call_handler(&self, file: MpiFile, code: c_int) {
        // SAFETY: the file is open, or MPI_FILE_NULL.
        unsafe { (self.file_call_errhandler)(file, code) };
    }

    /// Gives the open file `file` the error handler that files without a handle have, as a new file gets it.
    pub(crate) fn reset_error_handler(&self, file: MpiFile) {
        if let Some(mut handler) = self.error_handler(self.constants.file_null) {
            // SAFETY: the file is open; the handler came with a reference of its own.
            unsafe {
                (self.file_set_errhandler)(file, handler);
                (self.errhandler_free)(&raw mut handler);
            }
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

/// Runs `swap`, which gives files without a handle another error handler for a time, while no other thread does so: it
/// would keep that one for the one of before. The handler itself may close files that fail to be closed.
fn one_at_a_time(swap: impl FnOnce()) {
    static SWAPPING: Mutex<()> = Mutex::new(());
    thread_local! {
        static IS_SWAPPING: Cell<bool> = const { Cell::new(false) };
    }
    if IS_SWAPPING.get() {
        return swap();
    }
    // What a panic elsewhere leaves is as good as ever.
    let _swapping = SWAPPING.lock().unwrap_or_else(PoisonError::into_inner);
    IS_SWAPPING.set(true);
    swap();
    IS_SWAPPING.set(false);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn threads_swap_handlers_one_at_a_time_and_a_handler_may_swap_again() {
        static WITHIN: AtomicUsize = AtomicUsize::new(0);
        let swap = || {
            one_at_a_time(|| {
                assert_eq!(WITHIN.fetch_add(1, Ordering::SeqCst), 0, "another thread swaps");
                let mut has_swapped_again = false;
                one_at_a_time(|| has_swapped_again = true);
                assert!(has_swapped_again);
                std::thread::yield_now();
                WITHIN.fetch_sub(1, Ordering::SeqCst);
            });
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| swap()));
            }
        });
    }
}
