//! The transport's polling function, with a yield after polls that found nothing.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};

use crate::sys;

/// Polls in a row that find nothing before the core is given away.
///
/// MPICH polls some times in a call that does not wait at all (`MPI_Isend`, `MPI_Test`), and a message of
/// a rank that runs on another core arrives within a few polls: neither shall pay for a yield. A poll
/// takes some 50 ns, so that a rank that really waits keeps its core for a microsecond.
const EMPTY_POLLS_BEFORE_YIELD: u32 = 20;

thread_local! {
    /// Polls in a row, by this thread, that found nothing. `const` and without a destructor, so that it
    /// is plain thread-local memory: no registration, no allocation, usable at any time of a thread's life.
    static EMPTY_POLLS: Cell<u32> = const { Cell::new(0) };
}

/// Stands in front of UCX's function of the same name: polls once and returns what the poll found.
///
/// # Safety
///
/// `worker` is a live UCX worker, as `ucp_worker_progress` itself asks for.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ucp_worker_progress(worker: *mut c_void) -> c_uint {
    // SAFETY: the caller's promise on `worker` is passed on unchanged.
    let events = unsafe { sys::real_ucp_worker_progress(worker) };
    EMPTY_POLLS.with(|empty_polls| {
        if events != 0 {
            empty_polls.set(0);
        } else if empty_polls.get() < EMPTY_POLLS_BEFORE_YIELD {
            empty_polls.set(empty_polls.get() + 1);
        } else {
            empty_polls.set(0);
            sys::yield_core();
        }
    });
    events
}
