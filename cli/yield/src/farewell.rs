//! UCX goes on while MPICH waits for the launcher at the end of `MPI_Finalize`.
//!
//! UCX's TCP transport holds an endpoint flushed only when the peer has acknowledged it, and a peer
//! acknowledges when it polls. MPICH closes its endpoints, polls until its own are flushed, and then waits
//! for the other ranks in the process manager's barrier, where it does not poll: a rank that gets there
//! before it has seen another's request never acknowledges it, and the other never gets there. This is so in
//! MPICH 4.0 with UCX 1.13, and nothing that a program does before `MPI_Finalize` prevents it: each message
//! makes a flush necessary again.
//!
//! So the wait for the barrier's answer is made one that polls. It is a `read` from the descriptor that
//! the process manager gave the rank (`PMI_FD`). What is polled is what the same thread polled since it closed
//! an endpoint, and will destroy thereafter: no worker is used by two threads.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{size_t, ssize_t};

use crate::sys;

/// Names the descriptor on which a rank talks with its process manager, in the rank's environment.
const PROCESS_MANAGER: &CStr = c"PMI_FD";

/// No descriptor.
const NONE: c_int = -1;

/// MPICH makes as many workers as it has virtual communication interfaces, at most 64.
const MOST_WORKERS: usize = 64;

/// Polls in a row that find nothing before a waiting rank sleeps between them.
const EMPTY_POLLS_BEFORE_SLEEP: u32 = 100;

/// How long it sleeps then, in milliseconds; the process manager's answer ends it.
const SLEEP: c_int = 1;

/// The process manager's descriptor, from an endpoint's closing until a worker's end.
///
/// Relaxed: the thread that waits for the process manager is the one that wrote it. Others may see an old
/// value, and have no workers to poll then, or remember one too many, or none.
static LEAVING: AtomicI32 = AtomicI32::new(NONE);

/// Workers, each once.
struct Workers {
    places: [Cell<*mut c_void>; MOST_WORKERS],
    count: Cell<usize>,
}

thread_local! {
    /// What this thread has polled since it closed an endpoint. Plain memory, as `poll`'s.
    static POLLED: Workers = const {
        Workers { places: [const { Cell::new(ptr::null_mut()) }; MOST_WORKERS], count: Cell::new(0) }
    };
}

/// Hears of each poll.
#[inline]
pub(crate) fn polled(worker: *mut c_void) {
    if LEAVING.load(Ordering::Relaxed) != NONE {
        POLLED.with(|polled| polled.remember(worker));
    }
}

/// Stands in front of UCX's function of the same name, which MPICH calls in `MPI_Finalize` only.
///
/// # Safety
///
/// `endpoint` is a live UCX endpoint.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ucp_disconnect_nb(endpoint: *mut c_void) -> *mut c_void {
    POLLED.with(|polled| polled.count.set(0));
    LEAVING.store(sys::number_in_environment(PROCESS_MANAGER).unwrap_or(NONE), Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe { sys::real_ucp_disconnect_nb(endpoint) }
}

/// Stands in front of UCX's function of the same name.
///
/// # Safety
///
/// `worker` is a live UCX worker, of which this is the end.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ucp_worker_destroy(worker: *mut c_void) {
    LEAVING.store(NONE, Ordering::Relaxed);
    POLLED.with(|polled| polled.count.set(0));
    // SAFETY: the caller's promise.
    unsafe { sys::real_ucp_worker_destroy(worker) }
}

/// Stands in front of the C library's function of the same name.
///
/// # Safety
///
/// `buffer` is valid for `length` bytes, or the kernel refuses it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn read(descriptor: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    if descriptor != NONE && descriptor == LEAVING.load(Ordering::Relaxed) {
        POLLED.with(|polled| polled.poll_until_readable(descriptor));
    }
    // SAFETY: the caller's promise.
    unsafe { sys::real_read(descriptor, buffer, length) }
}

impl Workers {
    /// Adds a worker that is not among them. One too many is not polled.
    fn remember(&self, worker: *mut c_void) {
        let known = self.places.iter().take(self.count.get()).any(|place| place.get() == worker);
        if !known && let Some(place) = self.places.get(self.count.get()) {
            place.set(worker);
            self.count.set(self.count.get() + 1);
        }
    }

    /// Polls until a read from the descriptor would come back. Does nothing where there are no workers.
    fn poll_until_readable(&self, descriptor: c_int) {
        let mut empty_polls = 0;
        while self.count.get() > 0 {
            let patience = if empty_polls < EMPTY_POLLS_BEFORE_SLEEP { 0 } else { SLEEP };
            if sys::is_readable(descriptor, patience) {
                break;
            }
            let mut events = 0;
            for worker in self.places.iter().take(self.count.get()) {
                // SAFETY: a worker that this thread polled, and that lives: its end, which comes by this thread,
                // would have emptied the list. This thread is not in UCX, but here.
                events += unsafe { sys::real_ucp_worker_progress(worker.get()) };
            }
            empty_polls = if events == 0 { empty_polls.saturating_add(1) } else { 0 };
        }
    }
}
