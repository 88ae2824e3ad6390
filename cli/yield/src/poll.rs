//! The transport's polling function, with a yield after polls that found nothing.

use std::cell::Cell;
use std::ffi::{CStr, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{farewell, sys};

/// Polls in a row that find nothing before the core is given away.
///
/// MPICH polls some times in a call that does not wait at all (`MPI_Isend`, `MPI_Test`), and a message of
/// a rank that runs on another core arrives within a few polls: neither shall pay for a yield. A poll
/// takes some 50 ns, so that a rank that really waits keeps its core for a microsecond.
const EMPTY_POLLS_BEFORE_YIELD: u32 = 20;

/// Set to [`NEVER`] for ranks that have a core each: they keep it.
const YIELD: &CStr = c"SVMIO_YIELD";
const NEVER: &CStr = c"never";

/// Whether waiting ranks yield. Relaxed: written before the program begins.
static YIELDS: AtomicBool = AtomicBool::new(true);

thread_local! {
    /// Polls in a row, by this thread, that found nothing. `const` and without a destructor, so that it
    /// is plain thread-local memory: no registration, no allocation, usable at any time of a thread's life.
    static EMPTY_POLLS: Cell<u32> = const { Cell::new(0) };
}

/// Reads whether to yield at all.
pub(crate) fn start() {
    YIELDS.store(!sys::environment_says(YIELD, NEVER), Ordering::Relaxed);
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
    farewell::polled(worker);
    if !YIELDS.load(Ordering::Relaxed) {
        return events;
    }
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
