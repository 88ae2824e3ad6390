//! MPI going on while a process waits for others by svmio's own means.
//!
//! A program may leave something to MPI, a long message or a collective that does not block, and another process may
//! wait for that while this one waits here. MPI's own collectives go on with it meanwhile, and so must ours. The one
//! portable way to have MPI do so is to test a request that is not complete.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use svmio_transport::spawn_service_thread;

use crate::abi::{Abi, Request};
use crate::calls::Mpi;

/// Between two looks whether something else is over.
const PAUSE: Duration = Duration::from_micros(100);

/// The request that is tested; `None` before it is needed, and at the end.
pub(crate) struct Testing<A: Abi>(Mutex<Option<Request<A>>>);

impl<A: Abi> Testing<A> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }
}

/// What a process's MPI does, whatever family it is of.
struct Acts {
    advance: fn(),
    end: fn(),
}

static ACTS: OnceLock<Acts> = OnceLock::new();

/// Readies MPI for [`advance`].
pub(crate) fn start<A: Abi>(mpi: &Mpi<A>) {
    let mut request = mpi.testing.0.lock().unwrap_or_else(PoisonError::into_inner);
    if request.is_none() {
        *request = mpi.start_request();
    }
    ACTS.get_or_init(|| Acts { advance: advance::<A>, end: end::<A> });
}

/// Has MPI go on, unless another thread does at this moment.
pub(crate) fn advance<A: Abi>() {
    if let Ok(mpi) = Mpi::<A>::get()
        && let Ok(mut request) = mpi.testing.0.try_lock()
        && let Some(request) = request.as_mut()
    {
        mpi.test(request);
    }
}

fn end<A: Abi>() {
    if let Ok(mpi) = Mpi::<A>::get()
        && let Some(request) = mpi.testing.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    {
        mpi.complete(request);
    }
}

/// Before MPI is finalized: nothing is tested any more.
pub(crate) fn finish() {
    if let Some(acts) = ACTS.get() {
        (acts.end)();
    }
}

/// Has a thread do `work`, which waits for other processes, and MPI go on meanwhile. `None` where there can be no
/// thread, or it panics.
pub(crate) fn advancing_while<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let Some(acts) = ACTS.get() else { return Some(work()) };
    let working = spawn_service_thread_for("svmio-waiting", work)?;
    loop {
        match working.recv_timeout(PAUSE) {
            Ok(value) => return Some(value),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => (acts.advance)(),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn spawn_service_thread_for<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<std::sync::mpsc::Receiver<T>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let body = move || {
        // Nobody waits any more where the process ends.
        let _ = sender.send(work());
    };
    match spawn_service_thread(name, body) {
        Ok(_) => Some(receiver),
        Err(error) => {
            tracing::error!("{error}");
            None
        }
    }
}
