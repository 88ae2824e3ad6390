//! MPI going on while a process waits in a group.
//!
//! A program may leave something to MPI, a message or a collective that does not block, and another process may wait
//! for that while this one waits in a collective. MPI's own collectives go on with it meanwhile, and so must ours. The
//! one portable way to have MPI do so is to test a request that is not complete.

use std::sync::{Mutex, PoisonError};

use svmio_adio::abi::Request;

use crate::family::Family;
use crate::stock::Stock;

/// The request that is tested, as a number of its family's; `None` before the first group and after the last.
pub(crate) struct Testing<A: Family>(Mutex<Option<Request<A>>>);

impl<A: Family> Testing<A> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Makes the request, if there is none.
    pub(crate) fn start(&self, stock: &Stock<A>) {
        let mut request = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if request.is_none() {
            *request = stock.start_request();
        }
    }

    /// Ends the request.
    pub(crate) fn end(&self, stock: &Stock<A>) {
        if let Some(request) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            stock.complete(request);
        }
    }

    /// Has MPI go on, unless another thread does at this moment.
    pub(crate) fn test(&self, stock: &Stock<A>) {
        if let Ok(mut request) = self.0.try_lock()
            && let Some(request) = request.as_mut()
        {
            stock.test(request);
        }
    }
}

/// Has MPI go on.
pub(crate) fn advance<A: Family>() {
    if let Some(stock) = A::stock().get() {
        stock.testing.test(stock);
    }
}
