//! Statuses, and requests: for what is over when they start, and for what goes on in the background.
//!
//! A generalized request is complete when MPI is told so, which only a thread of the program's may do. MPICH asks an
//! operation's own function whenever the program tests or waits (its extension `MPIX_Grequest_start`), but for
//! `MPI_Request_get_status`, which is preloaded for that ([`complete_requests`]); Open MPI lets functions be called
//! whenever it makes progress (`opal_progress_register`).

use std::ffi::{c_double, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Mpi, check};
use crate::abi::{Abi, Request, SUCCESS};
use crate::failure::{ErrorClass, Failure};

/// What a request is for: it goes on whatever the program does. All but [`settle`](Self::settle) call nothing of MPI's.
pub trait Background: Send + Sync {
    /// Whether it is over. Takes it further where that needs no waiting.
    fn is_over(&self) -> bool;

    /// Returns when it is over.
    fn wait(&self);

    /// Gives the processor to somebody else: it was asked for in vain again and again.
    fn rest(&self);

    /// Does what is left to a thread of the program's once it is over, before MPI is told.
    fn settle(&self) {}

    /// What became of it, once it is over: how many bytes its status tells of.
    ///
    /// # Errors
    /// What went wrong.
    fn outcome(&self) -> Result<u64, Failure>;
}

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

    /// A request that is not complete before [`complete`](Self::complete).
    pub(crate) fn start_request(&self) -> Option<Request<A>> {
        let mut request = self.constants.request_null;
        let (none, to) = (std::ptr::null_mut(), &raw mut request);
        // SAFETY: the functions need no state.
        let code =
            unsafe { (self.grequest_start)(query_nothing::<A>, free_nothing, cancel_request, none, to) };
        (code == SUCCESS).then_some(request)
    }

    /// Tests a request, which has MPI go on with all that it has to do.
    pub(crate) fn test(&self, request: &mut Request<A>) {
        let mut is_complete = 0;
        let status = A::STATUS_IGNORE as *mut A::Status;
        // SAFETY: the request is one of `start_request`'s, or the null one when it was complete.
        unsafe { (self.test)(request, &raw mut is_complete, status) };
    }

    /// Completes a request of [`start_request`](Self::start_request), which is gone then.
    pub(crate) fn complete(&self, mut request: Request<A>) {
        // SAFETY: the request is one of `start_request`'s.
        unsafe { (self.grequest_complete)(request) };
        self.test(&mut request);
    }

    /// Whether this MPI can tell of what goes on in the background.
    #[must_use]
    pub fn has_background_requests(&self) -> bool {
        self.asks_operations() || self.progress_register.is_some()
    }

    /// Whether this MPI, as MPICH, asks an operation's own function when the program waits, and may have its locks
    /// meanwhile.
    #[must_use]
    pub fn asks_operations(&self) -> bool {
        self.grequest_start_extended.is_some()
    }

    /// A request that is complete when `operation` is over, and has its bytes in the status.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub fn request_for(&self, operation: Arc<dyn Background>) -> Result<Request<A>, Failure> {
        let (null, is_complete) = (self.constants.request_null, AtomicBool::new(false));
        let pending = Arc::new(Pending::<A> {
            operation,
            request: Mutex::new(null),
            is_complete,
            polls: AtomicU32::new(0),
        });
        let mut request = null;
        // Of the two, one for MPI, released by `free_pending`.
        let state = Arc::into_raw(Arc::clone(&pending)).cast_mut().cast();
        let (query, free) = (query_pending::<A>, free_pending::<A>);
        let code = match self.grequest_start_extended {
            // SAFETY: all functions take the state that is given here.
            Some(start) => unsafe {
                start(
                    query,
                    free,
                    cancel_request,
                    poll_pending::<A>,
                    wait_for_pending::<A>,
                    state,
                    &raw mut request,
                )
            },
            // SAFETY: likewise.
            None => unsafe { (self.grequest_start)(query, free, cancel_request, state, &raw mut request) },
        };
        check(code, "MPI_Grequest_start").inspect_err(|_| {
            // SAFETY: MPI did not take the state; it came from an Arc just now.
            drop(unsafe { Arc::from_raw(state.cast::<Pending<A>>().cast_const()) });
        })?;
        *pending.request.lock().unwrap_or_else(PoisonError::into_inner) = request;
        self.watch(Box::new(pending));
        Ok(request)
    }

    /// Keeps `watched` where [`complete_requests`] finds it, which Open MPI calls whenever it makes progress.
    fn watch(&self, watched: Box<dyn Watched>) {
        static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
        complete_requests();
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).push(watched);
        // Relaxed: only a hint; whoever goes on takes the lock.
        COUNT.fetch_add(1, Ordering::Relaxed);
        if let (Some(register), false) = (self.progress_register, IS_REGISTERED.swap(true, Ordering::Relaxed))
        {
            // SAFETY: the function is there as long as the process.
            unsafe { register(on_progress) };
        }
    }
}

type Query<A> = unsafe extern "C" fn(*mut c_void, *mut <A as Abi>::Status) -> c_int;
/// `MPIX_Grequest_start` in mpi.h of MPICH 4.0.2; of its two names only the second is there under the MPI ABI.
pub(super) type ExtendedStart<A> = unsafe extern "C" fn(
    Query<A>,
    unsafe extern "C" fn(*mut c_void) -> c_int,
    unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    Query<A>,
    unsafe extern "C" fn(c_int, *mut *mut c_void, c_double, *mut <A as Abi>::Status) -> c_int,
    *mut c_void,
    *mut Request<A>,
) -> c_int;

/// `opal_progress_register` in opal/runtime/opal_progress.h of Open MPI 4.1.4.
pub(super) type RegisterProgress = unsafe extern "C" fn(unsafe extern "C" fn() -> c_int) -> c_int;

/// What a request in the background is for.
struct Pending<A: Abi> {
    operation: Arc<dyn Background>,
    request: Mutex<Request<A>>,
    /// Whether MPI was told.
    is_complete: AtomicBool,
    /// How often it was asked for in vain.
    polls: AtomicU32,
}

impl<A: Abi> Pending<A> {
    /// Tells MPI if it is over; whether it is.
    fn complete_if_over(&self) -> bool {
        if !self.operation.is_over() {
            return false;
        }
        let request = *self.request.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: it decides who tells, and orders nothing.
        if let (Ok(mpi), false) = (Mpi::<A>::get(), self.is_complete.swap(true, Ordering::Relaxed)) {
            self.operation.settle();
            // SAFETY: the request was started, and this is the first time that it is completed.
            unsafe { (mpi.grequest_complete)(request) };
        }
        true
    }
}

/// Something that MPI is told of when it is over, whatever family it is of.
trait Watched: Send {
    /// Whether it is over. Calls nothing of MPI's.
    fn is_over(&self) -> bool;

    /// Tells MPI.
    fn complete(&self);
}

impl<A: Abi> Watched for Arc<Pending<A>> {
    fn is_over(&self) -> bool {
        self.operation.is_over()
    }

    fn complete(&self) {
        self.complete_if_over();
    }
}

/// What goes on in the background. MPI is not called while this is locked: it has locks of its own.
static WATCHED: Mutex<Vec<Box<dyn Watched>>> = Mutex::new(Vec::new());
/// How many these are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Tells MPI of all operations in the background that are over; returns how many these are.
pub fn complete_requests() -> usize {
    // Relaxed: see `watch`. Somebody else who looks, maybe this thread further up, is enough.
    if COUNT.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let over: Vec<_> = match WATCHED.try_lock() {
        Ok(mut watched) => watched.extract_if(.., |watched| watched.is_over()).collect(),
        Err(_) => return 0,
    };
    COUNT.fetch_sub(over.len(), Ordering::Relaxed);
    over.iter().for_each(|watched| watched.complete());
    over.len()
}

unsafe extern "C" fn on_progress() -> c_int {
    complete_requests() as c_int
}

unsafe extern "C" fn query_pending<A: Abi>(state: *mut c_void, status: *mut A::Status) -> c_int {
    // SAFETY: the state is that of `request_for`, alive until `free_pending`.
    let pending = unsafe { &*state.cast::<Pending<A>>() };
    let Ok(mpi) = Mpi::<A>::get() else { return A::error_class(ErrorClass::Other) };
    let (moved, code) = match pending.operation.outcome() {
        Ok(moved) => (moved, SUCCESS),
        Err(failure) => (0, failure.to_code(mpi)),
    };
    // SAFETY: MPI passes a status of its own.
    unsafe {
        mpi.set_status(status, moved);
        (mpi.status_set_cancelled)(status, 0);
    }
    code
}

unsafe extern "C" fn free_pending<A: Abi>(state: *mut c_void) -> c_int {
    // SAFETY: the state is that of `request_for`, and MPI frees a request once.
    drop(unsafe { Arc::from_raw(state.cast::<Pending<A>>().cast_const()) });
    SUCCESS
}

/// MPICH asks again and again, at once, when the program waits: the processor is somebody else's now and then.
unsafe extern "C" fn poll_pending<A: Abi>(state: *mut c_void, _status: *mut A::Status) -> c_int {
    const EVERY: u32 = 64;
    // SAFETY: as in `query_pending`.
    let pending = unsafe { &*state.cast::<Pending<A>>() };
    // Relaxed: only a count.
    let is_long = pending.polls.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1;
    if is_long {
        pending.operation.rest();
    }
    pending.complete_if_over();
    SUCCESS
}

unsafe extern "C" fn wait_for_pending<A: Abi>(
    count: c_int,
    states: *mut *mut c_void,
    _seconds: c_double,
    _status: *mut A::Status,
) -> c_int {
    for number in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: MPI passes so many states of `request_for`.
        let pending = unsafe { &*(*states.add(number)).cast::<Pending<A>>() };
        pending.operation.wait();
        pending.complete_if_over();
    }
    SUCCESS
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

unsafe extern "C" fn query_nothing<A: Abi>(_state: *mut c_void, status: *mut A::Status) -> c_int {
    let Ok(mpi) = Mpi::<A>::get() else { return A::error_class(ErrorClass::Other) };
    // SAFETY: MPI passes a status of its own.
    unsafe {
        mpi.set_status(status, 0);
        (mpi.status_set_cancelled)(status, 0)
    }
}

unsafe extern "C" fn free_nothing(_: *mut c_void) -> c_int {
    SUCCESS
}

unsafe extern "C" fn free_request(state: *mut c_void) -> c_int {
    // SAFETY: the state is the box of `completed_request`, and MPI frees a request once.
    drop(unsafe { Box::from_raw(state.cast::<u64>()) });
    SUCCESS
}

unsafe extern "C" fn cancel_request(_: *mut c_void, _: c_int) -> c_int {
    // It is too late for cancelling, which MPI permits.
    SUCCESS
}
