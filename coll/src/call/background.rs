//! One call of a collective that does not block, on one member.
//!
//! What a member gives is read, where it lies in a row, when the operation comes to it, and otherwise packed at once.
//! What it gets in a buffer with gaps is unpacked by a thread of the program's when it is over: only those may call
//! MPI. For the same reason reductions are left to MPI whose operation is MPI's or the program's to carry out; by MPI's
//! rules all members see the same operation and datatype there.

use crate::background::Begun;
use crate::behind::{Behind, Going};
use crate::error::{Error, Result};
use crate::family::Family;
use crate::stock::Stock;

mod moving;
mod reducing;
mod varying;

/// What a call has besides its arguments.
pub(crate) struct Start<'c, A: Family> {
    pub(crate) stock: &'static Stock<A>,
    pub(crate) group: Behind<'c>,
    /// Of less data, in bytes, MPI does the collective: all members have to come to the same.
    pub(crate) least: usize,
}

/// The operation, where the call was taken; not where its arguments are wrong, or MPI has to do it.
pub(crate) type Outcome = Result<Option<Box<dyn Begun>>>;

/// Goes on with an argument, or leaves the call to MPI.
macro_rules! or_leave {
    ($argument:expr) => {
        match $argument {
            Some(argument) => argument,
            None => return Ok(None),
        }
    };
}
use or_leave;

impl<A: Family> Start<'_, A> {
    /// Whether a call is taken of which all members know that it has so many bytes for each other.
    fn takes(&self, bytes: usize) -> Option<()> {
        (bytes >= self.least).then_some(())
    }

    /// Whether one is of which each member knows only its own amounts, or that has none.
    fn takes_any(&self) -> Option<()> {
        self.takes(0)
    }

    /// Which member the root of a call is.
    fn root(&self, root: std::ffi::c_int) -> Option<usize> {
        usize::try_from(root).ok().filter(|&root| root < self.group.size())
    }
}

/// An operation that was begun, and what is done with its memory when it is over.
struct Ending<B, E> {
    request: Going<B>,
    end: E,
}

fn begun<B: Send + 'static>(
    request: Going<B>,
    end: impl FnOnce(B) -> Result<()> + Send + 'static,
) -> Outcome {
    Ok(Some(Box::new(Ending { request, end })))
}

impl<B: Send, E: FnOnce(B) -> Result<()> + Send> Begun for Ending<B, E> {
    fn is_over(&self) -> bool {
        self.request.test()
    }

    fn wait(&self) {
        self.request.wait_until_done();
    }

    fn end(self: Box<Self>) -> Result<()> {
        let Self { request, end } = *self;
        end(request.wait().map_err(Error::from)?)
    }
}
