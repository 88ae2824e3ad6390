//! Collectives that go on while the program computes, and their requests.
//!
//! The group carries them out ([`svmio_collectives::executor::Request`]), whatever the program does. The program has a
//! generalized request of MPI's for each ([`svmio_adio::Background`]), or one of the component's. MPI asks whether it
//! is over whenever the program tests or waits, which takes it further, too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svmio_adio::abi::{Comm, Request};
use svmio_adio::{Background, Failure};

use crate::error::{Error, Result};
use crate::face;
use crate::family::Family;
use crate::setting::Collective;
use crate::stock::Stock;

/// An operation that a group carries out.
pub(crate) trait Begun: Send {
    /// Whether it is over. Takes it further where that needs no waiting.
    fn is_over(&self) -> bool;

    /// Returns when it is over.
    fn wait(&self);

    /// Puts what came of it where the program wants it. To be called by a thread of the program's, when it is over.
    fn end(self: Box<Self>) -> Result<()>;
}

/// A collective in the background.
struct Operation<A: Family> {
    stock: &'static Stock<A>,
    collective: Collective,
    state: Mutex<State>,
}

enum State {
    Begun(Box<dyn Begun>),
    Over(Result<(), Failure>),
}

impl<A: Family> Operation<A> {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves one state or the other.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Family> Background for Operation<A> {
    fn is_over(&self) -> bool {
        match &*self.state() {
            State::Begun(begun) => begun.is_over(),
            State::Over(_) => true,
        }
    }

    fn wait(&self) {
        if let State::Begun(begun) = &*self.state() {
            begun.wait();
        }
    }

    /// MPICH asks again and again, and does nothing else meanwhile: others may need it to go on, to get as far.
    fn rest(&self) {
        self.stock.testing.test(self.stock);
        std::thread::yield_now();
    }

    fn settle(&self) {
        let mut state = self.state();
        if let State::Begun(begun) = std::mem::replace(&mut *state, State::Over(Ok(()))) {
            let failed = |error: Error| {
                // Where only this member's data could not be put in its place, the group goes on.
                let is_own = error.is_of_mpi();
                let others = "all further ones of this communicator that do not block";
                let failure = match is_own {
                    true => error.to_failure(),
                    false => face::failure_of(self.collective, &error, others),
                };
                // Some MPIs tell the program no more than that there was a failure.
                tracing::error!("{}", failure.message);
                failure
            };
            *state = State::Over(begun.end().map_err(failed));
        }
    }

    fn outcome(&self) -> Result<u64, Failure> {
        match &*self.state() {
            State::Over(outcome) => outcome.clone().map(|()| 0),
            // It is settled before it is asked for.
            State::Begun(_) => Ok(0),
        }
    }
}

/// The request for an operation.
///
/// # Errors
/// The operation's, where it is over already, and MPI's own: then it is over, too.
pub(crate) fn request_for<A: Family>(
    stock: &'static Stock<A>,
    collective: Collective,
    comm: Comm<A>,
    begun: Box<dyn Begun>,
) -> Result<Request<A>, Failure> {
    let is_over = begun.is_over();
    let operation = Arc::new(Operation { stock, collective, state: Mutex::new(State::Begun(begun)) });
    if is_over {
        operation.settle();
        operation.outcome()?;
        return stock.completed.map_or_else(|| stock.mpi.completed_request(0), Ok);
    }
    let background = Arc::clone(&operation) as Arc<dyn Background>;
    let request = A::own_request(comm, &background).unwrap_or_else(|| stock.mpi.request_for(background));
    request.inspect_err(|_| {
        // The program has nothing to wait by, and its buffers back.
        operation.wait();
        operation.settle();
    })
}
