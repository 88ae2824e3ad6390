//! How a failure gets through ROMIO to the program.
//!
//! Most MPIs return, and give a file's error handler, what ROMIO was told: a code of [`Failure::to_code`]. MPICH from 4.1
//! on makes a code of its own of what comes from ROMIO, and takes no code for that which was added for a program. There
//! ROMIO is told one of MPICH's kind, so that the error handler hears class and text, if in other words; and the failure
//! is kept for whoever called the stock function ([`heard`]), who returns the code with the whole text. MPICH 5 also
//! returns success where a handler of the program's has been called: the failure is told then, too.

use std::ffi::c_int;

use crate::abi::{Abi, MpiFile, SUCCESS};
use crate::calls::Mpi;
use crate::failure::Failure;
use crate::host::{CountType, HasHost};
use crate::noted::{Noted, Notes};
use crate::shared_pointer;

/// What ROMIO was told since this thread called a stock function, where MPI makes something else of it.
static FAILED: Notes<Failure> = Notes::new(&FAILED_HERE);

thread_local!(static FAILED_HERE: Noted<Failure> = const { Noted::nothing() });

/// The code by which ROMIO is told `failure`.
pub(crate) fn code_for_romio<A: HasHost>(failure: &Failure) -> c_int {
    let Ok(mpi) = Mpi::<A>::get() else { return A::error_class(failure.class) };
    let code = failure.to_code(mpi);
    if !(A::WRAPS_CODES && A::host().get().is_some_and(|host| host.generation().count == CountType::Aint)) {
        return code;
    }
    // The first one counts: an error handler that this one is given may go on to what fails as well.
    FAILED.set(FAILED.take().unwrap_or_else(|| failure.clone()));
    mpi.code_of_own_kind(failure)
}

/// Runs a stock function of the file `file`. Returns its code, or that of what ROMIO was told in it where MPI has made
/// something else of that, or ROMIO itself has: of a shared pointer that it could not get at.
pub fn heard<A: Abi>(mpi: &Mpi<A>, file: MpiFile, stock: impl FnOnce() -> c_int) -> c_int {
    // Within an error handler, that is another function's.
    let outer = FAILED.take();
    let (code, missed) = shared_pointer::missed_in(stock);
    let told = FAILED.replace(outer);
    match missed {
        // ROMIO takes it for a success: it has called no error handler.
        Some(missed) if code == SUCCESS && told.is_none() => mpi.report_on(file, missed.to_code(mpi)),
        missed => missed.or(told).map_or(code, |failure| failure.to_code(mpi)),
    }
}
