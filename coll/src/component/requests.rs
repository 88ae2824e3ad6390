//! The component's requests. Open MPI keeps what a call needs, datatypes and operations, by the request that a
//! component gives it, and takes that for one of its own components'. So they are of that kind, and not generalized
//! ones.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use svmio_adio::abi::openmpi::OpenMpi;
use svmio_adio::abi::{Comm, Request, SUCCESS};
use svmio_adio::{Background, ErrorClass, Failure, Mpi};

use svmio_adio::MISSING;

/// What the component does with requests.
#[derive(Debug, Clone, Copy)]
pub struct Requests {
    /// One of a communicator, whose handle it takes, not complete; 0 where there is none.
    pub start: unsafe extern "C" fn(comm: usize) -> usize,
    /// Completes one, once, with a code of MPI's. The program may free it from then on.
    pub complete: unsafe extern "C" fn(request: usize, code: c_int),
    /// Has [`complete_requests`] called whenever Open MPI makes progress.
    pub watch: extern "C" fn(),
}

static REQUESTS: OnceLock<Requests> = OnceLock::new();

/// Has collectives that do not block told of by these requests. The first ones count.
pub fn give_requests(requests: Requests) {
    let _ = REQUESTS.set(requests);
}

/// Whether a component calls this crate.
pub(crate) fn is_there() -> bool {
    REQUESTS.get().is_some()
}

/// A collective that is under way.
struct Pending {
    operation: Arc<dyn Background>,
    request: usize,
}

/// All of them. Open MPI is not called while this is locked: it may want to make progress.
static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
/// How many these are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A request that is complete when `operation` is over; `None` where this process has no component.
pub(crate) fn request_for(
    comm: Comm<OpenMpi>,
    operation: &Arc<dyn Background>,
) -> Option<Result<Request<OpenMpi>, Failure>> {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    let requests = REQUESTS.get()?;
    // SAFETY: the program's call vouches for the communicator.
    let request = unsafe { (requests.start)(comm.0) };
    if request == 0 {
        return Some(Err(Failure::new(ErrorClass::Other, "there is no memory for a request")));
    }
    PENDING
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(Pending { operation: Arc::clone(operation), request });
    // Relaxed: only a hint; whoever goes on takes the lock.
    COUNT.fetch_add(1, Ordering::Relaxed);
    // Relaxed: it decides who does it.
    if !IS_WATCHED.swap(true, Ordering::Relaxed) {
        (requests.watch)();
    }
    Some(Ok(Request(request)))
}

/// Completes the requests of all collectives that are over, and returns how many these are.
pub fn complete_requests() -> usize {
    // Relaxed: see `request_for`. Somebody else who looks, maybe this thread further up, is enough.
    if COUNT.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let over: Vec<Pending> = match PENDING.try_lock() {
        Ok(mut pending) => pending.extract_if(.., |pending| pending.operation.is_over()).collect(),
        Err(_) => return 0,
    };
    COUNT.fetch_sub(over.len(), Ordering::Relaxed);
    for Pending { operation, request } in &over {
        operation.settle();
        let code = match operation.outcome() {
            Ok(_) => SUCCESS,
            Err(failure) => Mpi::<OpenMpi>::get().map_or(MISSING, |mpi| failure.to_code(mpi)),
        };
        if let Some(requests) = REQUESTS.get() {
            // SAFETY: the request is one of `start`'s, and was taken out of those that are not complete.
            unsafe { (requests.complete)(*request, code) };
        }
    }
    over.len()
}
