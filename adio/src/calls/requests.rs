//! Statuses, and requests that are complete when they start.

use std::ffi::{c_int, c_longlong, c_void};

use super::{Mpi, check};
use crate::abi::{Abi, Request, SUCCESS};
use crate::failure::{ErrorClass, Failure};

impl<A: Abi> Mpi<A> {
    /// Makes `status` tell of `bytes` bytes.
    ///
    /// # Safety
    /// `status` is one, or MPI's constant for ignoring it.
    pub unsafe fn set_status(&self, status: *mut A::Status, bytes: u64) {
        if status as usize != A::STATUS_IGNORE {
            // SAFETY: the caller vouches for the status.
            unsafe { (self.status_set_elements_x)(status, self.constants.byte, bytes as c_longlong) };
        }
    }

    /// A request that is complete, with `bytes` bytes in its status.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub fn completed_request(&self, bytes: u64) -> Result<Request<A>, Failure> {
        let mut request = self.constants.request_null;
        let state = Box::into_raw(Box::new(bytes));
        // SAFETY: the three functions take the state that is given here, which `free` releases.
        let code = unsafe {
            (self.grequest_start)(
                query_request::<A>,
                free_request,
                cancel_request,
                state.cast(),
                &raw mut request,
            )
        };
        check(code, "MPI_Grequest_start").inspect_err(|_| {
            // SAFETY: MPI did not take the state; it came from a box just now.
            drop(unsafe { Box::from_raw(state) });
        })?;
        // SAFETY: the request was started just now.
        check(unsafe { (self.grequest_complete)(request) }, "MPI_Grequest_complete")?;
        Ok(request)
    }
}

unsafe extern "C" fn query_request<A: Abi>(state: *mut c_void, status: *mut A::Status) -> c_int {
    // SAFETY: the state is the box of `completed_request`, alive until `free_request`.
    let bytes = unsafe { *state.cast::<u64>() };
    let Ok(mpi) = Mpi::<A>::get() else { return A::error_class(ErrorClass::Other) };
    // SAFETY: MPI passes a status of its own.
    unsafe {
        mpi.set_status(status, bytes);
        (mpi.status_set_cancelled)(status, 0)
    }
}

unsafe extern "C" fn free_request(state: *mut c_void) -> c_int {
    // SAFETY: the state is the box of `completed_request`, and MPI frees a request once.
    drop(unsafe { Box::from_raw(state.cast::<u64>()) });
    SUCCESS
}

unsafe extern "C" fn cancel_request(_: *mut c_void, _: c_int) -> c_int {
    // It is complete: too late for cancelling, which MPI permits.
    SUCCESS
}
