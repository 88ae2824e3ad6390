//! Errors that come back where MPI would end the job.

use mpi::Threading;
use mpi::environment;

use super::*;

/// While it lives, errors that concern no file come back from MPI's functions: of what goes on in the background, and of
/// hints, MPI asks the handlers of communicators, which end the job as a rule.
///
/// Where several threads may call MPI at the same time it does nothing: they would change each other's handlers.
pub(super) struct Quiet([Option<Replaced>; 2]);

/// A communicator's own handler, which is not in force.
struct Replaced {
    communicator: ffi::MPI_Comm,
    handler: ffi::MPI_Errhandler,
}

impl Quiet {
    /// Begins.
    pub(super) fn begin() -> Self {
        if environment::threading_support() == Threading::Multiple {
            return Self([None, None]);
        }
        // SAFETY: MPI's constants. MPI-3 asks the handler of the one, MPI-4 that of the other.
        let communicators = unsafe { [ffi::RSMPI_COMM_WORLD, ffi::RSMPI_COMM_SELF] };
        Self(communicators.map(Replaced::of))
    }
}

impl Replaced {
    fn of(communicator: ffi::MPI_Comm) -> Option<Self> {
        let mut handler = MaybeUninit::uninit();
        // SAFETY: the communicator is one of MPI's own; the place of the answer is ours.
        let code = unsafe { ffi::MPI_Comm_get_errhandler(communicator, handler.as_mut_ptr()) };
        if code != ffi::MPI_SUCCESS as c_int {
            return None;
        }
        // SAFETY: MPI has written it, since it succeeded; the new one is MPI's constant.
        let handler = unsafe {
            ffi::MPI_Comm_set_errhandler(communicator, ffi::RSMPI_ERRORS_RETURN);
            handler.assume_init()
        };
        Some(Self { communicator, handler })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        for Replaced { communicator, handler } in self.0.iter_mut().flatten() {
            // SAFETY: both are as `of` had them, and the handler is given back once, here.
            unsafe {
                ffi::MPI_Comm_set_errhandler(*communicator, *handler);
                ffi::MPI_Errhandler_free(handler);
            }
        }
    }
}
